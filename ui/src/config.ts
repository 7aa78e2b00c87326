/** The mount path and the tenant of this page load. */

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

/** The tenant that a super admin views: ID or slug. Null for a tenant's own users. */
export const tenant = named === undefined ? null : decodeURIComponent(named);

/**
 * The router's base path. Another tenant is another page load, so that no data of the previous
 * tenant remains.
 */
export const routerBase = named === undefined ? config.base : `${config.base}/t/${named}`;

export function tenantHref(slug: string, path = "/"): string {
  return `${config.base}/t/${encodeURIComponent(slug)}${path}`;
}

export const installationHref = `${config.base}/admin/fleet`;
