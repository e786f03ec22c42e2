// What a start is doing, in words. Shown only once it takes longer than a moment: most starts are over before.

export interface ProgressView {
  /** Show a notification that lasts until `over` resolves. Gives how to change its text. */
  readonly open: (over: Promise<void>) => (text: string) => void;
  /** Call later. Gives how to cancel that. */
  readonly later: (milliseconds: number, run: () => void) => () => void;
}

export const MOMENT = 2_000;

export class StartProgress {
  readonly #view: ProgressView;
  #text = "";
  #cancel: (() => void) | undefined;
  #report: ((text: string) => void) | undefined;
  #close: (() => void) | undefined;

  constructor(view: ProgressView) {
    this.#view = view;
  }

  /** A start has come to its next step; the first one begins it. */
  step(text: string): void {
    this.#text = text;
    this.#report?.(text);
    this.#cancel ??= this.#view.later(MOMENT, () => this.#open());
  }

  #open(): void {
    const over = new Promise<void>((resolve) => {
      this.#close = resolve;
    });
    this.#report = this.#view.open(over);
    this.#report(this.#text);
  }

  /** It is over. Whether anybody saw it. */
  end(): boolean {
    const shown = this.#close !== undefined;
    this.#cancel?.();
    this.#close?.();
    this.#cancel = this.#report = this.#close = undefined;
    return shown;
  }

  dispose(): void {
    this.end();
  }
}

/** What is said after a start that was shown, and the button that goes with it. */
export function readyMessage(models: readonly { readonly played?: boolean }[]): { text: string; button?: string } {
  const real = models.filter(({ played }) => !played).length;
  if (!real) return { text: "Penstock is ready, but there is no key yet.", button: "Add Provider" };
  return { text: `Penstock is ready: ${real} ${real === 1 ? "model" : "models"}.` };
}
