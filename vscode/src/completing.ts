// The inline-completion provider: debounced, cancelled with the host's token, cached. Registered only while it is on.

import { realpath } from "node:fs/promises";
import * as vscode from "vscode";
import { said } from "./errors.ts";
import { type DocumentFacts, refusalOf, SCHEMES } from "./extras/eligibility.ts";
import { enabledFor, Filler, placeOf } from "./extras/fim.ts";
import { FimModels, refusalText } from "./extras/fimModels.ts";
import { IgnoredFiles, isIgnoreFile } from "./extras/ignored.ts";
import { Client } from "./gateway/client.ts";
import type { Address } from "./gateway/http.ts";
import { SECTION, type Settings, saveForUser } from "./settings.ts";

export interface Completing {
  readonly address: () => Promise<Address>;
  readonly settings: () => Settings;
  readonly log: (line: string) => void;
}

const SELECTOR = SCHEMES.map((scheme) => ({ scheme }));
const CHOOSE = "Choose Model";
const ADD = "Add Provider";

export class InlineCompletions implements vscode.InlineCompletionItemProvider {
  readonly #services: Completing;
  /** Folders of the editor itself: nothing in them is sent. */
  readonly #folders: readonly string[];
  readonly #filler: Filler;
  readonly #ignored = new IgnoredFiles();
  readonly #models: FimModels;
  readonly #refused = new WeakMap<vscode.TextDocument, string>();
  #told = "";
  #registered: vscode.Disposable | undefined;

  constructor(services: Completing, folders: readonly string[]) {
    this.#services = services;
    this.#folders = folders;
    const client = async () => new Client(await services.address());
    this.#models = new FimModels(async () => (await client()).fimModels());
    this.#filler = new Filler(async (body, signal) => (await client()).fill(body, signal), {
      failed: (error) => services.log(`no completion: ${said(error)}`),
      answered: (milliseconds, characters) =>
        services.log(`a completion of ${characters} characters after ${milliseconds} ms`),
    });
  }

  async provideInlineCompletionItems(
    document: vscode.TextDocument,
    position: vscode.Position,
    _context: vscode.InlineCompletionContext,
    token: vscode.CancellationToken,
  ): Promise<vscode.InlineCompletionItem[]> {
    const { completions } = this.#services.settings();
    if (!completions.enabled) return [];
    const controller = new AbortController();
    const listener = token.onCancellationRequested(() => controller.abort());
    try {
      const place = placeOf(document.getText(), document.offsetAt(position));
      const allowed = async () => (await this.#permits(document)) && this.#modelFillsIn(completions.model);
      const text = await this.#filler.fill(place, completions, controller.signal, allowed);
      return text ? [new vscode.InlineCompletionItem(text, new vscode.Range(position, position))] : [];
    } finally {
      listener.dispose();
    }
  }

  /** Checked for every request: a document can get another language, and the settings can change. */
  async #permits(document: vscode.TextDocument): Promise<boolean> {
    const reason = await this.#refusal(document);
    if (reason && this.#refused.get(document) !== reason) {
      this.#refused.set(document, reason);
      this.#services.log(`no completions for ${document.uri.toString()}: ${reason}`);
    }
    return reason === undefined;
  }

  async #refusal(document: vscode.TextDocument): Promise<string | undefined> {
    const { exclude, languages, includeIgnored } = this.#services.settings().completions;
    const { facts, files } = await factsOf(document);
    const reason = refusalOf(facts, { patterns: exclude, folders: this.#folders });
    if (reason) return reason;
    if (!enabledFor(languages, document.languageId))
      return `penstock.completions.languages switches "${document.languageId}" off`;
    if (includeIgnored) return undefined;
    const ignored = await Promise.all(files.map((file) => this.#ignored.has(file)));
    return ignored.includes(true) ? "Git ignores it" : undefined;
  }

  async #modelFillsIn(model: string): Promise<boolean> {
    const reason = await this.#models.refusal(model);
    if (reason && reason !== this.#told) {
      this.#told = reason;
      void this.#offer(reason);
    }
    return reason === undefined;
  }

  async #offer(reason: string): Promise<void> {
    const button = (await this.#models.names())?.length ? CHOOSE : ADD;
    const answer = await vscode.window.showWarningMessage(`Penstock: ${reason}`, button);
    if (answer === CHOOSE) await this.choose();
    if (answer === ADD) await vscode.commands.executeCommand(`${SECTION}.addProvider`);
  }

  /** Let a person choose the model, and switch completions on. */
  async choose(): Promise<void> {
    this.#models.forget();
    const names = await this.#models.names();
    if (!names?.length) return this.#offer(refusalText(this.#services.settings().completions.model, names ?? []));
    const title = "Model for inline completions";
    const placeHolder = "The text around the cursor of files and notebook cells is sent to it";
    const picked = await vscode.window.showQuickPick([...names], { title, placeHolder });
    if (!picked) return;
    await saveForUser("completions.model", picked);
    await saveForUser("completions.enabled", true);
  }

  /** Follow the settings: registered while it is on. */
  follow(): void {
    this.#told = "";
    this.#models.forget();
    const { enabled, model } = this.#services.settings().completions;
    if (enabled && !model) void this.#modelFillsIn("");
    if (enabled) this.#registered ??= vscode.languages.registerInlineCompletionItemProvider(SELECTOR, this);
    else this.dispose();
  }

  rulesChanged(path: string): void {
    if (isIgnoreFile(path)) this.#ignored.clear();
  }

  dispose(): void {
    this.#registered?.dispose();
    this.#registered = undefined;
  }
}

/** What is known of a document, and the files on disk that it is: itself and, for a link, where it leads. */
async function factsOf(document: vscode.TextDocument): Promise<{ facts: DocumentFacts; files: string[] }> {
  const { uri, languageId } = document;
  const notebook = vscode.workspace.notebookDocuments.find((one) =>
    one.getCells().some((cell) => cell.document === document),
  );
  const file = [uri, notebook?.uri].find((one) => one?.scheme === "file");
  // A file that is not there yet leads nowhere.
  const target = file && (await realpath(file.fsPath).catch(() => undefined));
  const paths = [uri.path, ...(target ? [vscode.Uri.file(target).path] : [])];
  return {
    facts: { scheme: uri.scheme, language: languageId, notebook: notebook?.uri.scheme, paths },
    files: [...new Set([file?.fsPath, target])].flatMap((one) => one ?? []),
  };
}

/** On while the setting is. */
export function completionsWhileOn(context: vscode.ExtensionContext, completing: Completing): void {
  // The user's settings, keybindings and lists of models are two folders above the extension's own storage.
  const folders = [vscode.Uri.joinPath(context.globalStorageUri, "../..").path];
  const completions = new InlineCompletions(completing, folders);
  completions.follow();
  context.subscriptions.push(
    completions,
    vscode.workspace.onDidChangeConfiguration(
      (change) => change.affectsConfiguration("penstock.completions") && completions.follow(),
    ),
    vscode.workspace.onDidGrantWorkspaceTrust(() => completions.follow()),
    vscode.workspace.onDidSaveTextDocument(({ uri }) => completions.rulesChanged(uri.fsPath)),
    vscode.commands.registerCommand(`${SECTION}.chooseCompletionModel`, () => completions.choose()),
  );
}
