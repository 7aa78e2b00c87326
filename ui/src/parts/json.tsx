/** A JSON value as a tree of text. Values are never interpreted as markup. */

import { ChevronDown, ChevronRight } from "lucide-react";
import { useState } from "react";
import { Exact, print } from "@/api/json";
import { CopyButton } from "@/parts/copy";

const MOST = 100;

export function JsonView({ value, label }: { value: unknown; label: string }) {
  return (
    <div className="relative">
      <div
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
        tabIndex={0}
        role="region"
        aria-label={label}
        className="max-h-96 overflow-auto py-2 pr-10 pl-4 font-mono text-xs leading-5"
      >
        <Node value={value} depth={0} />
      </div>
      <span className="absolute top-1 right-1">
        <CopyButton text={print(value)} label={`Copy ${label.toLowerCase()}`} />
      </span>
    </div>
  );
}

function Node({ value, name, depth }: { value: unknown; name?: string; depth: number }) {
  const [isOpen, setOpen] = useState(depth < 2);
  if (value === null || typeof value !== "object" || value instanceof Exact) {
    return (
      <div className="break-words pl-4">
        <Name name={name} />
        <Leaf value={value} />
      </div>
    );
  }
  const entries = Object.entries(value);
  const isList = Array.isArray(value);
  if (entries.length === 0) {
    return (
      <div className="pl-4">
        <Name name={name} />
        <span className="text-faint">{isList ? "[]" : "{}"}</span>
      </div>
    );
  }
  const Icon = isOpen ? ChevronDown : ChevronRight;
  return (
    <div>
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
        className="flex items-center rounded hover:bg-hover"
      >
        <Icon size={12} className="mr-1 text-faint" aria-hidden />
        <Name name={name} />
        <span className="text-faint">
          {isList ? `[${entries.length}]` : isOpen && depth === 0 ? "{" : `{${entries.length}}`}
        </span>
      </button>
      {isOpen && (
        <div className="ml-1.5 border-line border-l pl-2">
          {entries.slice(0, MOST).map(([key, each]) => (
            <Node key={key} name={key} value={each} depth={depth + 1} />
          ))}
          {entries.length > MOST && (
            <div className="pl-4 text-faint">{entries.length - MOST} more. Copy to see all.</div>
          )}
        </div>
      )}
    </div>
  );
}

function Name({ name }: { name: string | undefined }) {
  if (name === undefined) return null;
  return <span className="mr-2 text-muted">{name}:</span>;
}

function Leaf({ value }: { value: unknown }) {
  if (typeof value === "string") {
    if (value === "[redacted]") return <span className="text-faint">•••</span>;
    return <span className="whitespace-pre-wrap text-ok">{JSON.stringify(value)}</span>;
  }
  if (value === null) return <span className="text-faint">null</span>;
  if (typeof value === "boolean") return <span className="text-plan">{String(value)}</span>;
  return <span className="text-run">{String(value)}</span>;
}
