// The commands, each a few lines: what it does is elsewhere.

import * as vscode from "vscode";
import { said } from "./errors.ts";
import { commitMessage, commitPrompt, withoutExcluded } from "./extras/commit.ts";
import { endpointEntry } from "./extras/endpoint.ts";
import { type Usage, usageReport } from "./extras/usage.ts";
import { Client } from "./gateway/client.ts";
import type { Keeper } from "./gateway/keeper.ts";
import { chosen, UTILITY } from "./models.ts";
import { type Provider, VENDOR } from "./provider.ts";
import { type GatewayKey, SECTION, settings } from "./settings.ts";
import { checkSetup, type Setup } from "./setup.ts";
import type { Model } from "./wire.ts";

export interface Parts {
  readonly keeper: Keeper;
  readonly provider: Provider;
  readonly key: GatewayKey;
  readonly output: vscode.OutputChannel;
  readonly setup: Setup;
}

const PASSING =
  "A gateway that the extension starts has another address and key each time: for an entry that lasts run penstock serve, and name it in penstock.gateway.url.";

type Run = (parts: Parts, ...given: unknown[]) => Promise<unknown>;

const COMMANDS: Readonly<Record<string, Run>> = {
  checkSetup: ({ setup }) => checkSetup(setup),
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
  chooseModels: chooseModels,
  // Whoever keeps the gateway hears of a key that has changed, in every window.
  setKey: async ({ key }) => {
    const given = await vscode.window.showInputBox({
      title: "Key of the gateway",
      prompt: "Of the one that penstock.gateway.url names. Empty: it needs none.",
      password: true,
      ignoreFocusOut: true,
    });
    if (given !== undefined) await key.set(given.trim());
  },
  copyEndpoint: async ({ keeper, provider }) => {
    const address = await keeper.address();
    const models = provider.models.length
      ? provider.models
      : await new Client(address).models(undefined, settings().maxInput);
    await vscode.env.clipboard.writeText(endpointEntry(address, chosen(models, settings().models)));
    const copied = "Penstock: the entry is copied; paste it into chatLanguageModels.json.";
    const own = keeper.state.is === "ready" && keeper.state.own;
    if (own) void vscode.window.showWarningMessage(`${copied} ${PASSING}`);
    else void vscode.window.showInformationMessage(copied);
  },
  generateCommitMessage: generateCommitMessage,
  menu: menu,
};

export function registerCommands(context: vscode.ExtensionContext, parts: Parts): void {
  for (const [name, run] of Object.entries(COMMANDS)) {
    const safe = (...given: unknown[]) =>
      run(parts, ...given).catch((error: unknown) => {
        if (!left(error)) void vscode.window.showErrorMessage(`Penstock: ${said(error)}`);
      });
    context.subscriptions.push(vscode.commands.registerCommand(`${SECTION}.${name}`, safe));
  }
}

/** Somebody changed their mind, which is nothing to be told of. */
const left = (error: unknown): boolean => error instanceof Error && error.name === new vscode.CancellationError().name;

async function menu(): Promise<void> {
  const rows = ["checkSetup", "chooseModels", "showUsage", "openInspector", "restart", "showLog"];
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

async function showUsage({ keeper, setup }: Parts): Promise<string> {
  const text = usageReport((await new Client(await keeper.address()).usage()) as Usage);
  await setup.show("Usage", text);
  return text;
}

interface Repository {
  readonly rootUri: vscode.Uri;
  readonly inputBox: { value: string };
  diff(cached?: boolean): Promise<string>;
  log(options: { maxEntries: number }): Promise<{ message: string }[]>;
}

/** `of` is the row in Source Control whose button was pressed. */
async function generateCommitMessage(_: Parts, of?: unknown): Promise<void> {
  const git = vscode.extensions.getExtension<{ getAPI(version: 1): { repositories: Repository[] } }>("vscode.git");
  const all = (await git?.activate())?.getAPI(1).repositories ?? [];
  const root = String((of as { rootUri?: vscode.Uri } | undefined)?.rootUri ?? "");
  const repository = all.find(({ rootUri }) => String(rootUri) === root) ?? all[0];
  if (!repository) throw new Error("there is no Git repository in this workspace");
  const diff = (await repository.diff(true)) || (await repository.diff());
  if (!diff) throw new Error("there is no change to describe");
  const { commitMessage: writing, completions } = settings();
  const wanted = writing.model || UTILITY;
  const [model] = await vscode.lm.selectChatModels({ vendor: VENDOR, id: wanted });
  if (!model) throw new Error(`there is no model ${wanted}`);
  const recent = await repository.log({ maxEntries: 5 }).catch(() => []);
  const prompt = commitPrompt(
    withoutExcluded(diff, completions.exclude),
    recent.map(({ message }) => message.split("\n")[0] ?? ""),
  );
  await vscode.window.withProgress(
    {
      location: vscode.ProgressLocation.Notification,
      title: "Penstock: writing the commit message",
      cancellable: true,
    },
    async (_, token) => {
      const reply = await model.sendRequest([vscode.LanguageModelChatMessage.User(prompt)], {}, token);
      let text = "";
      for await (const piece of reply.text) text += piece;
      // What stands in the box is left there by a person who changes their mind.
      if (!token.isCancellationRequested) repository.inputBox.value = commitMessage(text);
    },
  );
}
