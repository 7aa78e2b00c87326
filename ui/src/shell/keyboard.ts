/** Keyboard shortcuts of all pages and lists. The job list has its own in jobs/table.tsx. */

import { useNavigate } from "@tanstack/react-router";
import { useEffect, useEffectEvent, useRef, useState } from "react";
import { togglePaused } from "@/live/live";
import { adminPages, tenantPages } from "@/pages";

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

export function useKeys(act: (event: KeyboardEvent) => void): void {
  const latest = useEffectEvent(act);
  useEffect(() => {
    const handleKey = (event: KeyboardEvent) => {
      const isOver = document.querySelector("dialog[open], [role=menu]") !== null;
      if (!isOver && !event.defaultPrevented) latest(event);
    };
    window.addEventListener("keydown", handleKey);
    return () => window.removeEventListener("keydown", handleKey);
  }, []);
}

/**
 * Keyboard navigation with j and k among the rows, which are the children of the element with the
 * ref.
 */
export function usePlace<E extends Element>(count: number, open: (place: number) => void) {
  const [at, setAt] = useState(-1);
  const box = useRef<E>(null);
  useEffect(() => {
    box.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  useKeys((event) => {
    if (count === 0 || isTyping(event.target) || event.metaKey || event.ctrlKey) return;
    if (event.key === "j") setAt(Math.min(count - 1, at + 1));
    else if (event.key === "k") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter" && event.target === document.body) open(at);
  });
  return [at, box] as const;
}

let went = 0;

export function useShortcuts(does: { openPalette: () => void; openHelp: () => void }): void {
  const navigate = useNavigate();
  useKeys((event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      does.openPalette();
      return;
    }
    if (isTyping(event.target) || event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.key === "?") does.openHelp();
    else if (event.key === ".") togglePaused();
    else if (event.key === "/") focusFilter(event);
    else if (event.key === "g") went = Date.now();
    else if (Date.now() - went < 1000) {
      const page = [...tenantPages, ...adminPages].find((each) => each.keys === `g ${event.key}`);
      went = 0;
      if (page) void navigate({ to: page.path });
    }
  });
}

function focusFilter(event: KeyboardEvent): void {
  const box = document.querySelector<HTMLInputElement>("[data-filter]");
  if (box === null) return;
  event.preventDefault();
  box.focus();
  box.select();
}
