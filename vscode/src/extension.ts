// Where everything is put together, and taken apart again when the window closes.

import * as vscode from "vscode";
import { registerCommands } from "./commands.ts";
import { completionsWhileOn } from "./completing.ts";
import { Failure } from "./errors.ts";
import { bundleIn } from "./gateway/bundle.ts";
import { Client } from "./gateway/client.ts";
import { SharedFiles } from "./gateway/files.ts";
import { baseOf } from "./gateway/http.ts";
import { Keeper, type State } from "./gateway/keeper.ts";
import { kill, ours } from "./gateway/launch.ts";
import { Tail } from "./gateway/tail.ts";
import { Pages } from "./pages.ts";
import { GROUPS, Provider, VENDOR } from "./provider.ts";
import { GatewayKey, SECTION, settings } from "./settings.ts";
import { startOwn } from "./starting.ts";
import { complain, offerRestart, statusBar } from "./telling.ts";

const BEAT = 15_000; // a window says that it is there
const LIST = 4; // beats between two looks at the list of models
const TAIL = 1_000;
const AT_START = ["gateway.config", "gateway.arguments", "python"]; // settings that a gateway has from its start on

export function activate(context: vscode.ExtensionContext): void {
  const output = vscode.window.createOutputChannel("Penstock");
  const log = (line: string) => output.appendLine(`${new Date().toISOString()} ${line}`);
  const key = new GatewayKey(context.secrets);
  const bundle = bundleIn(context.extensionPath);
  const files = new SharedFiles(context.globalStorageUri.fsPath);
  const { status, show, notices } = statusBar(context);

  let missed = false;
  const changed = (state: State) => {
    // Models that could not be listed can be listed now.
    if (state.is === "ready" && missed) setImmediate(() => provider.refresh());
    if (state.is !== "starting") missed = state.is === "failed";
    show(status.gateway(state));
    if (state.is === "failed") log(state.why);
    if (state.is !== "starting") void complain(state.is === "failed" ? new Failure(state.why) : undefined);
  };
  const keeper = new Keeper({
    files,
    version: bundle.version,
    configured: async () => {
      const { url } = settings();
      return url ? { url: baseOf(url, "penstock.gateway.url"), key: await key.get() } : undefined;
    },
    allowed: () => settings().start,
    start: () => startOwn(bundle, files, settings(), log),
    stop: ({ pid }) => kill(pid),
    healthy: (address) => new Client(address).healthy(),
    alive: ({ pid }) => ours(pid),
    changed,
  });
  const trouble = (why: Failure | undefined) => {
    show(status.trouble(why?.message ?? ""));
    void complain(why);
  };
  const address = () => keeper.address();
  const provider = new Provider({ address, lost: () => keeper.lost(), trouble }, settings, { ...notices, log });
  const anew = () => {
    keeper.reconsider();
    provider.refresh();
  };

  context.subscriptions.push(
    output,
    vscode.lm.registerLanguageModelChatProvider(VENDOR, provider.own),
    vscode.lm.registerLanguageModelChatProvider(GROUPS, provider.groups),
    vscode.workspace.onDidChangeConfiguration((change) => {
      const touches = (name: string) => change.affectsConfiguration(`${SECTION}.${name}`);
      if (touches("gateway") || touches("python")) anew();
      else if (change.affectsConfiguration(SECTION)) provider.refresh();
      if (keeper.state.is === "ready" && keeper.state.own && AT_START.some(touches)) void offerRestart();
    }),
    key.onDidChange(anew),
    vscode.window.onDidChangeWindowState(({ focused }) => focused && keeper.state.is === "ready" && provider.look()),
    every(BEAT, beat(keeper, provider, files)),
    every(TAIL, tail(files, output)),
    { dispose: () => files.release() },
  );
  const pages = new Pages();
  context.subscriptions.push(pages.register());
  const version = String(context.extension.packageJSON.version);
  registerCommands(context, {
    keeper,
    provider,
    key,
    output,
    setup: { address, settings, thinks: provider.thinks, version, log, show: (name, text) => pages.show(name, text) },
  });
  completionsWhileOn(context, { address, settings, log });
}

/** Nothing to do: what must be undone is in the subscriptions. */
export function deactivate(): void {}

function beat(keeper: Keeper, provider: Provider, files: SharedFiles): () => Promise<void> {
  let beats = 0;
  return async () => {
    if (keeper.state.is === "ready" && keeper.state.own) files.touch();
    await keeper.check();
    if (++beats % LIST === 0 && keeper.state.is === "ready") await provider.look();
  };
}

function tail(files: SharedFiles, output: vscode.OutputChannel): () => void {
  const tail = new Tail(files.log, (text) => output.append(text));
  return () => tail.look();
}

function every(milliseconds: number, run: () => unknown): vscode.Disposable {
  const timer = setInterval(run, milliseconds);
  return { dispose: () => clearInterval(timer) };
}
