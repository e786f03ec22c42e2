// Hands this window's keys of providers to the gateway that this user's extension has started, and to no other: the address
// must be the one in `gateway.json`, and its process must be one of ours. Done at each start of a gateway and at each change.

import { said } from "../errors.ts";
import type { Running } from "./files.ts";
import type { Address } from "./http.ts";
import { type ProviderEntry, ProviderRoutes } from "./provider-routes.ts";

export interface HandoverOptions {
  /** The name of this window, as no other has it. */
  readonly window: string;
  /** What `gateway.json` says. */
  readonly running: () => Running | undefined;
  /** Whether its process is a gateway of ours. */
  readonly ours: (running: Running) => Promise<boolean>;
  readonly entries: () => Promise<readonly ProviderEntry[]>;
  readonly log: (line: string) => void;
}

export class KeyHandover {
  readonly #options: HandoverOptions;
  #given = ""; // the key of the gateway that has what this window has
  #handing: Promise<void> = Promise.resolve();

  constructor(options: HandoverOptions) {
    this.#options = options;
  }

  /** Whether the gateway at an address is one that the extension has started. Anything else gets no key. */
  async isOwn(address: Address): Promise<boolean> {
    const running = this.#options.running();
    return running?.url === address.url && running.key === address.key && (await this.#options.ours(running));
  }

  /** This window has other keys now. */
  changed(): void {
    this.#given = "";
  }

  /**
   * Hand over the keys unless this gateway has them, and wait while they are under way: until then it lists no models of
   * their providers. A failure is logged: the gateway answers without them, too.
   */
  async ensure(address: Address): Promise<void> {
    await this.hand(address).catch((error: unknown) => this.#options.log(`keys were not handed over: ${said(error)}`));
  }

  /** Hand over the keys, one call after the other. Rejects if the gateway does not take them. */
  hand(address: Address): Promise<void> {
    const next = this.#handing.catch(() => {}).then(() => this.#hand(address));
    this.#handing = next;
    return next;
  }

  async #hand(address: Address): Promise<void> {
    if (this.#given === address.key || !(await this.isOwn(address))) return;
    this.#given = address.key; // a change from here on clears it again, also while the entries are read
    try {
      const entries = await this.#options.entries();
      const problems = await new ProviderRoutes(address).put(this.#options.window, entries);
      for (const [name, why] of Object.entries(problems)) this.#options.log(`the key of ${name} is not used: ${why}`);
    } catch (error) {
      this.#given = "";
      throw error;
    }
  }

  /** Say again that this window is there: the gateway forgets windows that do not report. */
  async renew(address: Address): Promise<void> {
    this.changed();
    await this.ensure(address);
  }

  /** This window is closed. */
  async close(address: Address): Promise<void> {
    if (await this.isOwn(address)) await new ProviderRoutes(address).remove(this.#options.window);
  }
}
