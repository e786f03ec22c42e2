// The language-model provider: the host's three questions, answered from what the gateways list. All work is elsewhere;
// here is which gateway a model belongs to, and in which form an error reaches whom.

import * as vscode from "vscode";
import { converse, type Notices } from "./chat/converse.ts";
import { type Counter, CounterCache } from "./chat/counting.ts";
import { classesOf } from "./chat/host.ts";
import type { HostMessage } from "./chat/messages.ts";
import { Refusals } from "./chat/refusals.ts";
import { Failure, said } from "./errors.ts";
import { Client } from "./gateway/client.ts";
import { type Address, baseOf } from "./gateway/http.ts";
import { fingerprint, type Information, type Listed, listed, suffixOf } from "./models.ts";
import type { Settings } from "./settings.ts";
import type { ChatRequest, Model } from "./wire.ts";

export const VENDOR = "penstock";
/**
 * Further gateways, as configuration groups. A vendor of their own: what a person chooses for a model (how much it thinks) is
 * kept in a group as well, and a host looks only there for a vendor that has groups.
 */
export const GROUPS = "penstock-gateway";
/** Who shows an error as it is, stack and all, to a person: they get a plain one. */
const VIEWS = new Set(["core", "github.copilot-chat", "vscode.chat"]);

interface Home extends Listed {
  readonly client: () => Promise<Client>;
  /** Replaced when the gateway has learned another factor. */
  counter: Counter;
  readonly lost: () => void;
  /** Of the gateway that lists it. */
  readonly suffix: string;
}

/** What the host sends beyond its typings. */
interface Options extends vscode.ProvideLanguageModelChatResponseOptions {
  readonly modelConfiguration?: Readonly<Record<string, unknown>>;
  readonly requestInitiator?: string;
}

export interface Gateways {
  /** The address of the one gateway that needs no configuration group. */
  readonly address: () => Promise<Address>;
  readonly lost: () => void;
  /** Why its models cannot be listed though it answers; undefined: they can. */
  readonly trouble: (why: Failure | undefined) => void;
}

type Host = vscode.LanguageModelChatProvider<Information>;
type Listing = Host["provideLanguageModelChatInformation"];

export class Provider {
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #homes = new WeakMap<object, Home>();
  readonly #byId = new Map<string, Home>();
  /** What the host was told, by suffix; nothing of a gateway that could not be asked. */
  readonly #lists = new Map<string, { client: () => Promise<Client>; seen: string }>();
  readonly #counters = new CounterCache();
  readonly #refusals = new Refusals();
  readonly #extras = new Map<string, Readonly<Record<string, unknown>>>();
  readonly #host = classesOf(vscode as unknown as Record<string, unknown>);
  readonly #gateways: Gateways;
  readonly #settings: () => Settings;
  readonly #notices: Notices;
  #models: readonly Model[] = [];

  constructor(gateways: Gateways, settings: () => Settings, notices: Notices) {
    this.#gateways = gateways;
    this.#settings = settings;
    this.#notices = notices;
  }

  /** All models of the gateway, shown or not. */
  get models(): readonly Model[] {
    return this.#models;
  }

  get thinks(): boolean {
    return this.#host.Thinking !== undefined;
  }

  /** Something changed: let the host ask anew. */
  refresh(): void {
    this.#refusals.clear();
    this.#lists.clear();
    this.#changed.fire();
  }

  /** Look whether the gateway, or one of a group, lists other models than the host was told of. */
  async look(): Promise<void> {
    for (const [suffix, { client, seen }] of this.#lists) {
      const models = await client()
        .then((found) => found.models(undefined, this.#settings().maxInput))
        .catch(() => undefined);
      if (models && fingerprint(models) !== seen) return this.refresh();
      if (models) this.#recount(models, suffix);
    }
  }

  /** Count by the factors that the gateway has learned since. The host is not told: it would list all models anew. */
  #recount(models: readonly Model[], suffix: string): void {
    const byId = new Map(models.map((model) => [model.id, model] as const));
    for (const home of this.#byId.values()) {
      const model = home.suffix === suffix ? byId.get(home.model.id) : undefined;
      if (model) home.counter = this.#counters.get(model.counting);
    }
    this.#pruneCounters();
  }

  #pruneCounters(): void {
    this.#counters.prune([...this.#byId.values()].map(({ counter }) => counter));
  }

  /** What the host asks, of the gateway that needs no configuration. */
  get own(): Host {
    return this.#as((_, token) => this.#listOwn(signalOf(token)));
  }

  /** What the host asks, of further gateways: one group at a time, and once for none. */
  get groups(): Host {
    return this.#as(async (options, token) => {
      const { url, apiKey } = (options as { configuration?: { url?: string; apiKey?: string } }).configuration ?? {};
      return url ? this.#group({ url: baseOf(url, "The URL of the group"), key: apiKey ?? "" }, signalOf(token)) : [];
    });
  }

  #as(list: Listing): Host {
    return {
      onDidChangeLanguageModelChatInformation: this.#changed.event,
      provideLanguageModelChatInformation: list,
      provideLanguageModelChatResponse: (...asked) => this.#respond(...asked),
      provideTokenCount: async (model, text) => this.#count(model, text),
    };
  }

  async #listOwn(signal: AbortSignal): Promise<Information[]> {
    this.#lists.set("", { client: () => this.#own(), seen: "" });
    const client = await this.#own();
    const models = await client
      .models(signal, this.#settings().maxInput)
      .catch(async (error: unknown) => {
        if (error instanceof Failure || signal.aborted) throw error;
        this.#gateways.lost();
        return (await this.#own()).models(signal, this.#settings().maxInput);
      })
      .catch((error: unknown) => {
        // The editor shows this only to those who look in the right place.
        if (error instanceof Failure) this.#gateways.trouble(error);
        throw error;
      });
    this.#gateways.trouble(undefined);
    this.#models = models;
    return this.#list(models, "", () => this.#own(), this.#gateways.lost);
  }

  /** A further gateway, from a configuration group: its host tells its models from ours. */
  async #group(address: Address, signal: AbortSignal): Promise<Information[]> {
    const client = new Client(address, this.#notices.log);
    const suffix = suffixOf(address.url);
    this.#lists.set(suffix, { client: async () => client, seen: "" });
    const models = await client.models(signal, this.#settings().maxInput).catch((error: unknown) => {
      if (error instanceof Failure) throw error;
      throw new Failure(
        `The gateway at ${address.url} does not answer (${said(error)}): start it or change its address.`,
        "network",
      );
    });
    return this.#list(
      models,
      suffix,
      async () => client,
      () => {},
    );
  }

  #list(models: readonly Model[], suffix: string, client: () => Promise<Client>, lost: () => void): Information[] {
    this.#lists.set(suffix, { client, seen: fingerprint(models) });
    const rows = listed(models, this.#settings().models, suffix).map((row) => {
      const home: Home = { ...row, suffix, client, lost, counter: this.#counters.get(row.model.counting) };
      this.#homes.set(row.information, home);
      this.#byId.set(row.information.id, home);
      return row.information;
    });
    this.#pruneCounters();
    return rows;
  }

  async #own(): Promise<Client> {
    return new Client(await this.#gateways.address(), this.#notices.log);
  }

  /** The host hands our own object back; if some version copies it, its id will do. */
  #home(model: vscode.LanguageModelChatInformation): Home {
    const home = this.#homes.get(model) ?? this.#byId.get(model.id);
    if (!home) throw new Failure(`The gateway no longer lists ${model.name}: pick another model.`, "not-found");
    return home;
  }

  async #respond(
    model: Information,
    messages: readonly vscode.LanguageModelChatRequestMessage[],
    options: vscode.ProvideLanguageModelChatResponseOptions,
    progress: vscode.Progress<vscode.LanguageModelResponsePart>,
    token: vscode.CancellationToken,
  ): Promise<void> {
    const { tools, toolMode, modelOptions, modelConfiguration, requestInitiator } = options as Options;
    const signal = signalOf(token);
    try {
      const { model: wire, utility, client, counter, lost } = this.#home(model);
      await converse(
        {
          model: wire,
          messages: messages as readonly HostMessage[],
          tools: tools as ChatRequest["tools"],
          toolMode,
          ...(modelOptions && { modelOptions }),
          ...(modelConfiguration && { modelConfiguration }),
          ...(requestInitiator && { requestInitiator }),
          ...(utility && { utility }),
        },
        (part) => signal.aborted || progress.report(part as vscode.LanguageModelResponsePart),
        signal,
        {
          host: this.#host,
          client,
          lost,
          counter,
          refusals: this.#refusals,
          extras: this.#extras,
          reasoning: this.#settings().reasoning,
          maxInput: this.#settings().maxInput,
          notices: this.#notices,
        },
      );
    } catch (error) {
      if (signal.aborted) throw new vscode.CancellationError();
      this.#notices.log?.(said(error));
      throw told(error, requestInitiator ?? "core");
    }
  }

  #count(model: Information, text: string | vscode.LanguageModelChatRequestMessage): number {
    const { counter } = this.#home(model);
    return typeof text === "string" ? counter.text(text) : counter.message(text as HostMessage, this.#host);
  }
}

/** A failure in the form in which its reader can bear it: without a stack in a view, with a code for programs. */
function told(error: unknown, initiator: string): Error {
  const failure = error instanceof Failure ? error : new Failure(said(error));
  if (VIEWS.has(initiator.toLowerCase())) return failure;
  const { LanguageModelError } = vscode;
  switch (failure.code) {
    case "NoPermissions":
      return LanguageModelError.NoPermissions(failure.message);
    case "NotFound":
      return LanguageModelError.NotFound(failure.message);
    case "Blocked":
      return LanguageModelError.Blocked(failure.message);
    default:
      return new LanguageModelError(failure.message);
  }
}

function signalOf(token: vscode.CancellationToken): AbortSignal {
  const controller = new AbortController();
  if (token.isCancellationRequested) controller.abort();
  token.onCancellationRequested(() => controller.abort());
  return controller.signal;
}
