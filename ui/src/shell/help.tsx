import { tenantPages } from "@/pages";
import { Dialog } from "@/parts/dialog";
import { isMac } from "@/shell/shell";

const KEYS: [string, string][] = [
  ["j k", "next row, previous row"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["/", "focus the filter"],
  [".", "pause or resume live updates"],
  ["Esc", "close, or clear the selection"],
  ["?", "show keyboard shortcuts"],
];

export function Help({ onClose }: { onClose: () => void }) {
  const own: [string, string][] = [
    [isMac() ? "⌘ K" : "Ctrl K", "search pages and actions"],
    ...KEYS,
    ...tenantPages
      .filter((page) => page.keys)
      .map((page): [string, string] => [page.keys ?? "", page.label]),
  ];
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose} width="max-w-md">
      <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-2">
        {own.map(([keys, text]) => (
          <div key={keys} className="contents">
            <dt className="flex gap-1">
              {keys.split(" ").map((key) => (
                <kbd
                  key={key}
                  className="rounded border border-line bg-raised px-1.5 font-sans text-xs"
                >
                  {key}
                </kbd>
              ))}
            </dt>
            <dd className="text-muted">{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
