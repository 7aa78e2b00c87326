import { Link } from "@tanstack/react-router";

interface Props {
  label: string;
  /** The URL parameter. The first choice is the default, without a parameter. */
  name: string;
  choices: readonly (readonly [string, string])[];
  active: string;
}

/** A segmented control. The choice is stored in the URL. */
export function Choice({ label, name, choices, active }: Props) {
  return (
    <nav aria-label={label} className="flex rounded-md bg-raised p-0.5">
      {choices.map(([value, text], index) => (
        <Link
          key={value}
          to="."
          search={(old: Record<string, string | undefined>) => ({
            ...old,
            [name]: index === 0 ? undefined : value,
          })}
          replace
          resetScroll={false}
          aria-current={value === active ? "true" : undefined}
          className={`rounded px-2 py-0.5 text-xs ${value === active ? "bg-surface font-medium shadow-sm ring-1 ring-line" : "text-muted hover:text-text"}`}
        >
          {text}
        </Link>
      ))}
    </nav>
  );
}
