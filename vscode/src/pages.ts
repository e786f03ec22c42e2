// Pages to read: Markdown that nobody has to save, drawn by the editor's own preview where there is one.

import * as vscode from "vscode";
import { SECTION } from "./settings.ts";

export class Pages implements vscode.TextDocumentContentProvider {
  readonly #texts = new Map<string, string>();
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.#changed.event;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#texts.get(uri.path) ?? "";
  }

  /** Show a page under its name; one that is shown already is drawn anew. */
  async show(name: string, text: string): Promise<void> {
    const uri = vscode.Uri.from({ scheme: SECTION, path: `/${name}.md` });
    this.#texts.set(uri.path, text);
    this.#changed.fire(uri);
    try {
      await vscode.commands.executeCommand("markdown.showPreview", uri);
    } catch {
      // An editor without the preview: the text is readable as it is.
      await vscode.window.showTextDocument(uri, { preview: true });
    }
  }

  register(): vscode.Disposable {
    return vscode.workspace.registerTextDocumentContentProvider(SECTION, this);
  }
}
