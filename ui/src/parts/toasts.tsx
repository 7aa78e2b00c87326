/** Toasts: short messages about actions, which disappear after a while. */

import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Problem } from "@/api/client";
import { Button } from "@/parts/button";
import { createStore } from "@/store";

interface Toast {
  id: number;
  body: ReactNode;
  isBad: boolean;
}

const toasts = createStore<Toast[]>([]);
let count = 0;

export function toast(body: ReactNode, options: { isBad?: boolean; lastsMs?: number } = {}): void {
  count += 1;
  const id = count;
  toasts.set([...toasts.get().slice(-3), { id, body, isBad: options.isBad ?? false }]);
  setTimeout(() => dismiss(id), options.lastsMs ?? 5_000);
}

export function toastError(error: unknown): void {
  const request =
    error instanceof Problem && error.requestId ? ` (request ID ${error.requestId})` : "";
  const text = error instanceof Error ? error.message : String(error);
  toast(text + request, { isBad: true, lastsMs: 10_000 });
}

function dismiss(id: number): void {
  toasts.set(toasts.get().filter((each) => each.id !== id));
}

export function Toasts() {
  const shown = toasts.use();
  return (
    <section
      aria-live="polite"
      aria-label="Notifications"
      className="pointer-events-none fixed right-4 bottom-4 left-4 z-50 flex flex-col items-end gap-2 sm:left-auto sm:w-96"
    >
      {shown.map((each) => (
        <div
          key={each.id}
          className={`pointer-events-auto flex w-full items-start gap-2 rounded-lg border bg-surface py-2 pr-1.5 pl-3 shadow-float ${each.isBad ? "border-bad text-bad" : "border-line"}`}
        >
          <div className="min-w-0 flex-1 break-words py-1">{each.body}</div>
          <Button look="quiet" icon={X} label="Dismiss" onClick={() => dismiss(each.id)} />
        </div>
      ))}
    </section>
  );
}
