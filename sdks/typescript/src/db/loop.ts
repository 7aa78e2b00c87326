/**
 * A step that a worker repeats until it is told to stop, and that no failure ends. After a failure
 * it waits, longer each time, and tells the first one only. Whatever the step has taken in hand, it
 * must still hold when it is called again.
 */

import { Contended, Unavailable } from "../errors.ts";
import { emit } from "../observability/logs.ts";

const FIRST_PAUSE_S = 0.05;
const LONGEST_PAUSE_S = 5;

/** `ring` ends a rest of the step early; so does `stop`. */
export class Loop {
  readonly #name: string;
  readonly #step: (loop: Loop) => Promise<void>;
  #isRung = false;
  #wake: (() => void) | null = null;
  #isStopped = false;
  #recovered: (() => void) | null = null;
  #failures = 0;

  constructor(name: string, step: (loop: Loop) => Promise<void>) {
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
        this.#tell(error);
        await this.#recover();
      }
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#recovered?.();
    this.ring();
  }

  /** The next failure is the first again; for a step that goes on for long. */
  wentWell(): void {
    this.#failures = 0;
  }

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Until the time is up, or somebody rings, maybe since the last rest: then it is true. */
  async rest(seconds?: number): Promise<boolean> {
    if (!this.#isRung) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (seconds !== undefined && Number.isFinite(seconds)) {
          const timer = setTimeout(resolve, seconds * 1000);
          this.#wake = () => {
            clearTimeout(timer);
            resolve();
          };
        }
      });
      this.#wake = null;
    }
    const wasRung = this.#isRung;
    this.#isRung = false;
    return wasRung;
  }

  #tell(error: unknown): void {
    this.#failures += 1;
    if (this.#failures > 1 || error instanceof Unavailable || error instanceof Contended) return;
    const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
    emit("worker.failed", { loop: this.#name, error: words }, "error");
  }

  async #recover(): Promise<void> {
    if (this.#isStopped) return;
    const pause = Math.min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** Math.min(this.#failures - 1, 10));
    // Not a rest: a bell that rings all the time must not turn this into a storm.
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pause * (500 + 500 * Math.random()));
      this.#recovered = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#recovered = null;
  }
}
