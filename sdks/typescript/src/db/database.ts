/**
 * The seam to Postgres: connections, the tenant of a transaction, and running a Call. Every error
 * of the driver becomes one of errors.ts here.
 */

import pg from "pg";
import type { Call, Row } from "../calls/call.ts";
import { ConfigError, type JobForgeError, Unavailable } from "../errors.ts";
import { variable } from "../process/environment.ts";
import { answered } from "./raw-query.ts";
import { explained } from "./sqlstates.ts";

// Columns stay the texts that Postgres sends: what they are, the calls know.
const RAW: pg.CustomTypesConfig = { getTypeParser: () => (text: string) => text };
const CONNECT_MS = 10_000;
const STATEMENT_MS = 30_000;
const LOCK_MS = 2_000;
// Beyond the server's own limit: then it is the network that is gone.
const ANSWER_MS = STATEMENT_MS + 2_000;

export interface DatabaseOptions {
  readonly size?: number | undefined;
  /** PgBouncer in transaction mode: no start-up options, no prepared statements, no LISTEN. */
  readonly behindPooler?: boolean | undefined;
  /** Leads past a pooler. */
  readonly listenUrl?: string | undefined;
}

export class Database {
  readonly canListen: boolean;
  readonly #url: string;
  readonly #listenUrl: string;
  readonly #behindPooler: boolean;
  readonly #pool: pg.Pool;
  #isService: Promise<boolean> | null = null;

  constructor(url: string, options: DatabaseOptions = {}) {
    // The driver reads process.env, where it may be no more.
    pg.defaults.password ??= variable("PGPASSWORD");
    this.#url = url;
    this.#listenUrl = options.listenUrl ?? url;
    this.#behindPooler = options.behindPooler ?? false;
    this.canListen = options.listenUrl !== undefined || !this.#behindPooler;
    this.#pool = new pg.Pool({
      ...settings(url, this.#behindPooler),
      max: options.size ?? 4,
      idleTimeoutMillis: 30_000,
      allowExitOnIdle: true,
    });
    // A connection that is lost while nobody uses it: the next call opens another.
    this.#pool.on("error", () => undefined);
  }

  /** Of the URLs, and that of the environment. */
  get passwords(): ReadonlySet<string> {
    const urls = [this.#url, this.#listenUrl];
    const found = [...urls.map(passwordOf), variable("PGPASSWORD")];
    return new Set(found.filter((each): each is string => !!each));
  }

  /** The call in a transaction of its own. */
  async run<T>(call: Call<T>): Promise<T> {
    const name = call.isFrequent && !this.#behindPooler ? call.name : null;
    return await decoded(this.#pool, call, name);
  }

  /** A call in the name of a tenant, whatever the login may do. */
  async runFor<T>(tenantId: string, build: (tenantId: string | null) => Call<T>): Promise<T> {
    if (await this.#mayName()) return await this.run(build(tenantId));
    return await this.transaction(tenantId, (client) => decoded(client, build(null), null));
  }

  /** Commits what `work` has done for a tenant, or rolls back when it throws. */
  async transaction<T>(tenantId: string, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await connected(() => this.#pool.connect());
    let fault: unknown = null;
    try {
      await sent(client, "begin", []);
      await sent(client, "select set_config('app.tenant_id', $1, true)", [tenantId]);
      const answer = await work(client);
      await sent(client, "commit", []);
      return answer;
    } catch (error) {
      fault = error;
      await client.query("rollback").catch(() => undefined);
      throw error;
    } finally {
      client.release(fault instanceof Unavailable);
    }
  }

  /** A connection apart from the pool, for one loop; what is not durable may be gone in a crash. */
  link(durable = true): Link {
    return new Link(this.#url, durable, this.#behindPooler);
  }

  /** Tells the names of channels until it is closed or the connection is lost. */
  async listen(channels: readonly string[], onChannel: (name: string) => void): Promise<Listening> {
    if (!this.canListen) throw new ConfigError("LISTEN does not work through a pooler");
    const client = await opened(settings(this.#listenUrl, false));
    const ended = new Promise<void>((resolve) => {
      client.on("end", () => resolve());
      client.on("error", () => resolve());
    });
    client.on("notification", (notice) => onChannel(notice.channel));
    try {
      for (const channel of channels)
        await sent(client, `listen ${pg.escapeIdentifier(channel)}`, []);
    } catch (error) {
      cut(client);
      throw error;
    }
    return { ended, close: () => cut(client) };
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #mayName(): Promise<boolean> {
    this.#isService ??= this.run({
      name: "is_service",
      text: "select pg_has_role(session_user, 'jobforge_service', 'member')",
      values: [],
      decode: (rows) => rows[0]?.[0] === "t",
    });
    try {
      return await this.#isService;
    } catch (error) {
      this.#isService = null;
      throw error;
    }
  }
}

export interface Listening {
  readonly ended: Promise<void>;
  close(): void;
}

/**
 * A connection kept for one loop: opened when first used, and anew after it was lost. The calls are
 * made one after the other. Only on a connection that is open may the next be sent ahead: it lies
 * with the database then, which need not wait until the last answer was read.
 */
export class Link {
  readonly #url: string;
  readonly #durable: boolean;
  readonly #behindPooler: boolean;
  #client: pg.Client | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #unanswered = 0;

  constructor(url: string, durable: boolean, behindPooler: boolean) {
    this.#url = url;
    this.#durable = durable;
    this.#behindPooler = behindPooler;
  }

  async run<T>(call: Call<T>): Promise<T> {
    const client = this.#client ?? (await this.#open());
    const patience = setTimeout(cut, ANSWER_MS, client);
    this.#unanswered += 1;
    try {
      if (this.#behindPooler && !this.#durable) return await this.#relaxed(client, call);
      return call.decode(await answered(client, call, this.#behindPooler ? null : call.name));
    } catch (error) {
      // A call that was cut off may still have its answer on the way.
      if (error instanceof Unavailable) {
        cut(client);
        if (this.#client === client) this.#client = null;
      }
      throw error;
    } finally {
      this.#unanswered -= 1;
      clearTimeout(patience);
    }
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    if (this.#unanswered > 0) cut(client);
    else await client.end().catch(() => undefined);
  }

  /** Several statements belong together: those of a call that is sent ahead come after them. */
  async #relaxed<T>(client: pg.Client, call: Call<T>): Promise<T> {
    const turn = this.#last.then(() => relaxed(client, call));
    this.#last = turn.catch(() => undefined);
    return await turn;
  }

  async #open(): Promise<pg.Client> {
    const client = await opened({
      ...settings(this.#url, this.#behindPooler, this.#durable),
      query_timeout: 0, // a run has its own patience
      pipeline: !this.#behindPooler,
    });
    client.on("error", () => {
      if (this.#client === client) this.#client = null;
    });
    this.#client = client;
    return client;
  }
}

async function relaxed<T>(client: pg.Client, call: Call<T>): Promise<T> {
  await sent(client, "begin", []);
  try {
    await sent(client, "set local synchronous_commit = off; set local datestyle = ISO", []);
    const rows = await answered(client, call, null);
    await sent(client, "commit", []);
    return call.decode(rows);
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  }
}

async function opened(config: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(config);
  // Until somebody else listens; an error that nobody hears would end the process.
  client.on("error", () => undefined);
  await connected(() => client.connect());
  return client;
}

async function connected<T>(connect: () => Promise<T>): Promise<T> {
  try {
    return await connect();
  } catch (error) {
    throw explained(error);
  }
}

function settings(url: string, behindPooler: boolean, durable = true): pg.ClientConfig {
  const options = [
    `-c statement_timeout=${STATEMENT_MS}`,
    `-c lock_timeout=${LOCK_MS}`,
    "-c idle_in_transaction_session_timeout=10000",
    "-c datestyle=ISO",
    ...(durable ? [] : ["-c synchronous_commit=off"]),
  ];
  return {
    connectionString: url,
    application_name: "jobforge",
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: ANSWER_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
    ...(behindPooler ? {} : { options: options.join(" ") }),
  };
}

function passwordOf(url: string): string | undefined {
  try {
    return new pg.Client(url).password ?? undefined;
  } catch {
    return undefined; // whoever connects is told what is wrong with it
  }
}

async function decoded<T>(
  client: pg.PoolClient | pg.Pool,
  call: Call<T>,
  name: string | null,
): Promise<T> {
  const query = {
    text: call.text,
    values: [...call.values],
    rowMode: "array" as const,
    types: RAW,
  };
  let rows: readonly Row[];
  try {
    rows = (await client.query<(string | null)[]>(name === null ? query : { ...query, name })).rows;
  } catch (error) {
    throw explained(error);
  }
  return call.decode(rows);
}

async function sent(
  client: pg.Client | pg.PoolClient,
  text: string,
  values: string[],
): Promise<void> {
  try {
    await client.query(text, values);
  } catch (error) {
    throw explained(error) as JobForgeError;
  }
}

/** At once, whatever is on its way. */
function cut(client: pg.Client): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy(): void } } };
  connection?.stream?.destroy();
}
