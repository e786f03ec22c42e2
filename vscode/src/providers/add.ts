// "Add Provider": a provider is chosen, its key is typed, checked by one request, kept in the secret storage and handed over.

import * as vscode from "vscode";
import type { ProviderRoutes, ProviderRow } from "../gateway/provider-routes.ts";
import { type Choice, checkedInput, choose, textInput } from "./inputs.ts";
import { addServer } from "./server.ts";
import { keep, type ProviderSession } from "./session.ts";
import { urlProblem, withKey } from "./store.ts";
import { siteOf, sourceText } from "./texts.ts";

const OWN_SERVER = "";
const TITLE = "Add Provider";

/** Add a provider; `name` skips the list. Gives its name; undefined: nothing was added. */
export async function addProvider(session: ProviderSession, name?: string): Promise<string | undefined> {
  const routes = await session.routes();
  const rows = await routes.providers();
  const chosen = name ?? (await choose(TITLE, "Search for a provider", choices(rows)));
  if (chosen === undefined) return undefined;
  if (chosen === OWN_SERVER) return addServer(session, routes, rows);
  const row = rows.find((one) => one.name === chosen);
  if (!row) throw new Error(`There is no provider “${chosen}”.`);
  return (await askKey(session, routes, row)) ? row.name : undefined;
}

function choices(rows: readonly ProviderRow[]): Choice<string>[] {
  const own: Choice<string> = {
    value: OWN_SERVER,
    label: "$(add) OpenAI-compatible server …",
    description: "by its URL",
    alwaysShow: true,
  };
  const known = rows
    .filter((row) => !row.own)
    .map((row) => ({
      value: row.name,
      label: row.label,
      description: sourceText(row),
      detail: row.keys_url ? `Keys: ${siteOf(row.keys_url)}` : row.local ? `At ${row.base_url}` : "",
      page: row.keys_url,
    }))
    .toSorted((a, b) => a.label.localeCompare(b.label));
  return [own, ...known];
}

/** Ask for all that a provider needs, and for one more key. False: a box was closed. */
export async function askKey(session: ProviderSession, routes: ProviderRoutes, row: ProviderRow): Promise<boolean> {
  const old = await session.store.find(row.name);
  const settings = await askSettings(row, old?.settings);
  if (!settings) return false;
  const address = row.local ? await askAddress(row) : "";
  if (address === undefined) return false;
  const more = {
    ...(Object.keys(settings).length && { settings }),
    ...(address && address !== row.base_url && { base_url: address }),
  };
  let models = 0;
  const key = await checkedInput({
    title: `${TITLE}: ${row.label}`,
    prompt: keyPrompt(row),
    password: true,
    page: row.keys_url,
    check: async (text) => {
      if (!text && row.needs_key) return "The key is empty.";
      const {
        ok,
        message,
        models: found,
      } = await routes.check({ provider: row.name, ...(text && { key: text }), ...more });
      models = found?.length ?? 0;
      return ok ? undefined : message;
    },
  });
  if (key === undefined || (!key && row.needs_key)) return false;
  await keep(session, { ...withKey(old, row.name, key), ...more }, row);
  const count = models ? ` It lists ${models} model${models === 1 ? "" : "s"}.` : "";
  void done(`Penstock: ${row.label} is set up.${count}`);
  return true;
}

function keyPrompt({ label, needs_key, key_form, source, variable }: ProviderRow): string {
  const what = key_form ? `${label}: ${key_form}.` : `The key of ${label}.`;
  const instead = source === "environment" ? ` It is used instead of ${variable}.` : "";
  return `${what}${needs_key ? "" : " Leave it empty if none is needed."}${instead} It is checked with one request.`;
}

/** The settings that the address of a provider needs; undefined: a box was closed. */
async function askSettings(
  row: ProviderRow,
  old: Readonly<Record<string, string>> = {},
): Promise<Record<string, string> | undefined> {
  const settings: Record<string, string> = { ...old };
  for (const { name, about, variable } of (row.settings ?? []).filter(({ required }) => required)) {
    const unset = variable ? ` Empty: the variable ${variable}.` : "";
    const text = await textInput(`${TITLE}: ${row.label}`, `${about || name}.${unset}`, settings[name] ?? "");
    if (text === undefined) return undefined;
    if (text) settings[name] = text;
    else delete settings[name];
  }
  return settings;
}

const askAddress = (row: ProviderRow): Promise<string | undefined> =>
  textInput(`${TITLE}: ${row.label}`, "Where it runs.", row.base_url ?? "", urlProblem);

/** Say that it worked, with the next step. */
export async function done(message: string): Promise<void> {
  const chat = "Open Chat";
  if (await vscode.window.showInformationMessage(message, chat))
    await vscode.commands.executeCommand("workbench.action.chat.open");
}
