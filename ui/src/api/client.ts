/**
 * The only module that fetches. Paths, parameters and responses are typed by the OpenAPI document.
 */

import { parse } from "@/api/json";
import type { Problem as ProblemBody, paths } from "@/api/schema";
import { config, tenant } from "@/config";

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly faults: { field: string; message: string }[];
  readonly requestId: string | null;

  constructor(status: number, body: Partial<ProblemBody>, requestId: string | null) {
    super(body.detail || body.title || `The server responded with status ${status}.`);
    this.status = status;
    this.code = body.code ?? "unreachable";
    this.faults = body.errors ?? [];
    this.requestId = body.request_id ?? requestId;
  }
}

type Method = "get" | "post" | "patch" | "put" | "delete";
type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];
type Operation<P extends keyof paths, M extends Method> =
  paths[P] extends Record<M, infer O> ? O : never;
type Part<O, N extends string> = O extends { parameters: infer A }
  ? N extends keyof A
    ? NonNullable<A[N]>
    : never
  : never;
type Content<R> = R extends { content: { "application/json": infer C } } ? C : undefined;
type Answer<O> = O extends { responses: infer R }
  ? Content<R[Extract<keyof R, 200 | 201 | 202 | 204>]>
  : never;
type Body<O> = O extends { requestBody?: infer B }
  ? NonNullable<B> extends { content: { "application/json": infer C } }
    ? C
    : never
  : never;

export interface Options<O> {
  path?: Part<O, "path">;
  query?: Part<O, "query">;
  body?: Body<O>;
  /** A request body that is already JSON text, sent unchanged. */
  text?: string;
  signal?: AbortSignal | undefined;
}

export async function call<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  options: Options<Operation<P, M>> = {},
): Promise<Answer<Operation<P, M>>> {
  const body =
    options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  const answer = await send(method, urlOf(path, options), body, options.signal);
  const text = await answer.text();
  return (text ? parse(text) : undefined) as Answer<Operation<P, M>>;
}

/** Open a stream of server-sent events, which the caller reads. */
export function open(path: string, lastId: string | null, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (lastId) headers["last-event-id"] = lastId;
  return send("get", config.api + path, undefined, signal, headers);
}

/**
 * Save a file. The browser downloads it directly, unless the request needs a header with the
 * tenant.
 */
export async function save(path: string): Promise<void> {
  const link = document.createElement("a");
  link.download = "";
  if (tenant === null) {
    link.href = config.api + path;
    link.click();
    return;
  }
  const answer = await send("get", config.api + path, undefined);
  link.href = URL.createObjectURL(await answer.blob());
  link.download =
    /filename="?([^";]+)/.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? "";
  link.click();
  URL.revokeObjectURL(link.href);
}

async function send(
  method: Method,
  url: string,
  body: string | undefined,
  signal?: AbortSignal,
  extra: Record<string, string> = {},
): Promise<Response> {
  const headers = new Headers(extra);
  if (body !== undefined) headers.set("content-type", "application/json");
  if (tenant !== null) headers.set("x-jobforge-tenant", tenant);
  const request: RequestInit = { method: method.toUpperCase(), headers };
  if (body !== undefined) request.body = body;
  if (signal) request.signal = signal;
  const answer = await fetch(url, request).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new Problem(
      0,
      { detail: "The server is unreachable. Check your connection, then try again." },
      null,
    );
  });
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

async function problemOf(answer: Response): Promise<Problem> {
  const requestId = answer.headers.get("x-request-id");
  const isProblem = answer.headers.get("content-type")?.includes("problem+json");
  const body = isProblem ? ((await answer.json()) as ProblemBody) : {};
  return new Problem(answer.status, body, requestId);
}

function urlOf(path: string, options: { path?: unknown; query?: unknown }): string {
  const names = (options.path ?? {}) as Record<string, string | number>;
  const filled = path
    .replace(/^\/api\/v1/, "")
    .replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(names[name])));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries((options.query ?? {}) as Record<string, unknown>)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") query.append(name, String(each));
    }
  }
  const text = query.toString();
  return config.api + filled + (text ? `?${text}` : "");
}
