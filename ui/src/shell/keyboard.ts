/** Keys that work everywhere. Lists have their own: see jobs/list.tsx. */

import { useNavigate } from "@tanstack/react-router";
import { useEffect, useEffectEvent } from "react";
import { togglePaused } from "@/live/live";
import { adminPages, tenantPages } from "@/pages";

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

export function useKeys(act: (event: KeyboardEvent) => void): void {
  const latest = useEffectEvent(act);
  useEffect(() => {
    const hear = (event: KeyboardEvent) => {
      const isOver = document.querySelector("dialog[open], [role=menu]") !== null;
      if (!isOver && !event.defaultPrevented) latest(event);
    };
    window.addEventListener("keydown", hear);
    return () => window.removeEventListener("keydown", hear);
  }, []);
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
