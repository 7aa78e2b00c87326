/** The routes and their pages. The URL stores the view: filters, tabs and selections. */

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { call, Problem } from "@/api/client";
import { client, session } from "@/api/queries";
import { config, routerBase, tenant } from "@/config";
import { adminPages, innerPages, tenantPages } from "@/pages";
import { Failure, Skeleton } from "@/parts/feedback";
import { offered, setActing, signIn } from "@/session";
import { Shell } from "@/shell/shell";
import { SignIn } from "@/shell/sign-in";
import { Switch } from "@/shell/switch-account";

const TICKET = /^jfticket_[\w-]{43}$/;

type Search = Record<string, string | undefined>;

const root = createRootRoute({
  component: Outlet,
  validateSearch: (search: Record<string, unknown>): Search => search as Search,
});

const signInRoute = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  component: SignIn,
});

const switchRoute = createRoute({
  getParentRoute: () => root,
  path: "/switch",
  component: Switch,
});

const shell = createRoute({
  getParentRoute: () => root,
  id: "shell",
  beforeLoad: async ({ location }) => {
    await takeTicket(location.href.replace(/#.*/, ""));
    const found = await loadSession();
    if (found === null) {
      const back = location.href === "/" ? undefined : location.href;
      throw redirect({ to: "/sign-in", search: { back } });
    }
    // Another user follows a super admin's link: open the same page of their own tenant.
    if (tenant !== null && found.role !== "super_admin") {
      window.location.replace(config.base + location.href);
    }
    const isHome = tenant === null && found.role === "super_admin" && found.tenant_id === null;
    if (isHome && !location.pathname.startsWith("/admin/")) throw redirect({ to: "/admin/fleet" });
  },
  component: Shell,
});

const pages = [...tenantPages, ...adminPages, ...innerPages].map(({ path, load }) =>
  createRoute({
    getParentRoute: () => shell,
    path,
    component: lazyRouteComponent(() => load().catch(reloadPage), "Page"),
  }),
);

const notFoundRoute = createRoute({
  getParentRoute: () => shell,
  path: "$",
  component: () => (
    <Failure error={new Problem(404, { detail: "This page does not exist." }, null)} />
  ),
});

/**
 * After an update of the server, a page's module is gone and the router reloads the page. While the
 * server is unreachable, a reload would end in the browser's own error page.
 */
async function reloadPage(error: unknown): Promise<never> {
  await call("get", "/api/v1/session").catch((found: unknown) => {
    if (found instanceof Problem && found.status === 0) throw found;
  });
  throw error;
}

export const router = createRouter({
  routeTree: root.addChildren([
    signInRoute,
    switchRoute,
    shell.addChildren([...pages, notFoundRoute]),
  ]),
  basepath: routerBase,
  defaultPreload: "intent",
  defaultPendingComponent: () => <Skeleton rows={10} />,
  defaultErrorComponent: ({ error }) => (
    <Failure error={error} onRetry={() => void router.invalidate()} />
  ),
  scrollRestoration: true,
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const given = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
    const text = new URLSearchParams(
      given.map(([name, value]) => [name, String(value)]),
    ).toString();
    return text ? `?${text.replaceAll("%2C", ",").replaceAll("%3A", ":")}` : "";
  },
});

/**
 * A link of `jobforge dev` signs in with a ticket in the fragment, which appears in no server log.
 * Only tickets sign in this way, because anyone can put their own API key into a link. Pages that
 * are loading wait for the result.
 */
let ticketing: Promise<void> | null = null;

function takeTicket(back: string): Promise<void> {
  const given = /^#ticket=(.*)$/.exec(window.location.hash)?.[1];
  if (given !== undefined) {
    history.replaceState(null, "", window.location.pathname + window.location.search);
    ticketing = TICKET.test(given) ? signInByTicket(given, back) : null;
  }
  return ticketing ?? Promise.resolve();
}

/** Ask first if a user is already signed in, because the link may be from someone else. */
async function signInByTicket(ticket: string, back: string): Promise<void> {
  const found = await loadSession();
  if (found !== null) {
    offered.set({ ticket, actor: found.actor });
    ticketing = null;
    throw redirect({ to: "/switch", search: { back } });
  }
  await signIn({ ticket }).then(
    () => setActing(true),
    () => undefined,
  );
}

function loadSession() {
  return client.ensureQueryData(session()).catch((error: unknown) => {
    if (error instanceof Problem && error.status === 401) return null;
    throw error;
  });
}
