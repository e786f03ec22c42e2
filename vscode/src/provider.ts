// The language-model provider: the host's three questions, answered from what the gateways list. All work is elsewhere;
// here is which gateway a model belongs to, and in which form an error reaches whom.

import * as vscode from "vscode";
import { withSignal } from "./cancel.ts";
import { converse, type Notices } from "./chat/converse.ts";
import { type Counter, CounterCache } from "./chat/counting.ts";
import { classesOf } from "./chat/host.ts";
import type { HostMessage } from "./chat/messages.ts";
import { Refusals } from "./chat/refusals.ts";
import { Failure, said } from "./errors.ts";
import { Client } from "./gateway/client.ts";
import { type Address, baseOf } from "./gateway/http.ts";
import { type ListSource, type Memory, ModelLists } from "./model-lists.ts";
import { type Information, isReplay, type Listed, listed, suffixOf } from "./models.ts";
import type { GroupConfiguration } from "./providers/groups.ts";
import type { Settings } from "./settings.ts";
import { plainText, SETUP_ID, type SetupAnswer, setupAnswer, setupEntry } from "./setup-entry.ts";
import type { ChatRequest, Model } from "./wire.ts";

export const VENDOR = "penstock";
/**
 * Further gateways, as configuration groups. A vendor of their own: what a person chooses for a model (how much it thinks) is
 * kept in a group as well, and a host looks only there for a vendor that has groups.
 */
export const GROUPS = "penstock-gateway";
/** Providers with a key each, as configuration groups: VS Code's own "Add Models". */
export const KEYED = "penstock-provider";
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

/** The gateway that models are listed by. */
type Source = Pick<Home, "suffix" | "client" | "lost">;

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
  /** Providers whose models are listed in a configuration group: they are not listed twice. */
  readonly grouped: () => ReadonlySet<string>;
  /** Somebody has asked the entry that stands for missing models. */
  readonly setup: (answer: SetupAnswer) => void;
  /** The gateway that needs no configuration group has listed models of a provider. */
  readonly listed?: () => void;
  /** A question was answered, or refused. */
  readonly answered?: () => void;
}

/** Says which provider a configuration group lists, once its key is handed over; undefined: none. */
export interface KeyedGroups {
  group(name: string, configuration: GroupConfiguration | undefined): Promise<string | undefined>;
}

type Host = vscode.LanguageModelChatProvider<Information>;
type Listing = Host["provideLanguageModelChatInformation"];

export class Provider {
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #homes = new WeakMap<object, Home>();
  readonly #byId = new Map<string, Home>();
  readonly #lists: ModelLists;
  readonly #setups = new Map<string, SetupAnswer>();
  readonly #counters = new CounterCache();
  readonly #refusals = new Refusals();
  readonly #extras = new Map<string, Readonly<Record<string, unknown>>>();
  readonly #host = classesOf(vscode as unknown as Record<string, unknown>);
  readonly #gateways: Gateways;
  readonly #settings: () => Settings;
  readonly #notices: Notices;

  constructor(gateways: Gateways, settings: () => Settings, notices: Notices, memory: Memory) {
    this.#lists = new ModelLists(memory, () => this.#changed.fire());
    this.#gateways = gateways;
    this.#settings = settings;
    this.#notices = notices;
  }

  /** All models of the gateway, shown or not. */
  get models(): readonly Model[] {
    return this.#lists.models("");
  }

  get thinks(): boolean {
    return this.#host.Thinking !== undefined;
  }

  dispose(): void {
    this.#changed.dispose();
  }

  /** Something changed: let the host ask anew. */
  refresh(): void {
    this.#refusals.clear();
    this.#lists.forget();
    this.#changed.fire();
  }

  /** Look whether the gateway, or one of a group, lists other models than the host was told of. */
  async look(): Promise<void> {
    await this.#lists.look();
    for (const suffix of new Set([...this.#byId.values()].map((home) => home.suffix)))
      this.#recount(this.#lists.models(suffix), suffix);
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
    return this.#as(() => this.#listOwn());
  }

  /** What the host asks, of further gateways: one group at a time, and once for none. */
  get groups(): Host {
    return this.#as(async (options) => {
      const { url, apiKey } = (options as { configuration?: { url?: string; apiKey?: string } }).configuration ?? {};
      return url ? this.#group({ url: baseOf(url, "The URL of the group"), key: apiKey ?? "" }) : [];
    });
  }

  /** What the host asks, of providers whose key is in a configuration group. */
  keyed(groups: KeyedGroups): Host {
    return this.#as(async (options) => {
      const { group = "", configuration } = options as { group?: string; configuration?: GroupConfiguration };
      const provider = await groups.group(group, configuration);
      return provider ? this.#keyed(provider) : [];
    });
  }

  /** The models of one provider of the own gateway. */
  async #keyed(provider: string): Promise<Information[]> {
    const mine = await this.#lists.freshOrLast({ suffix: "", fetch: () => this.#fetchOwn() }, ({ id }) =>
      id.startsWith(`${provider}/`),
    );
    if (!mine.length) throw new Failure(`The gateway lists no model of ${provider}: run “Penstock: Check Set-up”.`);
    return this.#show(mine, this.#ownHome, ({ utility }) => !utility);
  }

  #as(list: Listing): Host {
    return {
      onDidChangeLanguageModelChatInformation: this.#changed.event,
      provideLanguageModelChatInformation: list,
      provideLanguageModelChatResponse: (model, messages, options, progress, token) =>
        withSignal(token, (signal) => this.#respond(model, messages, options, progress, signal)),
      provideTokenCount: async (model, text) => this.#count(model, text),
    };
  }

  #listOwn(): Promise<Information[]> {
    const shown = ({ model: { id }, utility }: Listed) =>
      utility || !this.#gateways.grouped().has(id.split("/", 1)[0] ?? "");
    return this.#list({ suffix: "", fetch: () => this.#fetchOwn() }, this.#ownHome, shown);
  }

  async #fetchOwn(): Promise<readonly Model[]> {
    const ask = async () => (await this.#own()).models(undefined, this.#settings());
    try {
      const models = await ask().catch((error: unknown) => {
        if (error instanceof Failure) throw error;
        this.#gateways.lost();
        return ask();
      });
      this.#gateways.trouble(undefined);
      if (models.some((model) => !isReplay(model))) this.#gateways.listed?.();
      return models;
    } catch (error) {
      // The entry in the list says it only to those who look there.
      if (error instanceof Failure && error.fault !== "network") this.#gateways.trouble(error);
      throw error;
    }
  }

  /** A further gateway, from a configuration group: its host tells its models from ours. */
  #group(address: Address): Promise<Information[]> {
    const client = new Client(address, this.#notices.log);
    const suffix = suffixOf(address.url);
    const fetch = () =>
      client.models(undefined, this.#settings()).catch((error: unknown) => {
        if (error instanceof Failure) throw error;
        throw new Failure(
          `The gateway at ${address.url} does not answer (${said(error)}): start it or change its address.`,
          "network",
        );
      });
    return this.#list({ suffix, fetch }, { suffix, client: async () => client, lost: () => {} });
  }

  /** The models that are known; where there are none, the entry that says why. Never fails: the host would drop all. */
  async #list(source: ListSource, from: Source, shown?: (row: Listed) => boolean): Promise<Information[]> {
    const { models, why } = await this.#lists.list(source);
    const rows = this.#show(models ?? [], from, shown);
    if (rows.length) return rows;
    const entry = setupEntry(from.suffix, why, models !== undefined);
    this.#setups.set(entry.id, setupAnswer(why, models !== undefined));
    return [entry];
  }

  get #ownHome(): Source {
    return { suffix: "", client: () => this.#own(), lost: this.#gateways.lost };
  }

  /** The rows for the host; what belongs to each is remembered. */
  #show(models: readonly Model[], from: Source, shown: (row: Listed) => boolean = () => true): Information[] {
    const rows = listed(models, this.#settings().models, from.suffix).filter(shown);
    const information = rows.map((row) => {
      const home: Home = { ...row, ...from, counter: this.#counters.get(row.model.counting) };
      this.#homes.set(row.information, home);
      this.#byId.set(row.information.id, home);
      return row.information;
    });
    this.#pruneCounters();
    return information;
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
    signal: AbortSignal,
  ): Promise<void> {
    const { tools, toolMode, modelOptions, modelConfiguration, requestInitiator } = options as Options;
    try {
      const setup = this.#setups.get(model.id);
      if (setup) return this.#answerSetup(setup, progress, requestInitiator ?? "core");
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
          delivered,
        },
      );
    } catch (error) {
      if (signal.aborted) throw new vscode.CancellationError();
      this.#notices.log?.(said(error));
      throw told(error, requestInitiator ?? "core");
    } finally {
      this.#gateways.answered?.();
    }
  }

  /** A person reads what to do; a program gets an error. */
  #answerSetup(
    setup: SetupAnswer,
    progress: vscode.Progress<vscode.LanguageModelResponsePart>,
    initiator: string,
  ): void {
    if (!VIEWS.has(initiator.toLowerCase())) throw new Failure(plainText(setup.text), "not-found");
    progress.report(new vscode.LanguageModelTextPart(setup.text));
    this.#gateways.setup(setup);
  }

  #count(model: Information, text: string | vscode.LanguageModelChatRequestMessage): number {
    if (model.id.startsWith(SETUP_ID)) return 1;
    const { counter } = this.#home(model);
    return typeof text === "string" ? counter.text(text) : counter.message(text as HostMessage, this.#host);
  }
}

/**
 * Resolves when the window has handed on all parts that it was given. Messages to the window and back keep their order,
 * so what was sent before a question has been taken when its answer is here. The second one waits for the readers.
 */
async function delivered(): Promise<void> {
  for (let round = 0; round < 2; round++)
    await vscode.commands.executeCommand("setContext", "penstock.delivered", true);
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
