/** The frame of a detail page: parent list, title, actions. */

import { Link } from "@tanstack/react-router";
import { ChevronLeft } from "lucide-react";
import type { ReactNode } from "react";
import { useTitle } from "@/parts/page";

interface BackProps {
  to: string;
  label: string;
}

interface Props {
  back: BackProps;
  title: string;
  /** The state next to the title. */
  standing?: ReactNode;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Detail({ back, title, standing, lead, actions, children }: Props) {
  useTitle(title);
  return (
    <div className="mx-auto flex w-full max-w-[1400px] flex-col gap-4 p-4 lg:px-6 lg:py-5">
      <header className="flex flex-wrap items-start justify-between gap-x-4 gap-y-3">
        <div className="min-w-0">
          <Back {...back} />
          <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <h1 className="break-all font-semibold text-lg leading-7 tracking-tight">{title}</h1>
            {standing}
          </div>
          {lead && (
            <div className="wrap-anywhere flex min-w-0 items-center gap-1 text-muted">{lead}</div>
          )}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** A link to the list that contains this item. */
export function Back({ to, label }: BackProps) {
  return (
    <Link
      to={to}
      className="mb-1 inline-flex items-center gap-0.5 text-faint text-xs hover:text-text"
    >
      <ChevronLeft size={12} aria-hidden />
      {label}
    </Link>
  );
}
