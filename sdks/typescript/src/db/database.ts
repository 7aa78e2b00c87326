/**
 * The seam to Postgres: connections, the tenant of a transaction, and running a Call. Every error
 * of the driver becomes one of errors.ts here.
 */

import pg from "pg";
import type { Call, Row } from "../calls/call.ts";
import { ConfigError, Unavailable } from "../errors.ts";
import { readVariable } from "../process/environment.ts";
import {
  buildClientConfig,
  connectOrTranslate,
  destroySocket,
  execute,
  openClient,
} from "./driver.ts";
import { DedicatedConnection } from "./link.ts";
import { translateError } from "./sqlstates.ts";

// Columns stay the texts that Postgres sends: what they are, the calls know.
const RAW_TYPES: pg.CustomTypesConfig = { getTypeParser: () => (text: string) => text };
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
    pg.defaults.password ??= readVariable("PGPASSWORD");
    this.#url = url;
    this.#listenUrl = options.listenUrl ?? url;
    this.#behindPooler = options.behindPooler ?? false;
    this.canListen = options.listenUrl !== undefined || !this.#behindPooler;
    this.#pool = new pg.Pool({
      ...buildClientConfig(url, this.#behindPooler),
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
    const found = [...urls.map(readPassword), readVariable("PGPASSWORD")];
    return new Set(found.filter((each): each is string => !!each));
  }

  /** The call in a transaction of its own. */
  async run<T>(call: Call<T>): Promise<T> {
    const name = call.isFrequent && !this.#behindPooler ? call.name : null;
    return await runOnPool(this.#pool, call, name);
  }

  /** A call in the name of a tenant, whatever the login may do. */
  async runFor<T>(tenantId: string, build: (tenantId: string | null) => Call<T>): Promise<T> {
    if (await this.#canNameTenant()) return await this.run(build(tenantId));
    return await this.transaction(tenantId, (client) => runOnPool(client, build(null), null));
  }

  /** Commits what `work` has done for a tenant, or rolls back when it throws. */
  async transaction<T>(tenantId: string, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await connectOrTranslate(() => this.#pool.connect());
    let failure: unknown = null;
    try {
      await execute(client, "begin", []);
      await execute(client, "select set_config('app.tenant_id', $1, true)", [tenantId]);
      const answer = await work(client);
      await execute(client, "commit", []);
      return answer;
    } catch (error) {
      failure = error;
      await client.query("rollback").catch(() => undefined);
      throw error;
    } finally {
      client.release(failure instanceof Unavailable);
    }
  }

  /** A connection apart from the pool, for one loop; what is not durable may be gone in a crash. */
  createLink(durable = true): DedicatedConnection {
    return new DedicatedConnection(this.#url, durable, this.#behindPooler);
  }

  /** Tells the names of channels until it is closed or the connection is lost. */
  async listen(
    channels: readonly string[],
    onChannel: (name: string) => void,
  ): Promise<ListenConnection> {
    if (!this.canListen) throw new ConfigError("LISTEN does not work through a pooler");
    const client = await openClient(buildClientConfig(this.#listenUrl, false));
    const ended = new Promise<void>((resolve) => {
      client.on("end", () => resolve());
      client.on("error", () => resolve());
    });
    client.on("notification", (notice) => onChannel(notice.channel));
    try {
      for (const channel of channels)
        await execute(client, `listen ${pg.escapeIdentifier(channel)}`, []);
    } catch (error) {
      destroySocket(client);
      throw error;
    }
    return { ended, close: () => destroySocket(client) };
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #canNameTenant(): Promise<boolean> {
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

export interface ListenConnection {
  readonly ended: Promise<void>;
  close(): void;
}

function readPassword(url: string): string | undefined {
  try {
    return new pg.Client(url).password ?? undefined;
  } catch {
    return undefined; // whoever connects is told what is wrong with it
  }
}

async function runOnPool<T>(
  client: pg.PoolClient | pg.Pool,
  call: Call<T>,
  name: string | null,
): Promise<T> {
  const query = {
    text: call.text,
    values: [...call.values],
    rowMode: "array" as const,
    types: RAW_TYPES,
  };
  let rows: readonly Row[];
  try {
    rows = (await client.query<(string | null)[]>(name === null ? query : { ...query, name })).rows;
  } catch (error) {
    throw translateError(error);
  }
  return call.decode(rows);
}
