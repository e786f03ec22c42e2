// The inline-completion provider: debounced, cancelled with the host's token, cached. Registered only while it is on.

import * as vscode from "vscode";
import { said } from "./errors.ts";
import { Completions, debounce, fimBody, type Place, placeOf } from "./extras/fim.ts";
import { Client } from "./gateway/client.ts";
import type { Address } from "./gateway/http.ts";
import type { Settings } from "./settings.ts";

const item = (text: string, at: vscode.Position) => [new vscode.InlineCompletionItem(text, new vscode.Range(at, at))];

export function completionProvider(
  address: () => Promise<Address>,
  settings: () => Settings,
  log: (line: string) => void,
): vscode.InlineCompletionItemProvider {
  const known = new Completions();
  const asked = async (model: string, place: Place, signal: AbortSignal): Promise<string> => {
    try {
      const text = await new Client(await address()).complete(fimBody(model, place), signal);
      if (text) known.put(place, text);
      return text;
    } catch (error) {
      if (!signal.aborted) log(`no completion: ${said(error)}`);
      return "";
    }
  };
  return {
    async provideInlineCompletionItems(document, position, _context, token) {
      const { model, delay } = settings().completions;
      const place = placeOf(document.getText(), document.offsetAt(position));
      const cached = known.get(place);
      if (cached) return item(cached, position);
      const controller = new AbortController();
      token.onCancellationRequested(() => controller.abort());
      if (!model || !(await debounce(delay, controller.signal))) return [];
      const text = await asked(model, place, controller.signal);
      return text ? item(text, position) : [];
    },
  };
}

/** On while the setting is. */
export function completionsWhileOn(
  context: vscode.ExtensionContext,
  settings: () => Settings,
  provider: vscode.InlineCompletionItemProvider,
): void {
  let registered: vscode.Disposable | undefined;
  const follow = () => {
    const { enabled, model } = settings().completions;
    if (enabled && !model) void missing();
    if (enabled) registered ??= vscode.languages.registerInlineCompletionItemProvider({ pattern: "**" }, provider);
    else {
      registered?.dispose();
      registered = undefined;
    }
  };
  follow();
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration(
      (change) => change.affectsConfiguration("penstock.completions") && follow(),
    ),
    { dispose: () => registered?.dispose() },
  );
}

async function missing(): Promise<void> {
  const open = "Open Settings";
  const said = "Penstock: inline completions are on, but no model is named that fills in.";
  if (await vscode.window.showInformationMessage(said, open))
    await vscode.commands.executeCommand("workbench.action.openSettings", "penstock.completions.model");
}
