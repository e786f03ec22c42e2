// Keeps one gateway at hand: the one in the settings, the one another window runs, or one of our own. Starts it anew when
// it is gone, with growing pauses, and says in which state it is. Leans on seams for starting and asking.

import { Failure, said } from "../errors.ts";
import type { Running, SharedFiles } from "./files.ts";
import type { Address } from "./http.ts";

export type State =
  | { readonly is: "idle" }
  | { readonly is: "starting" }
  | { readonly is: "ready"; readonly url: string; readonly own: boolean }
  | { readonly is: "failed"; readonly why: string; readonly again: number };

export interface KeeperOptions {
  readonly files: SharedFiles;
  /** The gateway of the settings, if there is one. */
  readonly configured: () => Promise<Address | undefined>;
  readonly allowed: () => boolean;
  readonly start: () => Promise<Running>;
  readonly stop: (running: Running) => void | Promise<void>;
  readonly healthy: (address: Address) => Promise<boolean>;
  /** Whether its process is there: one that is, and does not answer, may only be busy. */
  readonly alive: (running: Running) => boolean | Promise<boolean>;
  readonly changed: (state: State) => void;
  readonly version: string;
  readonly now?: () => number;
  readonly pause?: (milliseconds: number) => Promise<void>;
}

const FIRST = 1_000;
const LONGEST = 60_000;
const PATIENCE = 3 * 60_000; // that another window may take to start it
const LOOK = 250;
const BUSY = 10_000; // that one may not answer for before it is taken for dead
const MISSES = 2;

export class Keeper {
  readonly #options: KeeperOptions;
  readonly #now: () => number;
  readonly #pause: (milliseconds: number) => Promise<void>;
  #going: Promise<Address> | undefined;
  #ready: Address | undefined;
  #failures = 0;
  #missed = 0;
  #again = 0;
  #state: State = { is: "idle" };

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#pause = options.pause ?? ((milliseconds) => new Promise((wake) => setTimeout(wake, milliseconds)));
  }

  get state(): State {
    return this.#state;
  }

  /** The gateway that the extension started; undefined while there is none, or the settings name another. */
  get ownAddress(): Address | undefined {
    return this.#state.is === "ready" && this.#state.own ? this.#ready : undefined;
  }

  /** The gateway's address; starts one if need be. Rejects with the reason; while a pause lasts, none is started. */
  address(): Promise<Address> {
    if (this.#ready) return Promise.resolve(this.#ready);
    this.#going ??= this.#find().finally(() => {
      this.#going = undefined;
    });
    return this.#going;
  }

  /** It did not answer: look again at the next request. */
  lost(): void {
    this.#ready = undefined;
  }

  /** The settings are others now: whatever failed before is tried again at once. */
  reconsider(): void {
    this.lost();
    this.#failures = 0;
    this.#again = 0;
  }

  /** Look whether it is still there; if not, bring it back. One look in vain does not tell busy from dead. */
  async check(): Promise<void> {
    if (this.#ready && (await this.#options.healthy(this.#ready))) {
      this.#missed = 0;
      return;
    }
    if (!this.#ready && this.#state.is === "idle") return;
    if (this.#ready && ++this.#missed < MISSES && !(await this.#dead())) return;
    this.lost();
    await this.address().catch(() => {});
  }

  async #dead(): Promise<boolean> {
    const running = this.#options.files.running();
    return this.#state.is === "ready" && this.#state.own && !(running && (await this.#options.alive(running)));
  }

  /** Gives where it is now; a gateway of the settings is not ours to stop, and only looked for anew. */
  async restart(): Promise<Address> {
    await this.#going?.catch(() => {});
    const running = this.#options.files.running();
    if (running && !(await this.#options.configured())) {
      await this.#options.stop(running);
      this.#options.files.forget();
    }
    this.reconsider();
    return this.address();
  }

  async #find(): Promise<Address> {
    const left = this.#again - this.#now();
    const paused = left > 0 && this.#state.is === "failed" ? this.#state.why : undefined;
    try {
      const configured = await this.#options.configured();
      if (paused !== undefined) return await this.#look(configured, `${paused}${nextTry(configured, left)}`);
      this.#say({ is: "starting" });
      return this.#use(configured ? await this.#reach(configured) : await this.#own(), configured);
    } catch (error) {
      throw paused === undefined ? this.#failed(error) : error;
    }
  }

  /** Only starts are paused: a gateway that has come back is used at once. */
  async #look(configured: Address | undefined, why: string): Promise<Address> {
    const running = configured ?? this.#fitting();
    if (running && (await this.#options.healthy(running))) return this.#use(running, configured);
    throw new Failure(why, "network");
  }

  #use(found: Address, configured: Address | undefined): Address {
    this.#ready = found;
    this.#failures = 0;
    this.#missed = 0;
    this.#say({ is: "ready", url: found.url, own: !configured });
    return found;
  }

  /** The gateway that a window of this version has started. */
  #fitting(): Running | undefined {
    const running = this.#options.files.running();
    return running?.version === this.#options.version ? running : undefined;
  }

  #failed(error: unknown): Failure {
    const pause = Math.min(FIRST * 2 ** this.#failures++, LONGEST);
    this.#again = this.#now() + pause;
    const why = said(error).replace(/[^.!?…)]$/, "$&.");
    this.#say({ is: "failed", why, again: this.#again });
    return new Failure(why, "network");
  }

  async #reach(address: Address): Promise<Address> {
    if (await this.#options.healthy(address)) return address;
    throw new Failure(
      `The gateway at ${address.url} does not answer: start it, or clear penstock.gateway.url.`,
      "network",
    );
  }

  /** The gateway that all windows share: the one that runs, or one that this window starts unless another does so already. */
  async #own(): Promise<Address> {
    const { files } = this.#options;
    files.touch();
    const began = this.#now();
    do {
      const running = files.running();
      const fitting = this.#fitting();
      if (fitting && (await this.#options.healthy(fitting))) return fitting;
      if (!this.#options.allowed())
        throw new Failure(
          "Starting a gateway is switched off: set penstock.gateway.url or switch penstock.gateway.start on.",
        );
      const busy = fitting !== undefined && this.#now() - began < BUSY && (await this.#options.alive(fitting));
      if (!busy && files.lock()) return await this.#start(running);
      await this.#pause(LOOK);
    } while (this.#now() - began < PATIENCE);
    throw new Failure("Another window has been starting the gateway for minutes: restart it.");
  }

  async #start(old: Running | undefined): Promise<Address> {
    const { files, stop, start, healthy } = this.#options;
    try {
      // Somebody may have finished between our look and our lock.
      const running = files.running();
      if (running && running.pid !== old?.pid && (await healthy(running))) return running;
      if (old) await stop(old);
      const fresh = await start();
      files.write(fresh);
      return fresh;
    } finally {
      files.unlock();
    }
  }

  #say(state: State): void {
    this.#state = state;
    this.#options.changed(state);
  }
}

/** When a start is tried again; a gateway of the settings is not started here, and looked for each time. */
function nextTry(configured: Address | undefined, left: number): string {
  return configured ? "" : ` (Next try in ${Math.ceil(left / 1000)} seconds.)`;
}
