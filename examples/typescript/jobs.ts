/** The jobs of the application. Run a worker for them with `jobforge-worker jobs.ts`. */

import { JobForge } from "@jobforge/sdk";
import { z } from "zod";

export const jf = new JobForge();

export const sendWelcome = jf.job(
  "send_welcome",
  {
    queue: "mail",
    retry: { maxAttempts: 8 },
    timeout: 30,
    params: z.object({ to: z.string(), name: z.string() }),
  },
  async (ctx, { to, name }) => {
    ctx.log.info("sending", { to });
    ctx.progress(1, 1, "sent");
    return `Welcome, ${name}!`;
  },
);
