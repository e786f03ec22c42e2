// "Manage Providers": what is set up, and for each: add, change, test or remove keys; address and models of own servers.

import * as vscode from "vscode";
import type { ProviderEntry, ProviderRoutes, ProviderRow } from "../gateway/provider-routes.ts";
import { addProvider, askKey } from "./add.ts";
import { type Choice, checkedInput, choose, textInput } from "./inputs.ts";
import { askServerKey, editModels } from "./server.ts";
import { keep, type ProviderSession } from "./session.ts";
import { maskedKey, urlProblem, withKey } from "./store.ts";
import { keysText, sourceText } from "./texts.ts";

const TITLE = "Manage Providers";

export async function manageProviders(session: ProviderSession): Promise<void> {
  for (;;) {
    const routes = await session.routes();
    const rows = await routes.providers();
    const name = await choose(TITLE, "Pick a provider to change it", list(rows, await session.store.list()));
    if (name === undefined) return;
    const row = rows.find((one) => one.name === name);
    if (!row) await addProvider(session);
    else if (!(await manage(session, routes, row))) return;
  }
}

function list(rows: readonly ProviderRow[], entries: readonly ProviderEntry[]): Choice<string>[] {
  const byName = new Map(entries.map((entry) => [entry.name, entry] as const));
  const known = rows
    .filter(({ name, configured, source }) => byName.has(name) || (configured && source))
    .map((row) => ({
      value: row.name,
      label: row.label,
      description: about(row, byName.get(row.name)),
      detail: row.problem ?? "",
    }));
  return [...known, { value: "", label: "$(add) Add Provider …", alwaysShow: true }];
}

const about = (row: ProviderRow, entry: ProviderEntry | undefined): string =>
  entry ? keysText(entry) : sourceText(row);

type Action = "add" | "replace" | "test" | "address" | "models" | "drop" | "remove" | "page";

/** One action on a provider. False: the list was closed. */
async function manage(session: ProviderSession, routes: ProviderRoutes, row: ProviderRow): Promise<boolean> {
  const entry = await session.store.find(row.name);
  const action = await choose<Action>(row.label, "What to do", actions(row, entry));
  if (!action) return false;
  await ACTIONS[action]({ session, routes, row, entry: entry ?? { name: row.name, keys: [] } });
  return true;
}

function actions(row: ProviderRow, entry: ProviderEntry | undefined): Choice<Action>[] {
  const kept = entry !== undefined;
  const several = (entry?.keys.length ?? 0) > 1;
  const rows: [boolean, Choice<Action>][] = [
    [true, { value: "test", label: "$(beaker) Test", description: "one request" }],
    [!kept || !entry.keys.length, { value: "add", label: "$(key) Add Key" }],
    [
      Boolean(entry?.keys.length),
      { value: "replace", label: "$(key) Change Key", description: entry ? keysText(entry) : "" },
    ],
    [
      Boolean(entry?.keys.length),
      { value: "add", label: "$(add) Add Another Key", description: "keys are used in turn" },
    ],
    [several, { value: "drop", label: "$(close) Remove One Key" }],
    [
      kept && Boolean(entry.base_url),
      { value: "address", label: "$(link) Change URL", description: entry?.base_url ?? "" },
    ],
    [
      kept && row.own,
      { value: "models", label: "$(list-unordered) Models", description: "window, images, tools, price" },
    ],
    [Boolean(row.keys_url), { value: "page", label: "$(link-external) Open the Page for Keys" }],
    [kept, { value: "remove", label: "$(trash) Remove" }],
  ];
  return rows.filter(([shown]) => shown).map(([, choice]) => choice);
}

interface Target {
  readonly session: ProviderSession;
  readonly routes: ProviderRoutes;
  readonly row: ProviderRow;
  readonly entry: ProviderEntry;
}

const ACTIONS: Readonly<Record<Action, (target: Target) => Promise<unknown>>> = {
  add: async ({ session, routes, row, entry }) => {
    if (!row.own) return askKey(session, routes, row);
    const key = await askServerKey(routes, { name: row.name, url: entry.base_url ?? "", found: [] });
    return key ? keep(session, withKey(entry, row.name, key), row) : undefined;
  },
  replace: replaceKey,
  test: testProvider,
  address: async ({ session, entry, row }) => {
    const url = await textInput(row.label, "The URL of the server.", entry.base_url ?? "", urlProblem);
    if (url) await keep(session, { ...entry, base_url: url }, row);
  },
  models: async ({ session, routes, row, entry }) => {
    const { models } = await routes.check({ provider: row.name }).catch(() => ({ models: [] }));
    await editModels(session, entry, models ?? []);
  },
  drop: async ({ session, entry, row }) => {
    const key = await pickKey(entry, "Which key to remove");
    if (key) await keep(session, { ...entry, keys: entry.keys.filter((one) => one !== key) }, row);
  },
  remove: async ({ session, row }) => {
    const sure = await choose(`Remove ${row.label}?`, "Its keys are deleted from VS Code, and its models go", [
      { value: true, label: "$(trash) Remove" },
      { value: false, label: "Cancel" },
    ]);
    if (!sure) return;
    await session.store.remove(row.name);
    await session.apply();
  },
  page: async ({ row }) => vscode.env.openExternal(vscode.Uri.parse(row.keys_url ?? "")),
};

async function replaceKey({ session, routes, row, entry }: Target): Promise<void> {
  const old = await pickKey(entry, "Which key to change");
  if (!old) return;
  const place = {
    ...(entry.base_url && { base_url: entry.base_url }),
    ...(entry.settings && { settings: entry.settings }),
  };
  const key = await checkedInput({
    title: `${row.label}: Change Key`,
    prompt: `The new key, in place of ${maskedKey(old)}. It is checked with one request.`,
    password: true,
    page: row.keys_url,
    check: async (text) => {
      if (!text) return "The key is empty.";
      const { ok, message } = await routes.check({ provider: row.name, key: text, ...place });
      return ok ? undefined : message;
    },
  });
  if (!key) return;
  const keys = entry.keys.map((one) => (one === old ? key : one));
  await keep(session, { ...entry, keys: [...new Set(keys)] }, row);
}

async function pickKey({ keys, name }: ProviderEntry, placeholder: string): Promise<string | undefined> {
  if (keys.length < 2) return keys[0];
  return choose(
    name,
    placeholder,
    keys.map((key, place) => ({ value: key, label: `Key ${place + 1}`, description: maskedKey(key) })),
  );
}

/** Test every key of a provider, each by one request, and say what came back. */
async function testProvider({ routes, row, entry }: Target): Promise<void> {
  const place = {
    ...(entry.base_url && { base_url: entry.base_url }),
    ...(entry.settings && { settings: entry.settings }),
  };
  const tests = entry.keys.length ? entry.keys.map((key) => ({ key, ...place })) : [{}];
  const results = await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title: `Penstock: testing ${row.label} …` },
    () => Promise.all(tests.map((test) => routes.check({ provider: row.name, ...test }))),
  );
  const failed = results.flatMap(({ ok, message }, number) => (ok ? [] : [{ message, key: entry.keys[number] }]));
  if (!failed.length) void vscode.window.showInformationMessage(`Penstock: ${results[0]?.message ?? ""}`);
  for (const { message, key } of failed) {
    const which = results.length > 1 && key ? ` (key ${maskedKey(key)})` : "";
    void vscode.window.showErrorMessage(`Penstock: ${row.label}${which}: ${message}`);
  }
}
