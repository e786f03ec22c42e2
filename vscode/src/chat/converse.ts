// One request from the host's messages to the last part. The prompt is counted beside the request. A gateway that has gone
// is looked for once more, and a cancel ends everything at once.

import { Failure, failureOf, GATEWAY, said } from "../errors.ts";
import { bodyOf, type Client } from "../gateway/client.ts";
import type { Address } from "../gateway/http.ts";
import { effortsOf } from "../models.ts";
import { type ChatRequest, type Model, type Tokens, VERSION } from "../wire.ts";
import type { Counter } from "./counting.ts";
import type { HostClasses } from "./host.ts";
import { type HostMessage, wireMessages, wireTools } from "./messages.ts";
import { describeSize, Preflight, type PromptSize } from "./preflight.ts";
import { Refusals } from "./refusals.ts";
import { type Reasoning, Reply } from "./reply.ts";
import { Waiting, type Watcher } from "./waiting.ts";

export interface Asked {
  readonly model: Model;
  readonly messages: readonly HostMessage[];
  readonly tools: ChatRequest["tools"];
  readonly toolMode?: number;
  readonly modelOptions?: Readonly<Record<string, unknown>>;
  readonly modelConfiguration?: Readonly<Record<string, unknown>>;
  readonly requestInitiator?: string;
  /** The alias for titles: the least thinking. */
  readonly utility?: boolean;
}

export interface Notices extends Watcher {
  /** A person's question is about to be sent; a title made beside it is none. */
  readonly onBegin?: (request: object) => void;
  /** Its prompt was counted, or counted better. */
  readonly onPrompt?: (request: object, size: PromptSize, model: Model) => void;
  /** The gateway answers a person's question, under this id. */
  readonly onReply?: (reply: { readonly id: string; readonly asked: Asked; readonly address: Address }) => void;
  readonly onUsage?: (request: object, tokens: Tokens, model: Model, estimated: boolean) => void;
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
  /** How long a prompt may be: a policy of the gateway; empty: the gateway's own. */
  readonly maxInput?: string;
  readonly notices: Notices;
  /** Milliseconds of silence before the answer begins after which that is shown. */
  readonly patience?: number;
  /** Resolves when the host has handed on what it was given. */
  readonly delivered?: () => Promise<unknown>;
  /** Milliseconds without the gateway's count of a prompt after which the local estimate is shown. */
  readonly slowCount?: number;
}

const KEPT = 2_000; // calls whose state is remembered
const BATCH = 150; // milliseconds; the host hands parts on in batches, and drops those that an error overtakes
const LONGEST_DELIVERY = 5_000; // milliseconds

export async function converse(
  asked: Asked,
  report: (part: unknown) => void,
  signal: AbortSignal,
  services: Services,
): Promise<void> {
  if (!asked.utility) services.notices.onBegin?.(asked);
  const preflight = preflightOf(asked, services);
  const body = bodyOf(requestOf(asked, services));
  let client = await unless(signal, services.client());
  const key = Refusals.key(client.address.url, body);
  const known = services.refusals.of(key);
  if (known) throw known;
  let begun = false;
  let given = false;
  const give = (part: unknown) => {
    given = true;
    report(part);
  };
  const attempt = async () => {
    const reply = new Reply(options(asked, give, preflight, services));
    // The waits that a person watches are not those of the titles made beside.
    const waiting = new Waiting(asked, asked.model, asked.utility ? {} : services.notices, services.patience);
    // Nobody watches the size of the titles made beside. The count begins when the request is sent: both have the whole
    // prompt, and on a slow connection the request would have to share it.
    const count = () => preflight.run(() => client.count(body, signal, services.maxInput), signal);
    try {
      const { address } = client;
      const onId = (id: string) => services.notices.onReply?.({ id, asked, address });
      const watch = asked.utility ? {} : { onSent: count, onId };
      for await (const line of client.chat(body, signal, watch)) {
        waiting.take(line);
        begun = waiting.begun;
        reply.take(line);
      }
    } finally {
      waiting.over();
    }
    reply.finish();
  };
  try {
    await attempt().catch(async (error: unknown) => {
      if (begun || signal.aborted || error instanceof Failure) throw error;
      services.lost();
      client = await unless(signal, services.client());
      await attempt();
    });
  } catch (error) {
    if (signal.aborted) throw error;
    if (given) await deliver(services);
    throw await explained(error, { client, key, begun }, services);
  }
}

const pause = (milliseconds: number) => new Promise((wake) => setTimeout(wake, milliseconds));

/** Wait until the parts before an error have arrived. A host that is stuck, or fails, is not waited for. */
async function deliver({ delivered }: Services): Promise<void> {
  await pause(BATCH);
  if (delivered) await Promise.race([delivered().catch(() => undefined), pause(LONGEST_DELIVERY)]);
}

/** What is promised, or an end at once when the caller leaves. */
function unless<T>(signal: AbortSignal, promised: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(new Error("cancelled"));
    if (signal.aborted) leave();
    signal.addEventListener("abort", leave, { once: true });
    promised.then(resolve, reject).finally(() => signal.removeEventListener("abort", leave));
  });
}

interface Tried {
  readonly client: Client;
  readonly key: string;
  readonly begun: boolean;
}

async function explained(error: unknown, { client, key, begun }: Tried, services: Services): Promise<unknown> {
  if (error instanceof Failure) {
    if (error.fault === "auth" && (await client.shut())) return failureOf(SHUT, GATEWAY);
    services.refusals.note(key, error);
    return error;
  }
  services.lost();
  const what = begun ? "went away in the middle of its answer" : `does not answer (${said(error)})`;
  return new Failure(`The gateway ${what}: try again, or run “Penstock: Check Set-up”.`, "network");
}

const SHUT = { kind: "error", fault: "auth", message: "it is not one of its keys", status: 401 } as const;

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

/** As little thinking as a model offers, which may be none; nothing is said to one that offers no choice. */
function leastEffort(model: Model): Readonly<Record<string, unknown>> | undefined {
  const [least] = effortsOf(model);
  return least === undefined ? undefined : { reasoningEffort: least };
}

const filled = <T extends object>(value: T | undefined): value is T =>
  value !== undefined && Object.keys(value).length > 0;

function preflightOf(asked: Asked, { counter, host, notices, slowCount }: Services): Preflight {
  const { model, messages, tools } = asked;
  return new Preflight({
    model,
    estimate: () => counter.prompt(messages, tools ?? [], host),
    onSize: (size) => {
      if (size.level) notices.log?.(`${model.name}: the prompt is ${size.level} the limit: ${describeSize(size)}`);
      notices.onPrompt?.(asked, size, model);
    },
    log: notices.log,
    slow: slowCount,
  });
}

function options(asked: Asked, report: (part: unknown) => void, preflight: Preflight, services: Services) {
  const { host, counter, extras, reasoning, notices } = services;
  const { model } = asked;
  return {
    host,
    report,
    reasoning,
    provider: model.detail ?? "",
    model: model.id,
    estimate: (text: string): Tokens => {
      const prompt = preflight.size.tokens;
      const completion = Math.max(1, Math.round(counter.text(text)));
      return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
    },
    onCall: ({ callId, extra }: { callId: string; extra?: Readonly<Record<string, unknown>> }) => {
      if (!extra) return;
      if (extras.size >= KEPT) extras.delete(extras.keys().next().value ?? "");
      extras.set(callId, extra);
    },
    promptSize: () => describeSize(preflight.size),
    // The window that a person watches is not that of the titles made beside it.
    onUsage: (tokens: Tokens, estimated: boolean) =>
      asked.utility || notices.onUsage?.(asked, tokens, model, estimated),
    ...(notices.log && { log: notices.log }),
  };
}
