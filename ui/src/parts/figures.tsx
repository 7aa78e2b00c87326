/** A row of key figures, the most important one larger. Each links to its details. */

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

export function Figures({ children }: { children: ReactNode }) {
  return (
    <dl className="grid grid-cols-2 gap-px overflow-hidden rounded-lg border border-line bg-line sm:grid-cols-3 xl:grid-cols-[1.5fr_repeat(6,1fr)]">
      {children}
    </dl>
  );
}

interface Props {
  title: string;
  value: string;
  to: string;
  search?: Record<string, string>;
  isBad?: boolean;
}

export function Figure(props: Props) {
  return <FigureContent {...props} size="text-2xl leading-8" />;
}

/** The main figure. On narrow screens it takes a full row, so that six others fill theirs. */
export function Headline(props: Props) {
  return (
    <FigureContent
      {...props}
      size="whitespace-nowrap text-3xl leading-8 xl:max-2xl:text-[26px]"
      place="col-span-2 sm:col-span-3 xl:col-span-1"
    />
  );
}

function FigureContent({
  title,
  value,
  to,
  search,
  isBad = false,
  size,
  place = "",
}: Props & { size: string; place?: string }) {
  return (
    <div
      className={`relative flex flex-col-reverse justify-end bg-surface px-4 py-3 hover:bg-hover ${place}`}
    >
      <dt className="truncate text-muted" title={title}>
        <Link to={to} search={search ?? {}} className="after:absolute after:inset-0">
          {title}
        </Link>
      </dt>
      <dd className={`num font-semibold tracking-tight ${size} ${isBad ? "text-bad" : ""}`}>
        {value}
      </dd>
    </div>
  );
}
