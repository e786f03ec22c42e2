// Requests that failed for good, for 30 seconds: hosts retry what cannot work, and each try costs time or money.

import { createHash } from "node:crypto";
import type { Failure } from "../errors.ts";

const SECONDS = 30;
const MOST = 100;

export class Refusals {
  readonly #known = new Map<string, { failure: Failure; until: number }>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  static key(gateway: string, body: string): string {
    return createHash("sha256").update(gateway).update("\n").update(body).digest("base64");
  }

  /** Keep a failure that another try would only repeat. */
  note(key: string, failure: Failure): void {
    if (!failure.lasting) return;
    if (this.#known.size >= MOST) this.#known.delete(this.#known.keys().next().value ?? "");
    this.#known.set(key, { failure, until: this.#now() + SECONDS * 1000 });
  }

  /** The failure of this very request, if it is fresh. */
  of(key: string): Failure | undefined {
    const row = this.#known.get(key);
    if (!row) return undefined;
    if (row.until > this.#now()) return row.failure;
    this.#known.delete(key);
    return undefined;
  }

  /** Something was changed: what failed may work now. */
  clear(): void {
    this.#known.clear();
  }
}
