/** The settings of a process. Only this module reads the JOBFORGE_… variables. */

import { readFileSync } from "node:fs";
import { ConfigError } from "./errors.ts";
import { LEVELS, type Level } from "./observability/logs.ts";
import { readVariable } from "./process/environment.ts";

export interface Config {
  readonly databaseUrl: string | undefined;
  readonly listenUrl: string | undefined;
  readonly behindPooler: boolean;
  readonly server: string | undefined;
  readonly key: string | undefined;
  readonly tenant: string | undefined;
  readonly queues: string | undefined;
  readonly concurrency: number | undefined;
  readonly leaseS: number | undefined;
  readonly heartbeatS: number | undefined;
  readonly pollS: number | undefined;
  readonly drainS: number | undefined;
  readonly secretsDir: string | undefined;
  readonly jobEnvironment: readonly string[];
  readonly logLevel: Level;
}

export function loadConfig(): Config {
  const text = (name: string) => readVariable(`JOBFORGE_${name}`) || undefined;
  return {
    databaseUrl: text("DATABASE_URL") ?? readSetting(text("DATABASE_URL_FILE")),
    listenUrl: text("LISTEN_URL") ?? readSetting(text("LISTEN_URL_FILE")),
    behindPooler: ["true", "yes", "on", "1"].includes((text("BEHIND_POOLER") ?? "").toLowerCase()),
    server: text("SERVER"),
    key: text("KEY") ?? readSetting(text("KEY_FILE")),
    tenant: text("TENANT"),
    queues: text("QUEUES"),
    concurrency: parseNumber("CONCURRENCY", text("CONCURRENCY")),
    leaseS: parseNumber("LEASE_S", text("LEASE_S")),
    heartbeatS: parseNumber("HEARTBEAT_S", text("HEARTBEAT_S")),
    pollS: parseNumber("POLL_S", text("POLL_S")),
    drainS: parseNumber("DRAIN_S", text("DRAIN_S")),
    secretsDir: text("SECRETS_DIR"),
    jobEnvironment: (text("JOB_ENVIRONMENT") ?? "")
      .split(",")
      .map((name) => name.trim())
      .filter(Boolean),
    logLevel: parseLevel(text("LOG_LEVEL")),
  };
}

/**
 * Return the slots of each queue in a list such as `mail:10,default:4`. Queues without a number get
 * `slots`.
 */
export function readQueues(text: string, slots: number): Record<string, number> {
  const queues: Record<string, number> = {};
  for (const item of text.split(",").map((each) => each.trim())) {
    if (item === "") continue;
    // Queue names may contain colons, so the last colon separates the number.
    const matched = /^(.+?):(\d+)$/.exec(item);
    const name = matched?.[1] ?? item;
    if (!/^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}$/.test(name) || name in queues) {
      throw new ConfigError(`queues must be a list such as mail:10,default:4, not ${item}`, {
        field: "queues",
      });
    }
    queues[name] = matched ? Number(matched[2]) : slots;
  }
  return queues;
}

function readSetting(path: string | undefined): string | undefined {
  return path === undefined ? undefined : readFileSync(path, "utf8").trim();
}

function parseNumber(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (!Number.isFinite(number) || number < 0) {
    throw new ConfigError(`JOBFORGE_${name} must be a number, not ${text}`, {
      field: name.toLowerCase(),
    });
  }
  return number;
}

function parseLevel(text: string | undefined): Level {
  const found = LEVELS.find((each) => each === (text ?? "info").toLowerCase());
  if (found === undefined) {
    throw new ConfigError(`JOBFORGE_LOG_LEVEL must be one of ${LEVELS.join(", ")}, not ${text}`);
  }
  return found;
}
