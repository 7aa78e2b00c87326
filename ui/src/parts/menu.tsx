/** A dropdown menu in the browser's top layer. Rendered only while it is open. */

import type { LucideIcon } from "lucide-react";
import {
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from "react";

export interface Item {
  label: string;
  icon?: LucideIcon;
  act: () => void;
  isDangerous?: boolean;
}

interface TriggerProps {
  onClick: () => void;
  "aria-haspopup": "menu";
  "aria-expanded": boolean;
}

interface Props {
  trigger: (props: TriggerProps) => ReactNode;
  items: Item[];
  label: string;
  isOpenAtFirst?: boolean;
}

export function Menu({ trigger, items, label, isOpenAtFirst = false }: Props) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const anchor = useRef<HTMLSpanElement>(null);
  return (
    <span ref={anchor} className="inline-flex min-w-0">
      {trigger({
        onClick: () => setOpen(!isOpen),
        "aria-haspopup": "menu",
        "aria-expanded": isOpen,
      })}
      {isOpen && (
        <List
          label={label}
          items={items}
          anchor={anchor}
          onClose={() => {
            setOpen(false);
            anchor.current?.querySelector("button")?.focus();
          }}
        />
      )}
    </span>
  );
}

interface ListProps {
  label: string;
  items: Item[];
  anchor: RefObject<HTMLElement | null>;
  onClose: () => void;
}

const GAP = 4;

function List({ label, items, anchor, onClose }: ListProps) {
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const element = list.current;
    const button = anchor.current;
    if (!element || !button) return;
    element.showPopover();
    place(element, button.getBoundingClientRect());
    element.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const close = (event: Event) => {
      if (!(event.target instanceof Node) || !button.contains(event.target)) onClose();
    };
    document.addEventListener("pointerdown", close);
    window.addEventListener("scroll", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      window.removeEventListener("scroll", close);
    };
  });

  function move(event: KeyboardEvent) {
    const own = [...(list.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = own.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") onClose();
    else if (event.key === "Home") own[0]?.focus();
    else if (event.key === "End") own.at(-1)?.focus();
    else if (step !== undefined) own[(at + step + own.length) % own.length]?.focus();
    else if (/^\w$/.test(event.key)) {
      own.find((each) => each.textContent?.toLowerCase().startsWith(event.key))?.focus();
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  return (
    <div
      ref={list}
      popover="manual"
      role="menu"
      tabIndex={-1}
      aria-label={label}
      onKeyDown={move}
      className="fixed m-0 max-h-96 min-w-44 overflow-y-auto rounded-lg border border-line bg-surface p-1 text-text shadow-float"
    >
      {items.map(({ label: text, icon: Icon, act, isDangerous }) => (
        <button
          key={text}
          type="button"
          role="menuitem"
          tabIndex={-1}
          onClick={() => {
            onClose();
            act();
          }}
          className={`flex h-8 w-full items-center gap-2 whitespace-nowrap rounded-md px-2 text-left outline-none hover:bg-hover focus:bg-hover ${isDangerous ? "text-bad" : ""}`}
        >
          {Icon && <Icon size={14} aria-hidden className="shrink-0" />}
          {text}
        </button>
      ))}
    </div>
  );
}

/**
 * Place the menu below or above the button, whichever has room, aligned to the right if it fits.
 */
function place(element: HTMLElement, at: DOMRect): void {
  const { width, height } = element.getBoundingClientRect();
  const isAbove = at.bottom + GAP + height > innerHeight && at.top > height + GAP;
  const left = at.right - width < GAP ? at.left : at.right - width;
  element.style.top = `${isAbove ? at.top - height - GAP : at.bottom + GAP}px`;
  element.style.left = `${Math.max(GAP, Math.min(left, innerWidth - width - GAP))}px`;
}
