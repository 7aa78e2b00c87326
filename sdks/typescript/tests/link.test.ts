/** Dedicated connections of a worker: calls sent ahead, and the memory of their results. */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { getHeapSpaceStatistics } from "node:v8";
import { query } from "../src/calls/call.ts";
import { Database } from "../src/db/database.ts";
import { JobForgeError } from "../src/errors.ts";
import { urlOf } from "./setup.ts";

const ROWS = 1_000;
const CALLS = 60;
// Without raw queries, about seven times as much is kept.
const MAX_KEPT_BYTES = 2_000_000;

const database = new Database(urlOf());
const link = database.createLink();
after(async () => {
  await link.close();
  await database.close();
});

function buildCall(name: string, statement: string) {
  return query(name, statement, [], (rows) => rows);
}

test("a call that was sent ahead is answered though the one before it fails", async () => {
  await link.run(buildCall("one", "select 1"));
  const failing = link.run(buildCall("nothing", "select 1 / 0"));
  const ahead = link.run(buildCall("one", "select 1"));
  await assert.rejects(failing, JobForgeError);
  assert.deepEqual(await ahead, [["1"]]);
});

test("answers are forgotten while they are young", async () => {
  const columns = Array.from({ length: 8 }, (_, column) => `md5((n + ${column})::text)`);
  const many = buildCall("many", `select ${columns} from generate_series(1, ${ROWS}) as n`);
  await link.run(many);
  const before = oldBytes();
  let most = before;
  for (let number = 0; number < CALLS; number++) {
    assert.equal((await link.run(many)).length, ROWS);
    most = Math.max(most, oldBytes());
  }
  assert.ok(most - before < MAX_KEPT_BYTES, `${most - before} bytes have grown old`);
});

function oldBytes(): number {
  const spaces = getHeapSpaceStatistics().filter(({ space_name }) => space_name === "old_space");
  return spaces.reduce((sum, { space_used_size }) => sum + space_used_size, 0);
}
