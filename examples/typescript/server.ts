/** POST /signup stores a user and enqueues a welcome mail in one transaction; GET /jobs/:id returns the job. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import pg from "pg";
import { jf, sendWelcome } from "./jobs.ts";

const pool = new pg.Pool({ connectionString: process.env.JOBFORGE_DATABASE_URL });
await pool.query("create table if not exists users (email text primary key)");
await jf.register();

async function signUp(email: string, name: string): Promise<string> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    await client.query("insert into users (email) values ($1)", [email]);
    const welcome = sendWelcome.using({ conn: client, key: `welcome:${email}` });
    const { id } = await welcome.enqueue({ to: email, name });
    await client.query("commit");
    return id;
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
}

async function bodyOf(request: IncomingMessage): Promise<{ email: string; name: string }> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString());
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [, route, id = ""] = (request.url ?? "").split("/");
  if (request.method === "POST" && route === "signup") {
    const { email, name } = await bodyOf(request);
    const job = await signUp(email, name);
    response.writeHead(202).end(JSON.stringify({ job }));
  } else if (request.method === "GET" && route === "jobs") {
    const { state, result } = await jf.client.getJob(id);
    response.end(JSON.stringify({ state, result }));
  } else {
    response.writeHead(404).end();
  }
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: Error) => {
    response.writeHead(400).end(JSON.stringify({ error: error.message }));
  });
});
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  process.stdout.write(`${JSON.stringify(server.address())}\n`);
});
process.on("SIGTERM", async () => {
  server.close();
  await Promise.all([pool.end(), jf.close()]);
});
