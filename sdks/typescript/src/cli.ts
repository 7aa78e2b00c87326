#!/usr/bin/env -S node --max-semi-space-size=8 --heap-growing-percent=50
/**
 * The `jobforge-worker` program. It hides its credentials before it loads anything else. The flags
 * limit V8's memory under many light jobs: without them, the young generation would permanently
 * take up to 100 MB more, and V8 would collect the old generation only after it has grown fourfold.
 */

import { harden } from "./process/hardening.ts";

const isHidden = harden();
const { runWorkerCommand } = await import("./worker/run-command.ts");
await runWorkerCommand(isHidden);
