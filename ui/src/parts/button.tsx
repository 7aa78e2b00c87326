import type { LucideIcon } from "lucide-react";
import type { ComponentProps, ReactNode } from "react";

type Look = "plain" | "primary" | "danger" | "quiet";

const LOOKS: Record<Look, string> = {
  plain: "border border-line bg-surface text-text hover:bg-hover hover:border-strong",
  primary: "border border-transparent bg-accent text-on-accent hover:opacity-90",
  danger: "border border-line bg-surface text-bad hover:bg-bad-soft hover:border-bad",
  quiet: "border border-transparent text-muted hover:bg-hover hover:text-text",
};

interface Props extends ComponentProps<"button"> {
  look?: Look;
  icon?: LucideIcon;
  /** Accessible name of a button that has only an icon. */
  label?: string;
  /** Ignores the second click of a double click, for buttons that act at once. */
  isOnce?: boolean;
  children?: ReactNode;
}

export function Button({
  look = "plain",
  icon: Icon,
  label,
  isOnce = false,
  children,
  className = "",
  onClick,
  ...rest
}: Props) {
  const size = children === undefined ? "w-7 justify-center" : "px-2.5";
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      onClick={(event) => {
        if (!isOnce || event.detail < 2) onClick?.(event);
      }}
      className={`inline-flex h-7 shrink-0 items-center gap-1.5 whitespace-nowrap rounded-md font-medium text-sm transition-colors disabled:opacity-50 ${size} ${LOOKS[look]} ${className}`}
      {...rest}
    >
      {Icon && <Icon size={14} strokeWidth={2} aria-hidden className="shrink-0" />}
      {children}
    </button>
  );
}
