// One talk with a model: sends, reads what the client gets as it comes, and follows the same turn in the inspector for
// its events. If the turn cannot be followed, the bytes themselves are traced once they have all come.
import { effect, signal } from "@preact/signals";
import { about } from "../api/about.ts";
import { askJson, explain, listen } from "../api/client.ts";
import { key, keyWanted } from "../api/key.ts";
import type { Additions, Event, Trace } from "../api/types.ts";
import { foldMessage } from "../message/fold.ts";
import { begun } from "../streams/live.ts";
import { type Asked, refusalWords, type Said, type Way } from "./asking.ts";

export interface Exchange {
  number: number;
  said: string;
  model: string;
  way: Way;
  asked: Asked;
  state: "sending" | "streaming" | "done" | "stopped" | "failed";
  /** The turn's name in the inspector. */
  id: string;
  status: number;
  error: string;
  events: Event[];
  raw: string;
  bytes: number;
  /** Milliseconds: to the first byte, and in all. */
  first: number | null;
  took: number | null;
}

export const talk = signal<Exchange[]>([]);

const MOST_RAW = 400_000; // letters that are kept to be shown
const MOST_BYTES = 16 * 1024 * 1024; // that are kept to be traced
const PATIENCE = 2000; // milliseconds for the watch to open, and for the last events to come

let abort: AbortController | null = null;
/** While the page listens, the gateway keeps what goes by; a turn that is sent before can only be traced afterwards. */
function watching(): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, PATIENCE);
    const stop = effect(() => {
      if (!begun.value && about.value?.live !== false) return;
      clearTimeout(timer);
      resolve();
      queueMicrotask(() => stop());
    });
  });
}

export function stop(): void {
  abort?.abort();
}

export function forget(): void {
  stop();
  talk.value = [];
}

/** What was said so far, as every protocol can carry it: text only. */
export function spoken(exchanges: readonly Exchange[]): Said[] {
  return exchanges.flatMap((exchange) => {
    const answer = textOf(exchange.events);
    const mine: Said = { role: "user", text: exchange.said };
    return answer ? [mine, { role: "assistant", text: answer } as const] : [];
  });
}

function textOf(events: Event[]): string {
  const parts = foldMessage(events).flatMap((message) => message.parts);
  return parts.map((part) => (part.kind === "text" && part.choice === 0 ? part.text : "")).join("");
}

export async function send(text: string, model: string, way: Way): Promise<void> {
  if (abort) return;
  const asked = way.ask(model, [...spoken(talk.value), { role: "user", text }]);
  const now: Exchange = {
    ...{ number: numbers++, said: text, model, way, asked, state: "sending", id: "", status: 0, error: "" },
    ...{ events: [], raw: "", bytes: 0, first: null, took: null },
  };
  talk.value = [...talk.value, now];
  abort = new AbortController();
  const sent = performance.now();
  try {
    await watching();
    await new Running(now, sent, abort.signal).go();
  } catch (error) {
    const stopped = abort.signal.aborted;
    Object.assign(now, { state: stopped ? "stopped" : "failed", error: stopped ? "" : explain(error) });
  } finally {
    abort = null;
    now.took = performance.now() - sent;
    redraw(now);
  }
}

let numbers = 0;
let waiting = false;

/** Shows how an exchange stands: once a frame at most, however fast a stream comes. */
function redraw(now: Exchange): void {
  if (waiting) return;
  waiting = true;
  const draw = () => {
    waiting = false;
    talk.value = talk.value.map((one) => (one.number === now.number ? { ...now } : one));
  };
  if (document.hidden) setTimeout(draw);
  else requestAnimationFrame(draw);
}

class Running {
  readonly #now: Exchange;
  readonly #sent: number;
  readonly #signal: AbortSignal;
  readonly #chunks: Uint8Array<ArrayBuffer>[] = [];
  #followed = false;

  constructor(now: Exchange, sent: number, signal: AbortSignal) {
    this.#now = now;
    this.#sent = sent;
    this.#signal = signal;
  }

  async go(): Promise<void> {
    const { asked } = this.#now;
    const headers: Record<string, string> = { ...asked.headers };
    if (key.value) headers.authorization = `Bearer ${key.value}`;
    const request = { method: "POST", headers, body: JSON.stringify(asked.body), signal: this.#signal };
    const response = await fetch(asked.path, request);
    this.#now.status = response.status;
    this.#now.id = response.headers.get("x-request-id") ?? "";
    if (!response.ok) return this.#refused(response);
    this.#now.state = "streaming";
    const following = this.#follow();
    try {
      await this.#read(response);
      this.#now.state = "done";
      redraw(this.#now);
    } finally {
      await Promise.race([following, pause(PATIENCE)]);
    }
    if (!this.#followed) await this.#trace();
  }

  async #refused(response: Response): Promise<void> {
    const text = await response.text();
    if (response.status === 401) keyWanted.value = true;
    Object.assign(this.#now, {
      raw: text.slice(0, MOST_RAW),
      error: refusalWords(response.status, text),
      state: "failed",
    });
  }

  async #read(response: Response): Promise<void> {
    if (!response.body) return;
    const decoder = new TextDecoder();
    for await (const chunk of response.body as ReadableStream<Uint8Array<ArrayBuffer>>) {
      this.#now.first ??= performance.now() - this.#sent;
      this.#now.bytes += chunk.length;
      if (this.#now.bytes <= MOST_BYTES) this.#chunks.push(chunk);
      if (this.#now.raw.length < MOST_RAW) this.#now.raw += decoder.decode(chunk, { stream: true });
      redraw(this.#now);
    }
  }

  /** The turn's events as they come. */
  async #follow(): Promise<void> {
    if (!this.#now.id || about.value?.live === false) return;
    try {
      const path = `/inspector/turns/${encodeURIComponent(this.#now.id)}/follow`;
      for await (const { event, data } of listen(path, this.#signal)) {
        const more = JSON.parse(data) as Additions | Trace;
        if (event === "trace") this.#now.events = more.events;
        else this.#now.events.push(...more.events);
        this.#followed ||= more.done;
        redraw(this.#now);
      }
    } catch {
      // stopped, or not kept: the bytes are traced in the end
    }
  }

  async #trace(): Promise<void> {
    if (this.#now.bytes === 0 || this.#now.bytes > MOST_BYTES) return;
    const path = `/inspector/trace?protocol=${this.#now.way.id}`;
    const trace = await askJson<Trace>(path, { method: "POST", body: new Blob(this.#chunks) });
    this.#now.events = trace.events;
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
