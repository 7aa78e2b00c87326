/**
 * A loop that repeats a step until it is stopped. A failed step is retried after a growing pause,
 * and only the first failure in a row is logged. So a step must still hold its unfinished work when
 * it is called again.
 */

import { Contended, Unavailable } from "../errors.ts";
import { emit } from "../observability/logs.ts";

const MIN_PAUSE_S = 0.05;
const MAX_PAUSE_S = 5;

/** A background loop of a worker. `wake` and `stop` end the step's wait early. */
export class BackgroundLoop {
  readonly #name: string;
  readonly #step: (loop: BackgroundLoop) => Promise<void>;
  #isWoken = false;
  #resolveWait: (() => void) | null = null;
  #isStopped = false;
  #resolvePause: (() => void) | null = null;
  #failures = 0;

  constructor(name: string, step: (loop: BackgroundLoop) => Promise<void>) {
    this.#name = name;
    this.#step = step;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  async run(): Promise<void> {
    while (!this.#isStopped) {
      try {
        await this.#step(this);
        this.#failures = 0;
      } catch (error) {
        this.#logFirstFailure(error);
        await this.#recover();
      }
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#resolvePause?.();
    this.wake();
  }

  /** Reset the count of failures, for a step that runs for a long time. */
  resetFailures(): void {
    this.#failures = 0;
  }

  wake(): void {
    this.#isWoken = true;
    this.#resolveWait?.();
  }

  /**
   * Wait until the time is up or `wake` is called. Returns true if `wake` was called, also if
   * before this wait.
   */
  async waitForWake(seconds?: number): Promise<boolean> {
    if (!this.#isWoken) {
      await new Promise<void>((resolve) => {
        this.#resolveWait = resolve;
        if (seconds !== undefined && Number.isFinite(seconds)) {
          const timer = setTimeout(resolve, seconds * 1000);
          this.#resolveWait = () => {
            clearTimeout(timer);
            resolve();
          };
        }
      });
      this.#resolveWait = null;
    }
    const wasWoken = this.#isWoken;
    this.#isWoken = false;
    return wasWoken;
  }

  #logFirstFailure(error: unknown): void {
    this.#failures += 1;
    if (this.#failures > 1 || error instanceof Unavailable || error instanceof Contended) return;
    const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
    emit("worker.failed", { loop: this.#name, error: words }, "error");
  }

  async #recover(): Promise<void> {
    if (this.#isStopped) return;
    const pause = Math.min(MAX_PAUSE_S, MIN_PAUSE_S * 2 ** Math.min(this.#failures - 1, 10));
    // A plain pause, which `wake` does not end: frequent wake-ups must not turn retries into a busy
    // loop.
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pause * (500 + 500 * Math.random()));
      this.#resolvePause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#resolvePause = null;
  }
}
