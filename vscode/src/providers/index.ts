// Providers and their keys, put together: the store, the hand-over to the gateway, the commands, VS Code's own groups.

import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import { Failure, said } from "../errors.ts";
import type { Running, SharedFiles } from "../gateway/files.ts";
import type { Address } from "../gateway/http.ts";
import type { Keeper } from "../gateway/keeper.ts";
import { KeyHandover } from "../gateway/keys.ts";
import { ProviderRoutes } from "../gateway/provider-routes.ts";
import { SECTION } from "../settings.ts";
import { addProvider } from "./add.ts";
import { type GroupConfiguration, joined, ProviderGroups } from "./groups.ts";
import { manageProviders } from "./manage.ts";
import { claimPrompt } from "./prompt.ts";
import type { ProviderSession } from "./session.ts";
import { ProviderStore } from "./store.ts";

const PROMPTED = "penstock.providers.prompted"; // the first-start prompt was shown
const RENEWED = 60_000; // a window says that it is there

export interface ProviderKeysOptions {
  readonly keeper: Keeper;
  readonly files: SharedFiles;
  readonly ours: (running: Running) => Promise<boolean>;
  /** Have the models listed anew. */
  readonly refresh: () => void;
  readonly log: (line: string) => void;
}

export class ProviderKeys {
  readonly #context: vscode.ExtensionContext;
  readonly #options: ProviderKeysOptions;
  readonly #store: ProviderStore;
  readonly #groups: ProviderGroups;
  readonly #handover: KeyHandover;
  #looked = false; // whether there is a provider at all

  constructor(context: vscode.ExtensionContext, options: ProviderKeysOptions) {
    this.#context = context;
    this.#options = options;
    this.#store = new ProviderStore(context.secrets);
    this.#groups = new ProviderGroups(() => this.#apply());
    this.#handover = new KeyHandover({
      window: randomUUID(),
      running: () => options.files.running(),
      ours: options.ours,
      entries: async () => joined(await this.#store.list(), this.#groups.entries),
      log: options.log,
    });
    const renewing = setInterval(() => this.#renew().catch(this.#log), RENEWED);
    context.subscriptions.push(
      this.#store.onDidChange(() => this.#apply()),
      this.#command("addProvider", async (name) => {
        const found = await addProvider(this.#session, typeof name === "string" && name ? name : undefined);
        return found;
      }),
      this.#command("manageProviders", () => manageProviders(this.#session)),
      { dispose: () => clearInterval(renewing) },
      { dispose: () => this.#groups.dispose() },
    );
  }

  /** The gateway's address, once it has this window's keys. */
  async address(): Promise<Address> {
    const address = await this.#options.keeper.address();
    await this.#handover.ensure(address);
    if (!this.#looked) {
      this.#looked = true;
      setImmediate(() => this.#prompt().catch(this.#log));
    }
    return address;
  }

  /** Providers whose models VS Code lists in a configuration group. */
  get grouped(): ReadonlySet<string> {
    return this.#groups.providers;
  }

  /** VS Code asks for the models of a configuration group, or of none. Gives the provider to list; undefined: nothing. */
  async group(name: string, configuration: GroupConfiguration | undefined): Promise<string | undefined> {
    if (!configuration) this.#groups.begin();
    const provider = configuration?.provider;
    if (!provider) return undefined;
    const { changed, lists } = this.#groups.add(name, configuration);
    if (changed) {
      this.#handover.changed();
      await this.#handover.hand(await this.#ownAddress());
      setImmediate(() => this.#options.refresh()); // its models are no longer listed elsewhere
    }
    return lists ? provider : undefined;
  }

  /** Say once, at the first start, that a provider is needed. */
  async #prompt(): Promise<void> {
    const address = await this.address();
    if (this.#context.globalState.get(PROMPTED) || !(await this.#handover.isOwn(address))) return;
    try {
      const rows = await new ProviderRoutes(address).providers();
      const usable = rows.some((row) => row.configured && (row.has_key || !row.needs_key));
      if (usable || this.#context.globalState.get(PROMPTED)) return;
    } catch (error) {
      this.#options.log(`providers could not be listed: ${said(error)}`);
      return;
    }
    await this.#context.globalState.update(PROMPTED, true);
    if (!claimPrompt()) return;
    const add = "Add Provider";
    const message = "Penstock: no provider has a key yet. Add one, and its models are in the chat.";
    if ((await vscode.window.showInformationMessage(message, add)) === add)
      await vscode.commands.executeCommand(`${SECTION}.addProvider`);
  }

  /** This window closes: the gateway forgets its keys. */
  async close(): Promise<void> {
    const { state } = this.#options.keeper;
    if (state.is === "ready" && state.own) await this.#handover.close(await this.#options.keeper.address());
  }

  get #session(): ProviderSession {
    return {
      store: this.#store,
      routes: async () => new ProviderRoutes(await this.#ownAddress()),
      apply: async () => {
        this.#handover.changed();
        await this.#handover.hand(await this.#ownAddress());
        this.#options.refresh();
      },
    };
  }

  /** The gateway that this extension has started. Keys are handed to no other. */
  async #ownAddress(): Promise<Address> {
    const address = await this.address();
    if (await this.#handover.isOwn(address)) return address;
    throw new Failure(
      `Keys are handed only to the gateway that this extension starts, not to ${address.url}: clear penstock.gateway.url, or give that gateway its keys there.`,
    );
  }

  /** What is done in the background fails with the gateway: the next request says so to a person. */
  readonly #log = (error: unknown): void => this.#options.log(said(error));

  /** Keys have changed, here or in another window. */
  async #apply(): Promise<void> {
    this.#handover.changed();
    if (this.#options.keeper.state.is !== "ready") return;
    await this.address().catch(() => {});
    this.#options.refresh();
  }

  async #renew(): Promise<void> {
    const { state } = this.#options.keeper;
    if (state.is === "ready" && state.own) await this.#handover.renew(await this.#options.keeper.address());
  }

  #command(name: string, run: (argument?: unknown) => Promise<unknown>): vscode.Disposable {
    return vscode.commands.registerCommand(`${SECTION}.${name}`, (argument?: unknown) =>
      run(argument).catch((error: unknown) => {
        void vscode.window.showErrorMessage(`Penstock: ${said(error)}`);
      }),
    );
  }
}
