// Where everything is put together, and taken apart again when the window closes.

import * as vscode from "vscode";
import { DailyBudget } from "./budgeting.ts";
import { registerCommands } from "./commands.ts";
import { completionsWhileOn } from "./completing.ts";
import { ConfigStatus } from "./config-status.ts";
import { Failure, said } from "./errors.ts";
import type { Budget } from "./extras/budget.ts";
import { bundleIn } from "./gateway/bundle.ts";
import { Client } from "./gateway/client.ts";
import { type Running, SharedFiles } from "./gateway/files.ts";
import { type Address, baseOf, closeConnections } from "./gateway/http.ts";
import { Keeper, type State } from "./gateway/keeper.ts";
import type { Bundle } from "./gateway/plan.ts";
import { isGateway, stopGateway } from "./gateway/processes.ts";
import { ProviderRoutes } from "./gateway/provider-routes.ts";
import { Tail, watchFile } from "./gateway/tail.ts";
import { type Gateways, GROUPS, KEYED, Provider, VENDOR } from "./provider.ts";
import { ProviderKeys } from "./providers/index.ts";
import { Replies } from "./replies.ts";
import { GatewayKey, SECTION, settings } from "./settings.ts";
import { type Reports, startOwn } from "./starting.ts";
import { startNotice } from "./startup.ts";
import { complain, offerCommand, offerRestart, statusBar } from "./telling.ts";
import { offerUtilityModel } from "./utility.ts";

const BEAT = 15_000; // a window says that it is there
const LIST = 4; // beats between two looks at the list of models
const AT_START = [
  "gateway.config",
  "gateway.arguments",
  "gateway.promptCaching",
  "gateway.contextShortening",
  "python",
]; // settings that a gateway has from its start on

export function activate(context: vscode.ExtensionContext): void {
  const output = vscode.window.createOutputChannel("Penstock");
  const log = (line: string) => output.appendLine(`${new Date().toISOString()} ${line}`);
  const key = new GatewayKey(context.secrets);
  const bundle = bundleIn(context.extensionPath);
  const files = new SharedFiles(context.globalStorageUri.fsPath);
  const { status, show, notices } = statusBar(context);
  const notice = startNotice();

  let missed = false;
  const changed = (state: State) => {
    show(status.gateway(state));
    notice.follow(state, address);
    if (state.is === "starting") return;
    const why = state.is === "failed" ? new Failure(state.why) : undefined;
    if (why) log(why.message);
    // Models that could not be listed can be listed now.
    else if (missed) setImmediate(() => provider.refresh());
    missed = why !== undefined;
    void budget.apply();
    void complain(why);
  };
  const ours = (one: Running) => isGateway(one, files.leases);
  const keeper = keeperOf(bundle, files, key, { log, step: notice.step }, changed);
  const trouble = (why: Failure | undefined) => {
    show(status.trouble(why?.message ?? ""));
    void complain(why);
    if (!why) replies.look();
  };
  const keys = new ProviderKeys(context, { keeper, files, ours, refresh: () => provider.refresh(), log });
  const address = () => keys.address();
  const budget = budgetOf(context, keeper, (spent) => show(status.budget(spent)), log);
  const replies = new Replies(address, context.globalState);
  const gateways = { address, lost: () => keeper.lost(), trouble, grouped: () => keys.grouped, setup: offerCommand };
  const provider = new Provider(
    { ...gateways, ...afterwards(context, budget) },
    settings,
    replies.watched({ ...notices, log }),
    context.globalState,
  );
  const anew = () => {
    keeper.reconsider();
    provider.refresh();
  };

  context.subscriptions.push(
    output,
    notice,
    provider,
    replies,
    ...vendors(provider, keys),
    vscode.workspace.onDidChangeConfiguration((change) => settingsChanged(change, keeper, provider, anew)),
    key.onDidChange(anew),
    vscode.window.onDidChangeWindowState(({ focused }) => focused && keeper.state.is === "ready" && provider.look()),
    every(BEAT, beat(keeper, provider, files), log),
    tail(files, output),
    { dispose: () => files.release() },
    { dispose: closeConnections },
  );
  closing = () => keys.close();
  const setup = { address, settings, thinks: provider.thinks, version: versionOf(context), log };
  registerCommands(context, { keeper, provider, key, output, replies, budget, setup });
  completionsWhileOn(context, { address, settings, log });
}

/** The gateway of the settings, if there is one. */
async function configured(key: GatewayKey): Promise<Address | undefined> {
  const { url } = settings();
  return url ? { url: baseOf(url, "penstock.gateway.url"), key: await key.get() } : undefined;
}

const vendors = (provider: Provider, keys: ProviderKeys): vscode.Disposable[] => [
  vscode.lm.registerLanguageModelChatProvider(VENDOR, provider.own),
  vscode.lm.registerLanguageModelChatProvider(GROUPS, provider.groups),
  vscode.lm.registerLanguageModelChatProvider(KEYED, provider.keyed(keys)),
];

function settingsChanged(
  change: vscode.ConfigurationChangeEvent,
  keeper: Keeper,
  provider: Provider,
  anew: () => void,
): void {
  const touches = (name: string) => change.affectsConfiguration(`${SECTION}.${name}`);
  if (touches("gateway") || touches("python")) anew();
  else if (change.affectsConfiguration(SECTION)) provider.refresh();
  if (keeper.state.is === "ready" && keeper.state.own && AT_START.some(touches)) void offerRestart();
}

function keeperOf(
  bundle: Bundle,
  files: SharedFiles,
  key: GatewayKey,
  reports: Reports,
  changed: (state: State) => void,
): Keeper {
  return new Keeper({
    files,
    version: bundle.version,
    configured: () => configured(key),
    allowed: () => settings().start,
    start: () => startOwn(bundle, files, settings(), reports),
    stop: (running) => stopGateway(running, files.leases),
    healthy: (address) => new Client(address).healthy(),
    alive: (running) => isGateway(running, files.leases),
    changed,
  });
}

/** The budget of the gateway that the extension starts: no other one takes it. */
function budgetOf(
  context: vscode.ExtensionContext,
  keeper: Keeper,
  shown: (spent: Budget | undefined) => unknown,
  log: (line: string) => void,
): DailyBudget {
  const client = () => (keeper.ownAddress ? new Client(keeper.ownAddress) : undefined);
  return new DailyBudget({ client, settings, memory: context.globalState, shown, log });
}

/** What follows from a list with models, and from an answer. */
function afterwards(context: vscode.ExtensionContext, budget: DailyBudget): Pick<Gateways, "listed" | "answered"> {
  return {
    listed: () => void offerUtilityModel(context.globalState),
    answered: () => void budget.look(),
  };
}

let closing = async (): Promise<void> => {};

/** The gateway forgets this window's keys; all else that must be undone is in the subscriptions. */
export const deactivate = (): Promise<void> => closing().catch(() => {});

const versionOf = ({ extension }: vscode.ExtensionContext): string => String(extension.packageJSON.version);

function beat(keeper: Keeper, provider: Provider, files: SharedFiles): () => Promise<void> {
  let beats = 0;
  const status = new ConfigStatus();
  return async () => {
    const own = keeper.state.is === "ready" && keeper.state.own;
    if (own) files.touch();
    await keeper.check();
    if (own && keeper.state.is === "ready")
      await status.look(new ProviderRoutes(await keeper.address()), () => provider.look());
    if (++beats % LIST === 0 && keeper.state.is === "ready") await provider.look();
  };
}

function tail(files: SharedFiles, output: vscode.OutputChannel): vscode.Disposable {
  const tail = new Tail(files.log, (text) => output.append(text));
  return watchFile(files.log, () => tail.look());
}

/** Again and again, but not while the last run goes on. What fails is logged. */
function every(milliseconds: number, run: () => Promise<void>, log: (line: string) => void): vscode.Disposable {
  let running = false;
  const once = async () => {
    if (running) return;
    running = true;
    await run().catch((error: unknown) => log(said(error)));
    running = false;
  };
  const timer = setInterval(once, milliseconds);
  return { dispose: () => clearInterval(timer) };
}
