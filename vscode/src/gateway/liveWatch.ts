// A gateway keeps the frames of a request only while somebody watches. This watches, so that the last requests of a window can
// be inspected afterwards. What the gateway keeps is in its memory, within its bounds. Only gateways on this machine are
// watched: one that many people share has room for few.

import { type Address, ask } from "./http.ts";
import { readSession } from "./session.ts";

const SILENCE = 10 * 60_000;
const LOCAL = new Set(["127.0.0.1", "localhost", "[::1]"]);

export const isLocal = (url: string): boolean => URL.canParse(url) && LOCAL.has(new URL(url).hostname);

export class LiveWatch {
  readonly #address: () => Promise<Address>;
  #open: { readonly url: string; readonly controller: AbortController } | undefined;

  constructor(address: () => Promise<Address>) {
    this.#address = address;
  }

  /** Watch the gateway that is used now. */
  look(): void {
    void this.#address().then(
      (address) => this.#start(address),
      () => undefined,
    );
  }

  /** One that is watched already goes on. */
  #start(address: Address): void {
    if (this.#open?.url === address.url || !isLocal(address.url)) return;
    this.dispose();
    const open = { url: address.url, controller: new AbortController() };
    this.#open = open;
    void drain(address, open.controller.signal).finally(() => {
      if (this.#open === open) this.#open = undefined;
    });
  }

  dispose(): void {
    this.#open?.controller.abort();
    this.#open = undefined;
  }
}

/** Read and forget what is said, until the gateway or the signal ends it. */
async function drain(address: Address, signal: AbortSignal): Promise<void> {
  try {
    const { status, body } = await ask(address, "inspector/live", {
      signal,
      patience: SILENCE,
      session: await readSession(address),
    });
    // A refusal is not read to its end: leaving the loop closes the connection.
    for await (const _ of body) if (status !== 200) break;
  } catch {
    // It is gone: the next request watches anew.
  }
}
