import { LOOKS } from "@/jobs/states";

/** A state or outcome with its shape, label and color. */
export function State({ name, isQuiet = false }: { name: string; isQuiet?: boolean }) {
  const look = LOOKS[name];
  if (look === undefined) return <span>{name}</span>;
  const Icon = look.icon;
  return (
    <span className={`flex items-center gap-1.5 whitespace-nowrap font-medium ${look.color}`}>
      <Icon
        size={14}
        strokeWidth={2.25}
        aria-hidden={!isQuiet}
        aria-label={isQuiet ? look.label : undefined}
        className={`shrink-0 ${name === "running" ? "animate-pulse" : ""}`}
      />
      {!isQuiet && look.label}
    </span>
  );
}
