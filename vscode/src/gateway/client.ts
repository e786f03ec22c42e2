// The routes of a gateway that this extension uses: models, chat, counts, completions, usage, health. Every refusal becomes an
// error line, whatever shape it came in, so that there is one way to tell a person.

import { replyLines } from "../chat/lines.ts";
import { Failure, failureOf, GATEWAY } from "../errors.ts";
import type { ProviderCheck, ProviderRow } from "../extras/providerChecks.ts";
import { usable } from "../model-lists.ts";
import {
  asCountedPrompt,
  asLine,
  type ChatRequest,
  type CountedPrompt,
  type ErrorLine,
  type Line,
  type Model,
} from "../wire.ts";
import { type Address, ask, json, textOf } from "./http.ts";
import { readSession } from "./session.ts";

export interface ListOptions {
  /** How long a prompt may be, as the gateway's `features.max_input`; empty: as it says. */
  readonly maxInput?: string;
  /** The window to assume where none is known; 0: as the gateway's `features.assumed_context`. */
  readonly assumedContext?: number;
}

const SILENCE = 10 * 60_000; // a model may think for long; the gateway gives up sooner than this
const LIST = 20_000;
const HEALTH = 3_000;
const CHECK = 60_000; // a provider may take long for its first answer
const PAGE = 64 * 1024 * 1024; // bytes of a page with a whole turn in it
const FAULTS: Readonly<Record<number, string>> = {
  400: "invalid",
  401: "auth",
  402: "quota",
  403: "permission",
  404: "not-found",
  413: "too-large",
  429: "rate-limit",
  529: "overloaded",
};

export class Client {
  readonly address: Address;
  readonly #log: (line: string) => void;

  constructor(address: Address, log: (line: string) => void = () => {}) {
    this.address = address;
    this.#log = log;
  }

  /** What can be talked to. */
  async models(signal?: AbortSignal, { maxInput = "", assumedContext = 0 }: ListOptions = {}): Promise<Model[]> {
    const path = withQuery("vscode/models", { max_input: maxInput, assumed_context: assumedContext || "" });
    const { status, value } = await json(this.address, path, { patience: LIST, ...(signal && { signal }) });
    if (status === 400 && maxInput)
      throw new Failure(
        `${GATEWAY} does not take penstock.models.maxInput (${refusal(status, value).message}): correct the setting.`,
        "invalid",
      );
    if (status !== 200) throw failureOf(refusal(status, value), GATEWAY);
    const models = (value as { models?: unknown } | undefined)?.models;
    if (!Array.isArray(models)) throw failureOf(refusal(502, "its list of models has no models in it"), GATEWAY);
    return models.filter(usable);
  }

  /**
   * The lines of a reply. A refusal is one line, too. `onSent` is called once the request is sent, `onId` with the
   * gateway's id of it.
   */
  async *chat(
    body: string,
    signal: AbortSignal,
    { onSent, onId }: { onSent?: () => void; onId?: (id: string) => void } = {},
  ): AsyncGenerator<Line> {
    const {
      status,
      headers,
      body: chunks,
    } = await ask(this.address, "vscode/chat", {
      method: "POST",
      body,
      signal,
      patience: SILENCE,
      onSent,
    });
    const id = headers["x-request-id"];
    if (typeof id === "string") onId?.(id);
    if (status !== 200) yield withId(refusal(status, parsed(await textOf(chunks))), id);
    else {
      for await (const line of replyLines(chunks, (text) => this.#log(`skipped a line of the reply: ${text}`))) {
        yield line.kind === "error" ? withId(line, id) : line;
      }
    }
  }

  /**
   * The gateway's count of a whole prompt; undefined from an older gateway. `body` is that of the chat request, and
   * `maxInput` the policy with which the models were listed.
   */
  async count(body: string, signal: AbortSignal, maxInput = ""): Promise<CountedPrompt | undefined> {
    const path = withQuery("vscode/count", { max_input: maxInput });
    const { status, value } = await json(this.address, path, { method: "POST", body, signal });
    return status === 200 ? asCountedPrompt(value) : undefined;
  }

  /** The names of models that fill in the middle; undefined from an older gateway. */
  async fimModels(): Promise<readonly string[] | undefined> {
    const { status, value } = await json(this.address, "vscode/models", { patience: LIST });
    const names = status === 200 ? (value as { fim?: unknown } | undefined)?.fim : undefined;
    return Array.isArray(names) ? names.filter((name): name is string => typeof name === "string") : undefined;
  }

  /** Filling in the middle. This route never asks a model by chat. */
  async fill(body: object, signal: AbortSignal): Promise<string> {
    const { status, value } = await json(this.address, "v1/fim/completions", {
      method: "POST",
      body: JSON.stringify(body),
      signal,
    });
    if (status !== 200) throw failureOf(refusal(status, value), GATEWAY);
    const [choice] = (value as { choices?: { text?: string; message?: { content?: string } }[] }).choices ?? [];
    return choice?.text ?? choice?.message?.content ?? "";
  }

  /** What this key has used today, and in the last `days`. */
  async usage(days: number): Promise<unknown> {
    const { status, value } = await json(this.address, `vscode/usage?days=${days}`);
    if (status !== 200) throw failureOf(refusal(status, value), GATEWAY);
    return value;
  }

  /** The daily budget, and what is spent of it. Only for the key that the gateway was started with. */
  async budget(): Promise<unknown> {
    return this.#budget({});
  }

  /** `lifted`: the date of the day for which it does not count. */
  async setBudget(limit: number, lifted: string): Promise<unknown> {
    return this.#budget({ method: "POST", body: JSON.stringify({ limit, lifted }) });
  }

  async #budget(request: { method?: "POST"; body?: string }): Promise<unknown> {
    const { status, value } = await json(this.address, "vscode/budget", request);
    if (status !== 200) throw failureOf(refusal(status, value), GATEWAY);
    return value;
  }

  /** The providers of a gateway that this extension started; undefined from another one, which does not list them. */
  async providers(): Promise<readonly ProviderRow[] | undefined> {
    const { status, value } = await json(this.address, "vscode/providers", { patience: LIST });
    const rows = status === 200 ? (value as { providers?: unknown } | undefined)?.providers : undefined;
    return Array.isArray(rows) ? (rows as ProviderRow[]) : undefined;
  }

  /** One request to a provider, with the key that the gateway has. */
  async checkProvider(provider: string): Promise<ProviderCheck> {
    const body = JSON.stringify({ provider });
    const { status, value } = await json(this.address, "vscode/providers/check", {
      method: "POST",
      body,
      patience: CHECK,
    });
    if (status !== 200) throw failureOf(refusal(status, value), GATEWAY);
    return value as ProviderCheck;
  }

  /** The inspector's page of a request, with all that it shows in it. */
  async turnPage(id: string): Promise<string> {
    const { status, body } = await ask(this.address, `inspector/turns/${encodeURIComponent(id)}/export`, {
      session: await readSession(this.address),
    });
    const text = await textOf(body, PAGE);
    if (status === 404) throw new Failure("the gateway no longer has this request.", "not-found");
    if (status !== 200) throw failureOf(refusal(status, parsed(text)), GATEWAY);
    return text;
  }

  /** Whether it is the gateway that does not take our key; if not, it was a provider that did not take the gateway's. */
  async shut(): Promise<boolean> {
    try {
      return (await json(this.address, "vscode/models", { patience: HEALTH })).status === 401;
    } catch {
      return false;
    }
  }

  async healthy(): Promise<boolean> {
    try {
      return (await json(this.address, "healthz", { patience: HEALTH })).status === 200;
    } catch {
      return false;
    }
  }
}

function withQuery(path: string, values: Readonly<Record<string, string | number>>): string {
  const given = Object.entries(values).filter(([, value]) => value !== "");
  const query = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
  return given.length ? `${path}?${query}` : path;
}

export function bodyOf(request: ChatRequest): string {
  return JSON.stringify(request);
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

/** A refusal in any of its shapes: our own line, a whole reply with one in it, or an object with an error. */
export function refusal(status: number, value: unknown): ErrorLine {
  const plain = { kind: "error", fault: FAULTS[status] ?? "server", message: `status ${status}`, status } as const;
  if (typeof value === "string") return { ...plain, message: value || plain.message };
  const line = asLine(value);
  if (line?.kind === "error") return line;
  const { lines, error, message } = (value ?? {}) as { lines?: unknown[]; error?: unknown; message?: unknown };
  const inner = lines?.map(asLine).find((one) => one?.kind === "error");
  if (inner?.kind === "error") return inner;
  const told = (error as { message?: unknown } | undefined)?.message ?? error ?? message;
  return typeof told === "string" ? { ...plain, message: told } : plain;
}

function withId(line: ErrorLine, id: string | string[] | undefined): ErrorLine {
  return line.requestId || typeof id !== "string" ? line : { ...line, requestId: id };
}
