// The commands, each a few lines: what it does is elsewhere.

import * as vscode from "vscode";
import type { DailyBudget } from "./budgeting.ts";
import { generateCommitMessage } from "./committing.ts";
import { said } from "./errors.ts";
import { endpointEntry } from "./extras/endpoint.ts";
import { usageSummary } from "./extras/usage.ts";
import { Client } from "./gateway/client.ts";
import type { Keeper } from "./gateway/keeper.ts";
import { expanded } from "./gateway/places.ts";
import { here } from "./gateway/processes.ts";
import { inspectLast, inspectRecent } from "./inspecting.ts";
import { chosen } from "./models.ts";
import { type Provider, VENDOR } from "./provider.ts";
import type { Replies } from "./replies.ts";
import { type GatewayKey, SECTION, settings } from "./settings.ts";
import { checkSetup, copyReport, type Setup } from "./setup.ts";
import { tellFailure } from "./telling.ts";
import { USAGE_VIEW } from "./usage-view.ts";
import { useUtilityModel } from "./utility.ts";
import type { Model } from "./wire.ts";

export interface Parts {
  readonly keeper: Keeper;
  readonly provider: Provider;
  readonly key: GatewayKey;
  readonly output: vscode.OutputChannel;
  readonly setup: Setup;
  readonly budget: DailyBudget;
  readonly replies: Replies;
}

const PASSING =
  "A gateway that the extension starts has another address and key each time: for an entry that lasts run penstock serve, and name it in penstock.gateway.url.";

type Run = (parts: Parts, ...given: unknown[]) => Promise<unknown>;

const COMMANDS: Readonly<Record<string, Run>> = {
  checkSetup: ({ setup }) => checkSetup(setup),
  copyReport: () => copyReport(),
  openConfiguration: openConfiguration,
  restart: async ({ keeper, provider }) => {
    const { url } = await keeper.restart();
    provider.refresh();
    const own = keeper.state.is === "ready" && keeper.state.own;
    const said = own
      ? `the gateway runs anew, at ${url}`
      : `the gateway of the settings answers at ${url}; it was left running`;
    void vscode.window.showInformationMessage(`Penstock: ${said}.`);
  },
  showLog: async ({ output }) => output.show(),
  openInspector: async ({ keeper }) => {
    const { url, key } = await keeper.address();
    const own = keeper.state.is === "ready" && keeper.state.own;
    const page = await vscode.env.asExternalUri(vscode.Uri.parse(`${url}/`));
    // A key that was made for this machine's windows goes along in the part of an address that is never sent.
    return vscode.env.openExternal(own ? page.with({ fragment: `key=${key}` }) : page);
  },
  showUsage: showUsage,
  inspectLastRequest: ({ replies }) => inspectLast(replies.recent),
  inspectRequest: ({ replies }) => inspectRecent(replies.recent),
  chooseModels: chooseModels,
  // The keeper of every window is notified of a changed key.
  setKey: async ({ key }) => {
    const given = await vscode.window.showInputBox({
      title: "Key of the gateway",
      prompt:
        "Of the one that penstock.gateway.url names; keys of providers: “Penstock: Add Provider”. Empty: it needs none.",
      password: true,
      ignoreFocusOut: true,
    });
    if (given !== undefined) await key.set(given.trim());
  },
  copyEndpoint: async ({ keeper, provider }) => {
    const address = await keeper.address();
    const models = provider.models.length ? provider.models : await new Client(address).models(undefined, settings());
    await vscode.env.clipboard.writeText(endpointEntry(address, chosen(models, settings().models)));
    const copied = "Penstock: the entry is copied; paste it into chatLanguageModels.json.";
    const own = keeper.state.is === "ready" && keeper.state.own;
    if (own) void vscode.window.showWarningMessage(`${copied} ${PASSING}`);
    else void vscode.window.showInformationMessage(copied);
  },
  useUtilityModel: () => useUtilityModel(VENDOR),
  liftBudget: ({ budget }) => budget.lift(),
  tryReplay: tryReplay,
  generateCommitMessage: ({ setup }, of) => generateCommitMessage(setup.log, of),
  menu: menu,
};

export function registerCommands(context: vscode.ExtensionContext, parts: Parts): void {
  for (const [name, run] of Object.entries(COMMANDS)) {
    const safe = (...given: unknown[]) =>
      run(parts, ...given).catch((error: unknown) => {
        if (!left(error)) tellFailure(said(error));
      });
    context.subscriptions.push(vscode.commands.registerCommand(`${SECTION}.${name}`, safe));
  }
}

/** Somebody changed their mind, which is nothing to be told of. */
const left = (error: unknown): boolean => error instanceof Error && error.name === new vscode.CancellationError().name;

async function menu(): Promise<void> {
  const rows = [
    "addProvider",
    "manageProviders",
    "checkSetup",
    "chooseModels",
    "showUsage",
    "inspectLastRequest",
    "inspectRequest",
    "openInspector",
    "restart",
    "showLog",
  ];
  const titles = (vscode.extensions.getExtension("penstock.penstock")?.packageJSON?.contributes?.commands ?? []) as {
    command: string;
    title: string;
  }[];
  const items = rows.map((row) => ({
    label: titles.find(({ command }) => command === `${SECTION}.${row}`)?.title ?? row,
    row,
  }));
  const picked = await vscode.window.showQuickPick(items, { title: "Penstock" });
  if (picked) await vscode.commands.executeCommand(`${SECTION}.${picked.row}`);
}

/** For the walkthrough: list the packaged answers, which need no key, and open the chat. */
async function tryReplay(): Promise<void> {
  await vscode.workspace.getConfiguration(SECTION).update("models.replay", true, vscode.ConfigurationTarget.Global);
  await vscode.commands.executeCommand("workbench.action.chat.open");
}

interface Row extends vscode.QuickPickItem {
  readonly id?: string;
}

async function chooseModels({ keeper }: Parts): Promise<void> {
  const models = await new Client(await keeper.address()).models();
  const from = vscode.workspace.getConfiguration(SECTION);
  const { models: choice } = settings();
  const now = new Set(chosen(models, choice).map(({ id }) => id));
  // What is shown comes first: among hundreds it would not be found.
  const place = ({ id, detail }: Model) => (now.has(id) ? "shown now" : (detail ?? ""));
  const rows = [...models].sort((a, b) => Number(now.has(b.id)) - Number(now.has(a.id)));
  const items = [...Map.groupBy(rows, place)].flatMap(([label, some]): Row[] => [
    { label, kind: vscode.QuickPickItemKind.Separator },
    ...some.map(({ id, name }) => ({ label: name, description: id, picked: now.has(id), id })),
  ]);
  const picked = await vscode.window.showQuickPick(items, {
    canPickMany: true,
    matchOnDescription: true,
    title: `Models to show, of ${models.length}`,
    placeHolder: "None picked: a few of each provider",
  });
  if (!picked) return;
  const ids = picked.flatMap(({ id }) => id ?? []);
  // What is shown by default stays the default: it follows what the gateway lists.
  const usual = new Set(chosen(models, { ...choice, show: [] }).map(({ id }) => id));
  const same = ids.length === usual.size && ids.every((id) => usual.has(id));
  await from.update("models.show", same || !ids.length ? undefined : ids, vscode.ConfigurationTarget.Global);
}

/** The file that the setting names; without one, the setting. */
async function openConfiguration(): Promise<void> {
  const file = settings().config;
  if (file) await vscode.window.showTextDocument(vscode.Uri.file(expanded(file, here())));
  else await vscode.commands.executeCommand("workbench.action.openSettings", `${SECTION}.gateway.config`);
}

/** Show the view; gives its figures as text, for those who cannot see it. */
async function showUsage({ replies }: Parts): Promise<string> {
  await vscode.commands.executeCommand(`${USAGE_VIEW}.focus`);
  return usageSummary(await replies.usage.refresh());
}
