// The routes of a gateway that this extension uses: models, chat, counts, completions, usage, health. Every refusal becomes an
// error line, whatever shape it came in, so that there is one way to tell a person.

import { replyLines } from "../chat/lines.ts";
import { Failure, failureOf, GATEWAY } from "../errors.ts";
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

const SILENCE = 10 * 60_000; // a model may think for long; the gateway gives up sooner than this
const LIST = 20_000;
const HEALTH = 3_000;
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

  /** What can be talked to. `maxInput`: how long a prompt may be, as the gateway's `features.max_input`; empty: as it says. */
  async models(signal?: AbortSignal, maxInput = ""): Promise<Model[]> {
    const path = withPolicy("vscode/models", maxInput);
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

  /** The lines of a reply. A refusal is one line, too. `onSent` is called once the request is sent. */
  async *chat(body: string, signal: AbortSignal, onSent?: () => void): AsyncGenerator<Line> {
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
    const path = withPolicy("vscode/count", maxInput);
    const { status, value } = await json(this.address, path, { method: "POST", body, signal });
    return status === 200 ? asCountedPrompt(value) : undefined;
  }

  /** Filling in the middle. */
  async complete(body: object, signal: AbortSignal): Promise<string> {
    const { status, value } = await json(this.address, "v1/completions", {
      method: "POST",
      body: JSON.stringify(body),
      signal,
    });
    if (status !== 200) throw failureOf(refusal(status, value), GATEWAY);
    const [choice] = (value as { choices?: { text?: string; message?: { content?: string } }[] }).choices ?? [];
    return choice?.text ?? choice?.message?.content ?? "";
  }

  async usage(): Promise<unknown> {
    const { status, value } = await json(this.address, "vscode/usage");
    if (status !== 200) throw failureOf(refusal(status, value), GATEWAY);
    return value;
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

function withPolicy(path: string, maxInput: string): string {
  return maxInput ? `${path}?max_input=${encodeURIComponent(maxInput)}` : path;
}

function usable(model: unknown): model is Model {
  const row = model as Partial<Model> | null;
  return typeof row?.id === "string" && typeof row.name === "string" && typeof row.maxInputTokens === "number";
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
