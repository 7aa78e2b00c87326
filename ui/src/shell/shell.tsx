/** The frame of all pages: navigation, account, live indicator, and keyboard shortcuts. */

import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { Menu as MenuIcon, Search, X } from "lucide-react";
import { lazy, Suspense, useEffect, useState } from "react";
import { Problem } from "@/api/client";
import { tenant } from "@/config";
import { startLive } from "@/live/live";
import { startRefreshing } from "@/live/refresh";
import { adminPages, type PageEntry, tenantPages } from "@/pages";
import { Button } from "@/parts/button";
import { Modal } from "@/parts/dialog";
import { Failure } from "@/parts/feedback";
import { useSession } from "@/session";
import { Account } from "@/shell/account";
import { Help } from "@/shell/help";
import { useShortcuts } from "@/shell/keyboard";
import { LivePill } from "@/shell/live-pill";
import { Logo } from "@/shell/logo";
import { TenantBanner, TenantName } from "@/shell/tenant";

const Palette = lazy(() => import("@/shell/palette").then(({ Palette }) => ({ default: Palette })));

let isStarted = false;

export function Shell() {
  const [open, setOpen] = useState<"palette" | "help" | "menu" | null>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useShortcuts({
    openPalette: () => setOpen("palette"),
    openHelp: () => setOpen("help"),
  });
  useEffect(() => {
    if (isStarted) return;
    isStarted = true;
    startLive();
    startRefreshing();
  }, []);
  useEffect(() => setOpen(null), [path]);

  const { role, isSuper } = useSession();
  if (role === "worker") {
    return (
      <Failure
        error={
          new Problem(
            403,
            { detail: "Worker keys cannot use the dashboard. Sign in with another key." },
            null,
          )
        }
      />
    );
  }
  return (
    <div className="flex min-h-dvh">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded focus:bg-accent focus:px-3 focus:py-2 focus:text-on-accent"
      >
        Skip to main content
      </a>
      <aside className="sticky top-0 hidden h-dvh w-56 shrink-0 flex-col border-line border-r bg-surface lg:flex">
        <Sidebar onSearch={() => setOpen("palette")} onHelp={() => setOpen("help")} />
      </aside>
      <div className="flex min-w-0 flex-1 flex-col">
        <header className="sticky top-0 z-20 flex h-12 items-center gap-2 border-line border-b bg-surface px-3 lg:hidden">
          <Button look="quiet" icon={MenuIcon} label="Menu" onClick={() => setOpen("menu")} />
          <Logo />
          <span className="min-w-0 flex-1 truncate font-semibold">
            <TenantName />
          </span>
          <LivePill />
          <Button look="quiet" icon={Search} label="Search" onClick={() => setOpen("palette")} />
        </header>
        {tenant !== null && isSuper && <TenantBanner />}
        <main id="main" className="min-w-0 flex-1">
          <Outlet />
        </main>
      </div>
      {open === "menu" && (
        <Modal
          label="Menu"
          onClose={() => setOpen(null)}
          className="m-0 h-dvh max-h-none w-64 border-line border-r bg-surface p-0 shadow-float"
        >
          <div className="flex h-full flex-col">
            <Button
              look="quiet"
              icon={X}
              label="Close menu"
              className="absolute top-2.5 right-2"
              onClick={() => setOpen(null)}
            />
            <Sidebar onSearch={() => setOpen("palette")} onHelp={() => setOpen("help")} />
          </div>
        </Modal>
      )}
      {open === "palette" && (
        <Suspense>
          <Palette onClose={() => setOpen(null)} />
        </Suspense>
      )}
      {open === "help" && <Help onClose={() => setOpen(null)} />}
    </div>
  );
}

function Sidebar({ onSearch, onHelp }: { onSearch: () => void; onHelp: () => void }) {
  return (
    <>
      <div className="flex h-12 items-center gap-2.5 px-4">
        <Logo />
        <span className="min-w-0 truncate font-semibold">
          <TenantName />
        </span>
      </div>
      <div className="px-3 pb-2">
        <button
          type="button"
          onClick={onSearch}
          className="flex h-8 w-full items-center gap-2 rounded-md border border-line bg-bg px-2.5 text-faint hover:border-strong"
        >
          <Search size={14} aria-hidden />
          <span className="flex-1 text-left">Search…</span>
          <kbd className="font-sans text-xs">{isMac() ? "⌘K" : "Ctrl K"}</kbd>
        </button>
      </div>
      <Navigation />
      <Account onHelp={onHelp} />
    </>
  );
}

function Navigation() {
  const { may, isSuper } = useSession();
  const shown = tenant !== null || !isSuper ? tenantPages : adminPages;
  const allowed = shown.filter((page) => page.area === undefined || may(page.area, "read"));
  const groups = [...new Set(allowed.map((page) => page.group))];
  return (
    <nav aria-label="Pages" className="flex-1 overflow-y-auto px-3 pb-4">
      {groups.map((group) => (
        <div key={group} className="mt-1">
          {group && <h2 className="px-2 pt-3 pb-1 font-medium text-faint text-xs">{group}</h2>}
          <ul>
            {allowed
              .filter((page) => page.group === group)
              .map((page) => (
                <li key={page.path}>
                  <NavLink page={page} />
                </li>
              ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function NavLink({ page }: { page: PageEntry }) {
  const Icon = page.icon;
  return (
    <Link
      to={page.path}
      activeOptions={{ exact: page.path === "/", includeSearch: false }}
      className="flex h-8 items-center gap-2.5 rounded-md px-2 text-muted hover:bg-hover hover:text-text"
      activeProps={{ className: "bg-accent-soft !text-accent font-medium" }}
    >
      <Icon size={15} aria-hidden className="shrink-0" />
      {page.label}
    </Link>
  );
}

export function isMac(): boolean {
  return /Mac|iP(hone|ad)/.test(navigator.platform);
}
