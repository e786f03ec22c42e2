// What a person is told outside the chat: the item in the status bar, and one message when models cannot be had.

import * as vscode from "vscode";
import type { Notices } from "./chat/converse.ts";
import type { Failure } from "./errors.ts";
import { helpFor } from "./extras/help.ts";
import { SECTION } from "./settings.ts";
import { plainText, type SetupAnswer } from "./setup-entry.ts";
import { Status } from "./status.ts";

export interface Bar {
  readonly status: Status;
  /** Draw it; what is given was done to it just before. */
  readonly show: (change?: unknown) => void;
  readonly notices: Notices;
}

const TICK = 1_000;

export function statusBar(context: vscode.ExtensionContext): Bar {
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
  const ticking = setInterval(() => status.ticking && show(), TICK);
  context.subscriptions.push(item, { dispose: () => clearInterval(ticking) });
  return { status, show, notices: noticesOf(status, show) };
}

const noticesOf = (status: Status, show: (change?: unknown) => void): Notices => ({
  onBegin: (request) => show(status.begin(request)),
  onPrompt: (request, size, model) => show(status.prompt(request, size, model)),
  onUsage: (request, tokens, model, estimated) => show(status.used(request, tokens, model, estimated)),
  onWait: (request, line) => show(status.wait(request, line)),
  onSilence: (request, seconds, who) => show(status.silence(request, seconds, who)),
  onCompacted: (_, line) => show(status.compacted(line)),
  onOver: (request) => show(status.over(request)),
});

let complained = "";

/** What keeps the models away is said once, with buttons that help. */
export async function complain(why: Failure | undefined): Promise<void> {
  if (!why) complained = "";
  if (!why || why.message === complained) return;
  complained = why.message;
  const help = helpFor(why.fault, why.message);
  const answer = await vscode.window.showErrorMessage(`Penstock: ${why.message}`, ...help.map(({ label }) => label));
  const action = help.find(({ label }) => label === answer);
  if (action) await vscode.commands.executeCommand(action.command, ...(action.args ?? []));
}

/** A command failed. What a message says already is not said twice. */
export function tellFailure(text: string): void {
  if (!complained.includes(text)) void vscode.window.showErrorMessage(`Penstock: ${text}`);
}

let offered = "";

/** The command that leads to models, as a button; once as long as it stands there. */
export async function offerCommand({ text, command, title }: SetupAnswer): Promise<void> {
  if (offered === command) return;
  offered = command;
  const answer = await vscode.window.showInformationMessage(`Penstock: ${plainText(text)}`, title);
  offered = "";
  if (answer) await vscode.commands.executeCommand(command);
}

/** A setting that the running gateway does not know yet. */
export async function offerRestart(): Promise<void> {
  const again = "Restart Gateway";
  const said = "Penstock: the gateway that runs was started with other settings.";
  if (await vscode.window.showInformationMessage(said, again))
    await vscode.commands.executeCommand(`${SECTION}.restart`);
}
