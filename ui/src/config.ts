/** Where this page is mounted, and whose it is: constants of a page load. */

interface Config {
  base: string;
  api: string;
  version: string;
}

function read(): Config {
  const given = JSON.parse(document.getElementById("config")?.textContent || "{}");
  return { base: "/ui", api: "/api/v1", version: "", ...given };
}

export const config = read();

const named = location.pathname.slice(config.base.length).match(/^\/t\/([^/]+)/)?.[1];

/** The tenant that a super admin looks at: id or slug. A tenant's own people name none. */
export const tenant = named === undefined ? null : decodeURIComponent(named);

/** What the router counts from. Another tenant is another page load: nothing of one is left over. */
export const routerBase = named === undefined ? config.base : `${config.base}/t/${named}`;

export function tenantHref(slug: string, path = "/"): string {
  return `${config.base}/t/${encodeURIComponent(slug)}${path}`;
}

export const installationHref = `${config.base}/admin/fleet`;
