#!/usr/bin/env -S node --max-semi-space-size=8 --heap-growing-percent=50
/**
 * The program `jobforge-worker`. It hides its credentials before it loads anything else. The flags
 * bound what V8 takes under a flood of light jobs: for young objects it would be up to 100 MB more,
 * for good, and old ones would not be collected before there are four times as many.
 */

import { harden } from "./process/hardening.ts";

const isHidden = harden();
const { runWorkerCommand } = await import("./worker/run-command.ts");
await runWorkerCommand(isHidden);
