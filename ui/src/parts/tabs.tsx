import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

interface Props {
  label: string;
  /** The URL parameter. The first tab is the default, without a parameter. */
  name: string;
  tabs: [string, ReactNode][];
  active: string;
}

/** Tabs of a page. The active tab is stored in the URL. */
export function Tabs({ label, name, tabs, active }: Props) {
  return (
    <nav aria-label={label} className="min-w-0 overflow-x-auto">
      <ul className="flex gap-1 border-line border-b">
        {tabs.map(([value, text], index) => (
          <li key={value}>
            <Link
              to="."
              search={(old: Record<string, string | undefined>) => ({
                ...old,
                [name]: index === 0 ? undefined : value,
              })}
              replace
              aria-current={value === active ? "page" : undefined}
              className={`-mb-px flex h-9 items-center whitespace-nowrap border-b-2 px-2.5 ${value === active ? "border-accent font-medium" : "border-transparent text-muted hover:text-text"}`}
            >
              {text}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}
