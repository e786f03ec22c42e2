// One conversation with a model: sends, reads what the client gets as it comes, and follows the same turn in the
// inspector for its events. If the turn cannot be followed, the bytes themselves are traced once they have all come.
// The conversation is kept over reloads of the tab.
import { effect, signal } from "@preact/signals";
import {
  type ClientProtocol,
  type ConvertedRequest,
  convertRequest,
  convertText,
  PROTOCOLS,
} from "../act/protocols.ts";
import { explainUnsendable } from "../act/unsendable.ts";
import { about, refreshAbout } from "../api/about.ts";
import { askJson, explain, listen } from "../api/client.ts";
import { key } from "../api/key.ts";
import type { Additions, Event, Trace } from "../api/types.ts";
import { losesDigits } from "../request/tree.ts";
import { begun } from "../streams/live.ts";
import { forgetValue, keepValue, readValue } from "../ui/tabStore.ts";
import { askedMessages, type Ending, isUnanswered, spokenMessages, type ToolResult } from "./history.ts";
import { describeRefusal } from "./refusals.ts";
import { type ChatMessage, chatBody, NO_SETTINGS, settingsFrom, type TrySettings } from "./settings.ts";

export interface Exchange extends Ending {
  number: number;
  model: string;
  way: ClientProtocol;
  /** The request as it was sent; null until the gateway has converted it. */
  asked: ConvertedRequest | null;
  /** The turn's name in the inspector. */
  id: string;
  status: number;
  error: string;
  events: Event[];
  raw: string;
  bytes: number;
  /** Milliseconds to the first byte. */
  first: number | null;
}

/** Messages before the first exchange: of a turn that was opened here. */
export interface Opened {
  turn: string;
  messages: ChatMessage[];
  /** What Chat cannot say of the request, and what was changed for it. */
  notes?: string[];
}

export const talk = signal<Exchange[]>([]);
export const settings = signal<TrySettings>(NO_SETTINGS);
export const opening = signal<Opened | null>(null);
/** What stands in the box where one writes. */
export const writing = signal("");
/** Images that will be sent with it, as data: addresses. */
export const attachedImages = signal<string[]>([]);
/** Results of calls that will be sent with it, by the id of the call. */
export const resultTexts = signal<Record<string, string>>({});
/** Why a turn cannot be opened here. */
export const openError = signal("");

const MOST_RAW = 400_000; // characters that are kept to be shown
const MOST_BYTES = 16 * 1024 * 1024; // that are kept to be traced
const PATIENCE = 2000; // milliseconds for the watch to open, and for the last events to come
const MOST_KEPT = 30; // exchanges that outlive a reload
const KEPT = "try";
const ROUNDED = "numbers with more digits than JavaScript can hold are rounded; Send again keeps them";

interface Kept {
  exchanges: Exchange[];
  settings: TrySettings;
  opening: Opened | null;
}

/** One for each exchange that is not over, the newest last: an answer may be complete before all its events are. */
let running: AbortController[] = [];
/** Resolves when all events of all exchanges are known. */
let settled = Promise.resolve();
let numbers = 0;
/** What was begun: each turn that is opened, each new conversation and each message. */
let beginnings = 0;
let restored: Promise<void> | null = null;

/** Brings back what was kept when the page was loaded anew. Every call waits for that: turns open in their order. */
export function restore(): Promise<void> {
  restored ??= readKept();
  return restored;
}

async function readKept(): Promise<void> {
  const kept = await readValue<Kept>(KEPT);
  if (!kept || talk.value.length > 0) return;
  const over = (state: Exchange["state"]) => (state === "sending" || state === "streaming" ? "stopped" : state);
  talk.value = kept.exchanges.map((exchange) => ({ ...exchange, state: over(exchange.state) }));
  settings.value = { ...NO_SETTINGS, ...kept.settings };
  opening.value = kept.opening;
  numbers = Math.max(0, ...kept.exchanges.map(({ number }) => number + 1));
  const last = talk.value.at(-1);
  if (last && isUnanswered(last)) putBack(last);
}

function keep(): void {
  const exchanges = talk.value.slice(-MOST_KEPT);
  void keepValue(KEPT, { exchanges, settings: settings.value, opening: opening.value } satisfies Kept);
}

export function changeSettings(fields: Partial<TrySettings>): void {
  settings.value = { ...settings.value, ...fields };
  keep();
}

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

/** Resolves or rejects as `promise` does, and rejects as soon as `signal` fires. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}

/** Whether an answer is awaited or coming. */
export function isBusy(): boolean {
  return talk.value.some(({ state }) => state === "sending" || state === "streaming");
}

/** Stops the newest answer. */
export function stop(): void {
  running.at(-1)?.abort();
}

/** Empties the box where one writes. */
export function clearMessage(): void {
  writing.value = "";
  attachedImages.value = [];
  resultTexts.value = {};
}

/** Puts a message that got no answer back into the box: its text and images before those that were added since. A result
 * that was written since stays. */
function putBack({ said, images, results }: Message): void {
  writing.value = writing.value.trim() && said ? `${said}\n\n${writing.value}` : said || writing.value;
  attachedImages.value = [...images, ...attachedImages.value];
  const texts = Object.fromEntries(results.map(({ id, text }) => [id, text]));
  resultTexts.value = { ...texts, ...resultTexts.value };
}

/** Begins a new conversation; the settings stay. */
export function startAnew(): void {
  beginnings += 1;
  for (const one of running) one.abort();
  running = [];
  settled = Promise.resolve();
  talk.value = [];
  opening.value = null;
  clearMessage();
  keep();
}

/** Forgets the conversation and the settings, also in the browser's storage. */
export function forgetAll(): void {
  startAnew();
  settings.value = NO_SETTINGS;
  void forgetValue(KEPT);
}

/** Loads a turn's request: its settings, its messages, and its last question to be sent again. Returns its model; null,
 * and changes nothing, if something else was begun meanwhile. */
export async function openTurn(id: string): Promise<{ model: string; protocol: string } | null> {
  const number = ++beginnings;
  openError.value = "";
  try {
    const trace = await askJson<Trace>(`/inspector/turns/${encodeURIComponent(id)}`);
    const { request, row } = trace;
    const obstacle = explainUnsendable(trace);
    if (obstacle || !row) throw new Error(obstacle);
    const made = await convertText(request, { from: row.protocol, to: "openai-chat", model: row.asked });
    if (number !== beginnings) return null;
    const { settings: found, messages } = settingsFrom(JSON.parse(made.text));
    startAnew();
    const last = messages.at(-1);
    const question = last?.role === "user" && typeof last.content === "string" ? last.content : "";
    settings.value = found;
    writing.value = question;
    const notes = losesDigits(made.text) ? [...made.notes, ROUNDED] : made.notes;
    opening.value = { turn: id, messages: question ? messages.slice(0, -1) : messages, notes };
    keep();
    return { model: row.asked, protocol: row.protocol };
  } catch (error) {
    if (number === beginnings) openError.value = explain(error);
    return null;
  }
}

export interface Message {
  said: string;
  images: string[];
  results: ToolResult[];
}

/** Sends a message. Returns false, and does nothing, while an answer is awaited or coming. */
export function send(message: Message, model: string, way: ClientProtocol): boolean {
  if (isBusy()) return false;
  beginnings += 1;
  const now: Exchange = {
    ...{ number: numbers++, ...message, model, way, asked: null, state: "sending", id: "", status: 0, error: "" },
    ...{ events: [], raw: "", bytes: 0, first: null, took: null },
  };
  talk.value = [...talk.value, now];
  const before = settled;
  settled = run(now, before).then(() => before); // one that is stopped while it waits does not end the wait
  return true;
}

/** Sends an exchange as soon as the answer before it is known whole, and reads its answer. Never rejects. */
async function run(now: Exchange, before: Promise<void>): Promise<void> {
  const abort = new AbortController();
  const { signal } = abort;
  const chosen = settings.value;
  running.push(abort);
  let sent = performance.now();
  try {
    await unlessAborted(before, signal);
    const body = chatBody(now.model, chosen, messagesOf(now));
    sent = performance.now();
    await unlessAborted(watching(), signal);
    const options = { from: "openai-chat", to: now.way.id, model: now.model, stream: true };
    now.asked = await unlessAborted(convertRequest(JSON.stringify(body), options), signal);
    await new Running(now, now.asked, performance.now(), signal).go();
  } catch (error) {
    const stopped = signal.aborted;
    Object.assign(now, { state: stopped ? "stopped" : "failed", error: stopped ? "" : explain(error) });
  } finally {
    running = running.filter((one) => one !== abort);
    now.took = performance.now() - sent;
    show([now]);
    if (talk.value.at(-1)?.number === now.number && isUnanswered(now)) putBack(now);
    keep();
  }
}

/** All messages of a request: those of the turn that was opened, of the exchanges before, and its own. */
function messagesOf(now: Exchange): ChatMessage[] {
  const earlier = talk.value.filter(({ number }) => number < now.number);
  return [...(opening.value?.messages ?? []), ...spokenMessages(earlier, now.results), ...askedMessages(now)];
}

/** The protocol of a name; the first one if there is none. */
export function protocolOf(id: string): ClientProtocol {
  const found = PROTOCOLS.find((one) => one.id === id) ?? PROTOCOLS[0];
  if (!found) throw new Error("there is no protocol");
  return found;
}

const changed = new Set<Exchange>();

/** Shows how an exchange stands: once a frame at most, however fast a stream comes. */
function redraw(now: Exchange): void {
  const waiting = changed.size > 0;
  changed.add(now);
  if (waiting) return;
  const draw = () => {
    show([...changed]);
    changed.clear();
  };
  if (document.hidden) setTimeout(draw);
  else requestAnimationFrame(draw);
}

function show(exchanges: readonly Exchange[]): void {
  talk.value = talk.value.map((one) => {
    const now = exchanges.find(({ number }) => number === one.number);
    return now ? { ...now } : one;
  });
}

class Running {
  readonly #now: Exchange;
  readonly #asked: ConvertedRequest;
  readonly #sent: number;
  readonly #signal: AbortSignal;
  readonly #chunks: Uint8Array<ArrayBuffer>[] = [];
  #followed = false;

  constructor(now: Exchange, asked: ConvertedRequest, sent: number, signal: AbortSignal) {
    this.#now = now;
    this.#asked = asked;
    this.#sent = sent;
    this.#signal = signal;
  }

  async go(): Promise<void> {
    const { path, body } = this.#asked;
    const headers: Record<string, string> = { ...this.#asked.headers };
    if (key.value) headers.authorization = `Bearer ${key.value}`;
    const request = { method: "POST", headers, body: JSON.stringify(body), signal: this.#signal };
    const response = await fetch(path, request);
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
    // Whose 401 it is, a provider's or the gateway's, only the gateway can say: it is asked whether it wants a key.
    if (response.status === 401) void refreshAbout();
    Object.assign(this.#now, {
      raw: text.slice(0, MOST_RAW),
      error: describeRefusal(response.status, text),
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
    const request = { method: "POST", body: new Blob(this.#chunks), signal: this.#signal };
    const trace = await askJson<Trace>(path, request);
    this.#now.events = trace.events;
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
