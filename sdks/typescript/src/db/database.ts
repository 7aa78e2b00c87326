/**
 * Connections to Postgres for applications: a pool, the tenant of a transaction, LISTEN, and
 * running a Call. Driver errors become errors of errors.ts.
 */

import pg from "pg";
import { buildSql, type Call, forTenant, listParameters, query } from "../calls/call.ts";
import { ConfigError, Unavailable } from "../errors.ts";
import { readVariable } from "../process/environment.ts";
import { buildClientConfig, destroySocket, openClient } from "./driver.ts";
import { DedicatedConnection } from "./link.ts";
import { runOn } from "./queryable.ts";
import { orTranslate } from "./sqlstates.ts";

const IS_SERVICE = query(
  "is_service",
  "select pg_has_role(session_user, 'jobforge_service', 'member')::text",
  [],
  (rows) => rows[0]?.[0] === "true",
);

/** The options of a database connection. */
export interface DatabaseOptions {
  /** Maximum number of connections in the pool (default: 4). */
  readonly size?: number | undefined;
  /**
   * Whether the URL points to PgBouncer in transaction mode. JobForge then uses no startup options,
   * no prepared statements and no LISTEN.
   */
  readonly behindPooler?: boolean | undefined;
  /** URL that bypasses the pooler, for LISTEN. */
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
    // The driver reads process.env, from which withholdCredentials removes the password.
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
    // An idle connection was lost. The next call opens another one.
    this.#pool.on("error", () => undefined);
  }

  /** The passwords in the URLs and in PGPASSWORD. */
  get passwords(): ReadonlySet<string> {
    const urls = [this.#url, this.#listenUrl];
    const found = [...urls.map(readPassword), readVariable("PGPASSWORD")];
    return new Set(found.filter((each): each is string => !!each));
  }

  /** Run the call in a separate transaction. */
  async run<T>(call: Call<T>): Promise<T> {
    const name = call.isFrequent && !this.#behindPooler ? call.function : undefined;
    const sent = { text: buildSql(call), values: listParameters(call), name };
    const { rows } = await orTranslate(this.#pool.query<string[]>({ ...sent, rowMode: "array" }));
    return call.result.read(rows);
  }

  /**
   * Run a call for a tenant. Logins that may not name a tenant get a transaction with app.tenant_id
   * set.
   */
  async runFor<T>(tenantId: string, call: Call<T>): Promise<T> {
    if (await this.#canNameTenant()) return await this.run(forTenant(call, tenantId));
    return await this.transaction(tenantId, (client) => runOn(client, call));
  }

  /**
   * Run `work` in a transaction of this tenant. Commits when `work` resolves; rolls back when it
   * throws.
   */
  async transaction<T>(tenantId: string, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await orTranslate(this.#pool.connect());
    let failure: unknown = null;
    try {
      await orTranslate(client.query("begin"));
      const setting = "select set_config('app.tenant_id', $1, true)";
      await orTranslate(client.query(setting, [tenantId]));
      const result = await work(client);
      await orTranslate(client.query("commit"));
      return result;
    } catch (error) {
      failure = error;
      await client.query("rollback").catch(() => undefined);
      throw error;
    } finally {
      client.release(failure instanceof Unavailable);
    }
  }

  /**
   * Return a connection outside of the pool for one loop. A crash of the server may lose what a
   * link that is not durable has committed.
   */
  createLink(durable = true): DedicatedConnection {
    return new DedicatedConnection(this.#url, durable, this.#behindPooler);
  }

  /** Call `onChannel` for each notification, until the connection is closed or lost. */
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
        await orTranslate(client.query(`listen ${pg.escapeIdentifier(channel)}`));
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
    this.#isService ??= this.run(IS_SERVICE);
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
    return undefined; // Connecting reports what is wrong with the URL.
  }
}
