// What is waited for before an answer begins: the gateway's own waits, as it tells them, and silence, from some seconds on.
// Says it to whoever shows it; draws nothing.

import type { CompactedLine, Line, Model, WaitLine } from "../wire.ts";

export interface Watcher {
  /** The gateway waits for so many seconds before it asks again. */
  readonly onWait?: (request: object, line: WaitLine) => void;
  /** Nothing has been heard for so many seconds. */
  readonly onSilence?: (request: object, seconds: number, who: string) => void;
  readonly onCompacted?: (request: object, line: CompactedLine) => void;
  /** What was waited for is there, or given up. */
  readonly onOver?: (request: object) => void;
}

const PATIENCE = 5_000;

export class Waiting {
  readonly #request: object;
  readonly #watcher: Watcher;
  readonly #timer: NodeJS.Timeout;
  #since = Date.now();
  #begun = false;

  constructor(request: object, { detail, name }: Model, watcher: Watcher, patience = PATIENCE) {
    this.#request = request;
    this.#watcher = watcher;
    const show = () => {
      const seconds = (Date.now() - this.#since) / 1000;
      if (seconds > 0) watcher.onSilence?.(request, seconds, detail ?? name);
    };
    this.#timer = setInterval(show, patience);
  }

  /** Whether anything of the answer itself has come. */
  get begun(): boolean {
    return this.#begun;
  }

  take(line: Line): void {
    if (line.kind === "wait") {
      this.#since = Date.now() + line.seconds * 1000;
      this.#watcher.onWait?.(this.#request, line);
    } else if (line.kind === "compacted") this.#watcher.onCompacted?.(this.#request, line);
    else if (!this.#begun) {
      this.#begun = true;
      this.over();
    }
  }

  over(): void {
    clearInterval(this.#timer);
    this.#watcher.onOver?.(this.#request);
  }
}
