// Where everything is put together, and taken apart again when the window closes.

import * as vscode from "vscode";
import { registerCommands } from "./commands.ts";
import { completionProvider, completionsWhileOn } from "./completing.ts";
import { bundleIn } from "./gateway/bundle.ts";
import { Client } from "./gateway/client.ts";
import { SharedFiles } from "./gateway/files.ts";
import { Keeper, type State } from "./gateway/keeper.ts";
import { kill } from "./gateway/launch.ts";
import { Tail } from "./gateway/tail.ts";
import { Provider, VENDOR } from "./provider.ts";
import { GatewayKey, SECTION, settings } from "./settings.ts";
import { startOwn } from "./starting.ts";
import { Status } from "./status.ts";

const BEAT = 15_000; // a window says that it is there
const LIST = 4; // beats between two looks at the list of models
const TAIL = 1_000;

export function activate(context: vscode.ExtensionContext): void {
  const output = vscode.window.createOutputChannel("Penstock");
  const log = (line: string) => output.appendLine(`${new Date().toISOString()} ${line}`);
  const key = new GatewayKey(context.secrets);
  const bundle = bundleIn(context.extensionPath);
  const files = new SharedFiles(context.globalStorageUri.fsPath);
  const [status, show] = statusBar(context);

  let missed = false;
  const changed = (state: State) => {
    // Models that could not be listed can be listed now.
    if (state.is === "ready" && missed) setImmediate(() => provider.refresh());
    if (state.is !== "starting") missed = state.is === "failed";
    status.gateway(state);
    show();
    if (state.is === "failed") log(state.why);
    void complain(state);
  };
  const keeper = new Keeper({
    files,
    version: bundle.version,
    configured: async () => (settings().url ? { url: settings().url, key: await key.get() } : undefined),
    allowed: () => settings().start,
    start: () => startOwn(bundle, files, settings(), log),
    stop: ({ pid }) => kill(pid),
    healthy: (address) => new Client(address).healthy(),
    changed,
  });
  const address = () => keeper.address();
  const provider = new Provider({ address, lost: () => keeper.lost() }, settings, {
    log,
    onUsage: (tokens, model) => show(status.used(tokens, model)),
    onTight: (tokens, model) => show(status.tight(tokens, model)),
    onWait: (line) => show(status.notice(line)),
    onOver: () => show(status.over()),
  });

  context.subscriptions.push(
    output,
    vscode.lm.registerLanguageModelChatProvider(VENDOR, provider),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (!change.affectsConfiguration(SECTION)) return;
      if (change.affectsConfiguration(`${SECTION}.gateway`)) keeper.lost();
      provider.refresh();
    }),
    every(BEAT, beat(keeper, provider, files)),
    every(TAIL, tail(files, output)),
    { dispose: () => files.release() },
  );
  const version = String(context.extension.packageJSON.version);
  registerCommands(context, {
    keeper,
    provider,
    key,
    output,
    setup: { address, settings, thinks: provider.thinks, version, log },
  });
  completionsWhileOn(context, settings, completionProvider(address, settings, log));
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

function statusBar(context: vscode.ExtensionContext): [Status, (change?: unknown) => void] {
  const status = new Status();
  const item = vscode.window.createStatusBarItem("penstock.status", vscode.StatusBarAlignment.Right, 100);
  item.name = "Penstock";
  item.command = `${SECTION}.menu`;
  const show = () => {
    const { text, tooltip, warning } = status.shown();
    item.text = text;
    item.tooltip = tooltip;
    item.backgroundColor = warning ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  };
  show();
  item.show();
  context.subscriptions.push(item);
  return [status, show];
}

let complained = "";

/** A gateway that cannot be started is said once, with a button that shows how. */
async function complain(state: State): Promise<void> {
  if (state.is === "ready") complained = "";
  if (state.is !== "failed" || state.why === complained) return;
  complained = state.why;
  const answer = await vscode.window.showErrorMessage(`Penstock: ${state.why}`, "Show How", "Show Log");
  if (answer === "Show Log") await vscode.commands.executeCommand(`${SECTION}.showLog`);
  if (answer === "Show How")
    await vscode.commands.executeCommand("workbench.action.openWalkthrough", "penstock.penstock#setup", false);
}
