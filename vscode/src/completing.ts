// The inline-completion provider: debounced, cancelled with the host's token, cached. Registered only while it is on.

import * as vscode from "vscode";
import { said } from "./errors.ts";
import { Filler, placeOf } from "./extras/fim.ts";
import { Client } from "./gateway/client.ts";
import type { Address } from "./gateway/http.ts";
import type { Settings } from "./settings.ts";

export function completionProvider(
  address: () => Promise<Address>,
  settings: () => Settings,
  log: (line: string) => void,
): vscode.InlineCompletionItemProvider {
  const filler = new Filler(
    async (body, signal) => new Client(await address()).complete(body, signal),
    (error) => log(`no completion: ${said(error)}`),
  );
  return {
    async provideInlineCompletionItems(document, position, _context, token) {
      const place = placeOf(document.getText(), document.offsetAt(position));
      const controller = new AbortController();
      token.onCancellationRequested(() => controller.abort());
      const text = await filler.fill(place, settings().completions, controller.signal);
      return text ? [new vscode.InlineCompletionItem(text, new vscode.Range(position, position))] : [];
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
