/** The color theme: light, dark, or the system's. */

import { createStore } from "@/store";

export type Theme = "light" | "dark" | "system";

const KEY = "jobforge.theme";
const kept = document.documentElement.dataset.theme;

export const theme = createStore<Theme>(kept === "light" || kept === "dark" ? kept : "system");

export function setTheme(chosen: Theme): void {
  if (chosen === "system") {
    localStorage.removeItem(KEY);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEY, chosen);
    document.documentElement.dataset.theme = chosen;
  }
  theme.set(chosen);
}

export function isDark(): boolean {
  if (theme.get() !== "system") return theme.get() === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
