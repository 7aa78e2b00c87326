import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { Button } from "@/parts/button";

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [isDone, setDone] = useState(false);
  return (
    <Button
      look="quiet"
      icon={isDone ? Check : Copy}
      label={isDone ? "Copied" : label}
      onClick={() => {
        void copy(text).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 1500);
        });
      }}
    />
  );
}

/** Copy the text. Also works over plain http, where browsers offer no clipboard API. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text).catch(() => copyOldWay(text));
    return;
  }
  copyOldWay(text);
}

function copyOldWay(text: string): void {
  const area = document.createElement("textarea");
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** An ID, shortened to its distinguishing parts; the full ID is the tooltip. */
export function Id({ id }: { id: string }) {
  return (
    <span className="font-mono text-xs" title={id}>
      {shortId(id)}
    </span>
  );
}

/**
 * For narrow spaces. IDs in order of creation differ only at their end; of other IDs, any part will
 * do.
 */
export function idEnd(id: string): string {
  return UUID.test(id) ? id.slice(-8) : id;
}

export function IdEnd({ id }: { id: string }) {
  return (
    <span className="font-mono text-xs" title={id}>
      {idEnd(id)}
    </span>
  );
}

const UUID = /^[\da-f]{8}-[\da-f-]{27}$/;

/** Names chosen by users are not shortened. */
export function shortId(id: string): string {
  return UUID.test(id) ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}
