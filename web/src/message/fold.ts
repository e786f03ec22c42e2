// Events up to the n-th → the message as a person saw it then. Pure; leans on nothing but the shapes.
// The gateway guarantees the grammar, yet a saved file may hold anything: a delta without its start is let go.
import type { Event } from "../api/types.ts";
import type { By, CallPart, FilePart, Message, Part, ReasoningPart, StrayPart, TextPart, Tokens } from "./parts.ts";

type Body = Record<string, unknown>;

/** `inStream`: a frame caused the event. */
type Action = (fold: Fold, message: Message, body: Body, inStream: boolean) => void;

/** As much of a file as the gateway sends; more of it would be cut. */
const LONGEST_FILE = 8 * 2 ** 20;

/** All turns of `events[0 … upto)`; there is normally one. */
export function foldMessage(events: readonly Event[], upto: number = events.length): Message[] {
  const fold = new Fold();
  fold.advance(events, upto);
  return fold.messages;
}

/** A fold that goes on where it was: a stream that grows is not folded anew for each event. */
export class Fold {
  messages: Message[] = [];
  #taken = 0;
  #last: Event | undefined;
  #parts = new Map<number, Part>();
  #calls = new Map<string, CallPart>();
  #steps = new Map<number, Tokens>();
  #numbers = new Map<string, number>();

  /** To `upto` events; what was taken is kept if `events` still begins with it. */
  advance(events: readonly Event[], upto: number): Message[] {
    const end = Math.max(0, Math.min(upto, events.length));
    if (end < this.#taken || (this.#taken > 0 && events[this.#taken - 1] !== this.#last)) this.#forget();
    for (; this.#taken < end; this.#taken++) {
      const event = events[this.#taken];
      if (event) this.#take(event);
    }
    this.#last = events[end - 1];
    return this.messages;
  }

  #forget(): void {
    this.messages = [];
    this.#taken = 0;
    this.#begin();
  }

  #begin(): void {
    this.#parts = new Map();
    this.#calls = new Map();
    this.#steps = new Map();
    this.#numbers = new Map();
  }

  #take(event: Event): void {
    const message = this.messages.at(-1);
    const ended = !message || message.finish !== null || message.fault !== null;
    if (event.type === "start" || ended) {
      this.messages.push(empty(event.type === "start" ? event.body : {}));
      this.#begin();
    }
    const now = this.messages.at(-1);
    if (now && Object.hasOwn(Fold.#table, event.type))
      Fold.#table[event.type]?.(this, now, event.body, event.frame !== null);
  }

  #open(message: Message, part: Part): void {
    message.parts.push(part);
    this.#parts.set(part.index, part);
    if (part.kind === "call") this.#calls.set(part.id, part);
  }

  #say(body: Body): void {
    const part = this.#parts.get(num(body.index));
    if (part && "text" in part) part.text += str(body.text);
  }

  #end(body: Body): void {
    const part = this.#parts.get(num(body.index));
    if (part && "open" in part) part.open = false;
  }

  #callDelta(body: Body): void {
    const part = this.#parts.get(num(body.index));
    if (part?.kind === "call") part.json += str(body.json);
  }

  #callEnd(body: Body, state: "whole" | "cut"): void {
    const part = this.#parts.get(num(body.index));
    if (part?.kind !== "call") return;
    part.json = str(body.json);
    part.name = str(body.name) || part.name;
    part.state = state;
  }

  #fileDelta(body: Body): void {
    const part = this.#parts.get(num(body.index));
    if (part?.kind !== "file") return;
    part.data += str(body.data);
    part.cut ||= part.data.length >= LONGEST_FILE;
  }

  #result(message: Message, body: Body): void {
    const answer = { json: str(body.json), failed: body.failed === true, partial: body.partial === true };
    const call = this.#calls.get(str(body.call));
    if (call) call.result = answer;
    else this.#open(message, { ...stray("result", body), text: answer.json });
  }

  #ask(message: Message, body: Body): void {
    const call = this.#calls.get(str(body.call));
    if (call) call.ask = str(body.id);
    else this.#open(message, stray("ask", body));
  }

  /** One address is one number, however often it is cited. */
  #source(message: Message, body: Body): void {
    const url = str(body.url);
    const title = str(body.title) || str(body.filename) || str(body.id);
    const name = `${url} ${title}`;
    const number = this.#numbers.get(name) ?? this.#numbers.size + 1;
    this.#numbers.set(name, number);
    const span = body.span;
    message.sources.push({
      number,
      url,
      title,
      quote: str(body.quote),
      of: count(body.of),
      span: Array.isArray(span) ? [num(span[0]), num(span[1])] : null,
    });
  }

  #usage(message: Message, body: Body): void {
    const found = tokens(body);
    const step = num(body.step);
    this.#steps.set(step, found);
    const whole = this.#steps.get(0); // the turn's own word counts, once there is one
    message.usage = whole ?? total([...this.#steps.values()]);
  }

  /** What each event does: the contents page. A type that is not here changes nothing a person sees. */
  static readonly #table: Record<string, Action> = {
    "text-start": (fold, message, body) => fold.#open(message, text("text", body)),
    "refusal-start": (fold, message, body) => fold.#open(message, text("refusal", body)),
    "reasoning-start": (fold, message, body) => fold.#open(message, reasoning(body)),
    "call-start": (fold, message, body) => fold.#open(message, call(body)),
    "file-start": (fold, message, body) => fold.#open(message, file(body)),
    "text-delta": (fold, _, body) => fold.#say(body),
    "refusal-delta": (fold, _, body) => fold.#say(body),
    "reasoning-delta": (fold, _, body) => fold.#say(body),
    "call-delta": (fold, _, body) => fold.#callDelta(body),
    "file-delta": (fold, _, body) => fold.#fileDelta(body),
    "text-end": (fold, _, body) => fold.#end(body),
    "refusal-end": (fold, _, body) => fold.#end(body),
    "reasoning-end": (fold, _, body) => fold.#end(body),
    "file-end": (fold, _, body) => fold.#end(body),
    "call-end": (fold, _, body) => fold.#callEnd(body, "whole"),
    "call-cut": (fold, _, body) => fold.#callEnd(body, "cut"),
    result: (fold, message, body) => fold.#result(message, body),
    ask: (fold, message, body) => fold.#ask(message, body),
    source: (fold, message, body) => fold.#source(message, body),
    opaque: (fold, message, body) => fold.#open(message, other("opaque", str(body.kind), body.data, body)),
    data: (_, message, body) => data(message, body),
    step: (_, message, body) => message.parts.push(other("step", String(num(body.number)), undefined, body)),
    usage: (fold, message, body) => fold.#usage(message, body),
    finish: (_, message, body) => {
      message.finish = { reason: str(body.reason), raw: str(body.raw) };
    },
    fault: (_, message, body, inStream) => fault(message, body, inStream),
    unknown: (_, message) => {
      message.unknown += 1;
    },
  };
}

function empty(body: Body): Message {
  return {
    id: str(body.id),
    model: str(body.model),
    parts: [],
    sources: [],
    usage: null,
    finish: null,
    fault: null,
    unknown: 0,
  };
}

function text(kind: "text" | "refusal", body: Body): TextPart {
  const place = { index: num(body.index), choice: num(body.choice), item: str(body.item) };
  return { kind, ...place, text: "", open: true };
}

function reasoning(body: Body): ReasoningPart {
  const form = str(body.form) || "full";
  return { kind: "reasoning", index: num(body.index), choice: num(body.choice), form, text: "", open: true };
}

function call(body: Body): CallPart {
  const by: By = body.by === "provider" ? "provider" : "client";
  const names = { id: str(body.id), name: str(body.name), by, form: str(body.form) || "json" };
  const place = { index: num(body.index), choice: num(body.choice) };
  return { kind: "call", ...place, ...names, json: "", state: "open", result: null, ask: null };
}

function file(body: Body): FilePart {
  const place = { index: num(body.index), choice: num(body.choice) };
  return { kind: "file", ...place, media: str(body.media), url: str(body.url), data: "", open: true, cut: false };
}

function stray(kind: "result" | "ask", body: Body): StrayPart {
  return { kind, index: num(body.index), name: str(body.name) || str(body.call), text: "" };
}

function other(kind: "opaque" | "data" | "step", name: string, value: unknown, body: Body) {
  const text = value === undefined ? "" : JSON.stringify(value);
  return { kind, index: num(body.index, -1), name, text };
}

/** Data with an id is said again to be changed: the last one counts, where the first one stood. */
function data(message: Message, body: Body): void {
  const id = str(body.id);
  const name = id ? `${str(body.name)} ${id}` : str(body.name);
  const said = id ? message.parts.find((part) => part.kind === "data" && part.name === name) : undefined;
  if (said?.kind === "data") said.text = str(body.json);
  else message.parts.push({ kind: "data", index: -1, name, text: str(body.json) });
}

function fault(message: Message, body: Body, inStream: boolean): void {
  message.fault = {
    kind: str(body.kind),
    message: str(body.message),
    status: count(body.status),
    code: str(body.code),
    retryAfter: count(body.retry_after),
    inStream,
  };
}

function tokens(body: Body): Tokens {
  return {
    input: count(body.input),
    output: count(body.output),
    cached: count(body.cached),
    written: count(body.written),
    reasoning: count(body.reasoning),
    exact: body.exact !== false,
  };
}

function total(steps: Tokens[]): Tokens {
  const add = (name: "input" | "output" | "cached" | "written" | "reasoning"): number | null => {
    const known = steps.map((step) => step[name]).filter((value) => value !== null);
    return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) : null;
  };
  const sums = { input: add("input"), output: add("output"), cached: add("cached"), written: add("written") };
  return { ...sums, reasoning: add("reasoning"), exact: steps.every((step) => step.exact) };
}

function str(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function num(value: unknown, otherwise = 0): number {
  return typeof value === "number" ? value : otherwise;
}

function count(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
