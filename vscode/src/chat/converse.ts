// One request from the host's words to the last part: what would fail is refused before it is sent, a gateway that has
// gone is looked for once more, and a cancel ends all of it at once.

import { Failure, said } from "../errors.ts";
import { bodyOf, type Client } from "../gateway/client.ts";
import { Unreachable } from "../gateway/http.ts";
import { type ChatRequest, type CompactedLine, type Model, type Tokens, VERSION, type WaitLine } from "../wire.ts";
import type { Counter } from "./counting.ts";
import type { HostClasses } from "./host.ts";
import { type HostMessage, wireMessages, wireTools } from "./messages.ts";
import { Refusals } from "./refusals.ts";
import { type Reasoning, Reply } from "./reply.ts";

export interface Asked {
  readonly model: Model;
  readonly messages: readonly HostMessage[];
  readonly tools: ChatRequest["tools"];
  readonly toolMode?: number;
  readonly modelOptions?: Readonly<Record<string, unknown>>;
  readonly modelConfiguration?: Readonly<Record<string, unknown>>;
  readonly requestInitiator?: string;
  /** The alias for titles: no thinking. */
  readonly utility?: boolean;
}

export interface Notices {
  readonly onWait?: (line: WaitLine | CompactedLine) => void;
  readonly onUsage?: (tokens: Tokens, model: Model) => void;
  readonly onOver?: () => void;
  readonly onTight?: (tokens: number, model: Model) => void;
  readonly log?: (line: string) => void;
}

export interface Services {
  readonly host: HostClasses;
  readonly client: () => Promise<Client>;
  readonly lost: () => void;
  readonly counter: Counter;
  readonly refusals: Refusals;
  readonly extras: Map<string, Readonly<Record<string, unknown>>>;
  readonly reasoning: Reasoning;
  readonly notices: Notices;
  /** Milliseconds of silence before the answer begins after which that is shown. */
  readonly patience?: number;
}

const KEPT = 2_000; // calls whose state is remembered
const OVER = 1.1; // an estimate may be off by so much before a prompt is refused for its length
const TIGHT = 0.9;
const PATIENCE = 5_000;
const SETTLE = 150; // the host hands parts on in batches, and drops those that an error overtakes

export async function converse(
  asked: Asked,
  report: (part: unknown) => void,
  signal: AbortSignal,
  services: Services,
): Promise<void> {
  const prompt = size(asked, services);
  fits(prompt, asked.model, services.notices);
  const body = bodyOf(requestOf(asked, services));
  let client = await services.client();
  const key = Refusals.key(client.address.url, body);
  const known = services.refusals.of(key);
  if (known) throw known;
  let begun = false;
  const attempt = async () => {
    const reply = new Reply(options(asked, report, prompt, services));
    const begins = waiting(asked.model, services);
    try {
      for await (const line of client.chat(body, signal)) {
        if (!begun) begins();
        begun = true;
        reply.take(line);
      }
    } finally {
      begins();
    }
    reply.finish();
  };
  try {
    await attempt().catch(async (error: unknown) => {
      if (begun || signal.aborted || !(error instanceof Unreachable)) throw error;
      services.lost();
      client = await services.client();
      await attempt();
    });
  } catch (error) {
    if (begun && !signal.aborted) await new Promise((wake) => setTimeout(wake, SETTLE));
    throw explained(error, key, begun, services);
  }
}

/** The gateway waits for a provider that is slow, or at its rate limit: from some seconds on that is shown. Gives the end of it. */
function waiting({ detail, name }: Model, { notices, patience = PATIENCE }: Services): () => void {
  const began = Date.now();
  const show = () => {
    const seconds = (Date.now() - began) / 1000;
    notices.onWait?.({ kind: "wait", seconds, message: `${detail ?? name} has not begun to answer` });
  };
  const timer = setInterval(show, patience);
  return () => clearInterval(timer);
}

function explained(error: unknown, key: string, begun: boolean, services: Services): unknown {
  if (error instanceof Failure) {
    services.refusals.note(key, error);
    return error;
  }
  services.lost();
  const what = begun ? "went away in the middle of its answer" : "does not answer";
  return new Failure(`The gateway ${what} (${said(error)}): try again, or run “Penstock: Restart Gateway”.`, "network");
}

export function requestOf(asked: Asked, { host, extras }: Pick<Services, "host" | "extras">): ChatRequest {
  const { model, messages, tools, toolMode, modelOptions, modelConfiguration, requestInitiator, utility } = asked;
  const chosen = utility ? leastEffort(model) : modelConfiguration;
  return {
    version: VERSION,
    model: model.id,
    messages: wireMessages(messages, host, extras),
    ...(tools?.length ? { tools: wireTools(tools), ...(toolMode ? { toolMode } : {}) } : {}),
    ...(filled(modelOptions) ? { modelOptions } : {}),
    ...(filled(chosen) ? { modelConfiguration: chosen } : {}),
    ...(requestInitiator ? { requestInitiator } : {}),
  };
}

/** As little thinking as a model offers; nothing is said to one that offers no choice. */
function leastEffort({ configurationSchema }: Model): Readonly<Record<string, unknown>> | undefined {
  const { properties } = (configurationSchema ?? {}) as { properties?: { reasoningEffort?: { enum?: unknown[] } } };
  const [least] = properties?.reasoningEffort?.enum ?? [];
  return least === undefined ? undefined : { reasoningEffort: least };
}

const filled = <T extends object>(value: T | undefined): value is T =>
  value !== undefined && Object.keys(value).length > 0;

/** About how many tokens are to be sent. */
function size({ messages, tools }: Asked, { counter, host }: Services): number {
  const spoken = messages.reduce((sum, message) => sum + counter.message(message, host), 0);
  return Math.round((tools ?? []).reduce((sum, tool) => sum + counter.tool(tool), spoken));
}

/** A prompt that is too long is said with numbers; one that is nearly so is shown. */
function fits(tokens: number, model: Model, notices: Notices): void {
  const most = model.maxInputTokens;
  if (tokens > most * OVER) {
    const [about, room] = [tokens, most].map((number) => number.toLocaleString("en"));
    throw new Failure(
      `The prompt is about ${about} tokens and ${model.name} takes ${room}: start a new chat or attach less.`,
      "too-large",
    );
  }
  if (tokens > most * TIGHT) notices.onTight?.(tokens, model);
}

function options(asked: Asked, report: (part: unknown) => void, prompt: number, services: Services) {
  const { host, counter, extras, reasoning, notices } = services;
  const { model } = asked;
  return {
    host,
    report,
    reasoning,
    provider: model.detail ?? "",
    model: model.id,
    estimate: (text: string): Tokens => {
      const completion = Math.max(1, Math.round(counter.text(text)));
      return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
    },
    onCall: ({ callId, extra }: { callId: string; extra?: Readonly<Record<string, unknown>> }) => {
      if (!extra) return;
      if (extras.size >= KEPT) extras.delete(extras.keys().next().value ?? "");
      extras.set(callId, extra);
    },
    // The window that a person watches is not that of the titles made beside it.
    onUsage: (tokens: Tokens) => asked.utility || notices.onUsage?.(tokens, model),
    ...(notices.onWait && { onWait: notices.onWait }),
    ...(notices.log && { log: notices.log }),
  };
}
