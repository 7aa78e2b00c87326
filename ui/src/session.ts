/**
 * The signed-in user and their permissions. Actions that the server would reject are not offered.
 */

import { useSuspenseQuery } from "@tanstack/react-query";
import { call } from "@/api/client";
import { client, session } from "@/api/queries";
import { config, tenant } from "@/config";
import { createStore } from "@/store";

type Area =
  | "jobs"
  | "failures"
  | "operations"
  | "keys"
  | "audit"
  | "queues"
  | "definitions"
  | "tenants"
  | "workers"
  | "triggers"
  | "events"
  | "webhooks"
  | "connectors"
  | "statistics"
  | "database"
  | "workflows";

const OPERATED = new Set<string>(["queues", "definitions", "tenants", "workers"]);
const ACTED = new Set<string>(["keys", "audit"]);

export function useSession() {
  const { data } = useSuspenseQuery(session());
  const acts = acting.use();
  const isSuper = data.role === "super_admin";

  /** Permissions by role, restricted by the key's scopes and by a super admin's read-only mode. */
  function may(area: Area, verb: "read" | "write"): boolean {
    if (data.scopes.length > 0 && !data.scopes.includes(`${area}:${verb}`)) return false;
    if (isSuper) return verb === "read" || tenant === null || acts || OPERATED.has(area);
    if (data.role === "worker") return false;
    if (area === "tenants" || area === "workers" || area === "database") return false;
    if (verb === "write") return data.role === "tenant_admin" && !OPERATED.has(area);
    return data.role === "tenant_admin" || !ACTED.has(area);
  }

  return { ...data, isSuper, may };
}

export async function signIn(credentials: { key: string } | { ticket: string }): Promise<void> {
  const found = await call("post", "/api/v1/session", { body: credentials });
  client.setQueryData(session().queryKey, found);
}

/** The ticket of a link that was opened while a user is signed in, until they choose an account. */
export const offered = createStore<{ ticket: string; actor: string } | null>(null);

export async function signOut(): Promise<void> {
  await call("delete", "/api/v1/session");
  location.assign(`${config.base}/sign-in`);
}

// A super admin views a tenant in read-only mode, and acts for it only after switching.
const KEY = "jobforge.acts";

export const acting = createStore(localStorage.getItem(KEY) !== null);

export function setActing(acts: boolean): void {
  if (acts) localStorage.setItem(KEY, "1");
  else localStorage.removeItem(KEY);
  acting.set(acts);
}
