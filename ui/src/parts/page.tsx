/** The frame of a page: title, actions, and panels. */

import type { ReactNode } from "react";
import { useEffect } from "react";

interface Props {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, lead, actions, children }: Props) {
  useTitle(title);
  return (
    <div className="mx-auto flex w-full max-w-[1400px] flex-col gap-4 p-4 lg:px-6 lg:py-5">
      <header className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
        <div className="min-w-0">
          <h1 className="font-semibold text-lg leading-7 tracking-tight">{title}</h1>
          {lead && <p className="text-muted">{lead}</p>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · JobForge`;
  }, [title]);
}

export function Panel({
  title,
  actions,
  children,
  className = "",
}: {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}) {
  return (
    <section className={`min-w-0 rounded-lg border border-line bg-surface ${className}`}>
      {title && (
        <header className="flex min-h-10 items-center justify-between gap-3 border-line border-b py-1 pr-2 pl-4">
          <h2 className="font-semibold">{title}</h2>
          {actions && <div className="flex items-center gap-1">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}
