/** Loading, empty and error states. */

import { RotateCw, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { Problem } from "@/api/client";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy";

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div role="status" aria-label="Loading" className="flex flex-col gap-3 p-4">
      {Array.from({ length: rows }, (_, index) => (
        <div key={`row ${index + 1}`} className="flex animate-pulse gap-4">
          <div className="h-4 w-24 rounded bg-raised" />
          <div className="h-4 flex-1 rounded bg-raised" />
          <div className="h-4 w-16 rounded bg-raised" />
        </div>
      ))}
    </div>
  );
}

export function Empty({
  title,
  children,
  code,
}: {
  title: string;
  children?: ReactNode;
  code?: string;
}) {
  return (
    <div className="mx-auto flex max-w-xl flex-col items-center gap-2 px-6 py-12 text-center">
      <h2 className="font-semibold text-base">{title}</h2>
      {children && <div className="text-muted">{children}</div>}
      {code && <Snippet text={code} />}
    </div>
  );
}

export function Snippet({ text }: { text: string }) {
  const shape = text.includes("\n") ? "overflow-x-auto" : "whitespace-pre-wrap break-words";
  return (
    <div className="mt-2 flex w-full items-start rounded-lg border border-line bg-raised text-left">
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
        tabIndex={0}
        className={`min-w-0 flex-1 py-2.5 pl-3 font-mono text-xs leading-5 ${shape}`}
      >
        {text}
      </pre>
      <span className="my-1 mr-1 shrink-0">
        <CopyButton text={text} />
      </span>
    </div>
  );
}

export function Failure({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const problem = error instanceof Problem ? error : null;
  return (
    <div
      role="alert"
      className="mx-auto flex max-w-xl flex-col items-center gap-2 px-6 py-10 text-center"
    >
      <TriangleAlert size={20} className="text-bad" aria-hidden />
      <h2 className="font-semibold text-base">{titleOf(problem)}</h2>
      <p className="break-words text-muted">
        {error instanceof Error ? error.message : String(error)}
      </p>
      {problem?.requestId && (
        <p className="flex items-center gap-1 text-faint text-xs">
          Request ID <code className="break-all font-mono">{problem.requestId}</code>
          <CopyButton text={problem.requestId} />
        </p>
      )}
      {onRetry && (
        <Button icon={RotateCw} onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

function titleOf(problem: Problem | null): string {
  if (problem === null) return "Something went wrong";
  if (problem.status === 0) return "No connection";
  if (problem.status === 403) return "Not allowed";
  if (problem.status === 404) return "Not found";
  return "Request failed";
}

/** A notice at the top of a page, for something that needs attention. */
export function Notice({ isBad = false, children }: { isBad?: boolean; children: ReactNode }) {
  return (
    <div
      role="alert"
      className={`flex items-start gap-2 rounded-lg px-4 py-2.5 ${isBad ? "bg-bad-soft text-bad" : "bg-warn-soft text-warn"}`}
    >
      <TriangleAlert size={15} className="mt-0.5 shrink-0" aria-hidden />
      <p className="min-w-0 break-words">{children}</p>
    </div>
  );
}

/** The errors of a form, each with its field. */
export function FormError({ error }: { error: unknown }) {
  if (!error) return null;
  const problem = error instanceof Problem ? error : null;
  return (
    <div role="alert" className="rounded-md bg-bad-soft px-3 py-2 text-bad">
      {problem && problem.faults.length > 0 ? (
        <ul>
          {problem.faults.map((fault) => (
            <li key={`${fault.field}${fault.message}`}>
              {fault.field && <code className="font-mono">{fault.field}</code>} {fault.message}
            </li>
          ))}
        </ul>
      ) : (
        <p>{error instanceof Error ? error.message : String(error)}</p>
      )}
      {problem?.requestId && (
        <p className="mt-1 text-xs">
          Request ID <code className="break-all font-mono">{problem.requestId}</code>
        </p>
      )}
    </div>
  );
}
