/** Form fields. */

import { type ComponentProps, type ReactNode, useId } from "react";

const BOX =
  "w-full rounded-md border border-line bg-surface px-2.5 text-sm hover:border-strong focus:border-accent focus:outline-none focus-visible:outline-2 focus-visible:outline-accent";

interface FieldProps {
  label: string;
  hint?: ReactNode;
  children: (id: string) => ReactNode;
  isRequired?: boolean;
}

export function Field({ label, hint, children, isRequired = false }: FieldProps) {
  const id = useId();
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="font-medium">
        {label}
        {isRequired && <span className="text-bad"> *</span>}
      </label>
      {children(id)}
      {hint && <p className="text-faint text-xs">{hint}</p>}
    </div>
  );
}

export function Input({ className = "", ...rest }: ComponentProps<"input">) {
  return (
    <input autoComplete="off" spellCheck={false} className={`h-8 ${BOX} ${className}`} {...rest} />
  );
}

export function Area({ className = "", ...rest }: ComponentProps<"textarea">) {
  return (
    <textarea
      spellCheck={false}
      className={`py-1.5 font-mono text-xs leading-5 ${BOX} ${className}`}
      {...rest}
    />
  );
}

export function Select({ className = "", ...rest }: ComponentProps<"select">) {
  return <select className={`chevron h-8 pr-7 ${BOX} ${className}`} {...rest} />;
}

export function Check({ label, ...rest }: ComponentProps<"input"> & { label: ReactNode }) {
  return (
    <label className="flex items-center gap-2">
      <input type="checkbox" className="size-4 accent-accent" {...rest} />
      {label}
    </label>
  );
}
