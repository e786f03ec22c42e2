// Looks whether the gateway has other keys or another configuration than before, and tells a person what is wrong with its file.

import * as vscode from "vscode";
import type { GatewayStatus, ProviderRoutes } from "./gateway/provider-routes.ts";
import { offerRestart } from "./telling.ts";

export class ConfigStatus {
  #revision: number | undefined;
  #told = "";
  #restart = "";

  /** Look once. `changed` is called if the list of models may be another. An older gateway tells nothing. */
  async look(routes: ProviderRoutes, changed: () => unknown): Promise<void> {
    const status = await routes.status().catch(() => undefined);
    if (!status) return;
    if (this.#revision !== undefined && this.#revision !== status.revision) changed();
    this.#revision = status.revision;
    this.#tell(status);
  }

  #tell({ config: { path, error, restart_needed } }: GatewayStatus): void {
    if (error && error !== this.#told) void complainOfFile(path, error);
    this.#told = error;
    const restart = restart_needed.join(", ");
    if (restart && restart !== this.#restart) void offerRestart();
    this.#restart = restart;
  }
}

async function complainOfFile(path: string, error: string): Promise<void> {
  const open = "Open File";
  const message = `Penstock: the configuration was not reloaded, the old one is still used. ${error}`;
  if ((await vscode.window.showWarningMessage(message, ...(path ? [open] : []))) === open)
    await vscode.window.showTextDocument(vscode.Uri.file(path));
}
