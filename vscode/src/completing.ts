// The inline-completion provider: debounced, cancelled with the host's token, cached. Registered only while it is on.

import { realpath } from "node:fs/promises";
import * as vscode from "vscode";
import { said } from "./errors.ts";
import { type DocumentFacts, refusalOf, SCHEMES } from "./extras/eligibility.ts";
import { Filler, placeOf } from "./extras/fim.ts";
import { Client } from "./gateway/client.ts";
import type { Address } from "./gateway/http.ts";
import type { Settings } from "./settings.ts";

export interface Completing {
  readonly address: () => Promise<Address>;
  readonly settings: () => Settings;
  readonly log: (line: string) => void;
}

/** `folders` are those of the editor itself: nothing in them is sent. */
function completionProvider(
  { address, settings, log }: Completing,
  folders: readonly string[],
): vscode.InlineCompletionItemProvider {
  const filler = new Filler(
    async (body, signal) => new Client(await address()).complete(body, signal),
    (error) => log(`no completion: ${said(error)}`),
  );
  const refused = new WeakMap<vscode.TextDocument, string>();
  /** Checked for every request: a document can get another language, and the settings can change. */
  const allowed = async (document: vscode.TextDocument): Promise<boolean> => {
    const reason = refusalOf(await factsOf(document), { patterns: settings().completions.exclude, folders });
    if (reason && refused.get(document) !== reason) {
      refused.set(document, reason);
      log(`no completions for ${document.uri.toString()}: ${reason}`);
    }
    return reason === undefined;
  };
  return {
    async provideInlineCompletionItems(document, position, _context, token) {
      const controller = new AbortController();
      token.onCancellationRequested(() => controller.abort());
      if (!settings().completions.enabled || !(await allowed(document))) return [];
      const place = placeOf(document.getText(), document.offsetAt(position));
      const text = await filler.fill(place, settings().completions, controller.signal);
      return text ? [new vscode.InlineCompletionItem(text, new vscode.Range(position, position))] : [];
    },
  };
}

async function factsOf(document: vscode.TextDocument): Promise<DocumentFacts> {
  const { uri, languageId } = document;
  const notebook = vscode.workspace.notebookDocuments.find((one) =>
    one.getCells().some((cell) => cell.document === document),
  );
  return {
    scheme: uri.scheme,
    language: languageId,
    notebook: notebook?.uri.scheme,
    paths: [uri.path, ...(uri.scheme === "file" ? await target(uri) : [])],
  };
}

/** Where a file leads that is a link. A file that is not there yet leads nowhere. */
const target = (uri: vscode.Uri): Promise<string[]> =>
  realpath(uri.fsPath).then(
    (path) => [vscode.Uri.file(path).path],
    () => [],
  );

const SELECTOR = SCHEMES.map((scheme) => ({ scheme }));

/** On while the setting is. */
export function completionsWhileOn(context: vscode.ExtensionContext, completing: Completing): void {
  // The user's settings, keybindings and lists of models are two folders above the extension's own storage.
  const folders = [vscode.Uri.joinPath(context.globalStorageUri, "../..").path];
  const provider = completionProvider(completing, folders);
  let registered: vscode.Disposable | undefined;
  const follow = () => {
    const { enabled, model } = completing.settings().completions;
    if (enabled && !model) void missing();
    if (enabled) registered ??= vscode.languages.registerInlineCompletionItemProvider(SELECTOR, provider);
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
    vscode.workspace.onDidGrantWorkspaceTrust(follow),
    { dispose: () => registered?.dispose() },
  );
}

async function missing(): Promise<void> {
  const open = "Open Settings";
  const said = "Penstock: inline completions are on, but no model is named that fills in.";
  if (await vscode.window.showInformationMessage(said, open))
    await vscode.commands.executeCommand("workbench.action.openSettings", "penstock.completions.model");
}
