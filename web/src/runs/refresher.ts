// Asks again when something has changed, one question at a time: an answer always comes before the next question.

const PAUSE = 700; // milliseconds between two questions, while turns come in

interface Options {
  /** Asks and takes the answer. Never rejects. */
  ask: () => Promise<void>;
  /** Changes when an answer is stale. */
  signature: () => string;
  /** Whether nothing must be asked now. */
  isPaused?: () => boolean;
}

export class Refresher {
  readonly #options: Options;
  #known: string | null = null; // the signature that the last question was asked at
  #pending = false;
  #stopped = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Asks now, unless a question is pending or the refresher is paused. */
  async refresh(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending || this.#stopped || this.#options.isPaused?.()) return;
    this.#pending = true;
    this.#known = this.#options.signature();
    await this.#options.ask();
    this.#pending = false;
    this.check();
  }

  /** Asks soon if the last answer is stale; if a question is pending, after its answer. */
  check(): void {
    if (this.#timer !== undefined || this.#pending || this.#stopped) return;
    if (this.#options.signature() !== this.#known) this.#timer = setTimeout(() => void this.refresh(), PAUSE);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }
}
