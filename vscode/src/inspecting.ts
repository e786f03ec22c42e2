// A request in the inspector, inside VS Code: the gateway's page of that turn, which holds all that it shows. The page loads
// nothing and sends nothing, so that it works in remote windows too, and no key is handed to it.

import * as vscode from "vscode";
import type { RecentRequest, RecentRequests } from "./extras/recent.ts";
import { Client } from "./gateway/client.ts";
import { SECTION } from "./settings.ts";

const NOTHING = "no request of this window is known yet; ask something in the chat first";

export async function inspectRequest({ id, model, address }: RecentRequest): Promise<void> {
  const html = await new Client(address).turnPage(id);
  const column = vscode.window.activeTextEditor?.viewColumn ?? vscode.ViewColumn.Active;
  const panel = vscode.window.createWebviewPanel(`${SECTION}.inspector`, `Request: ${model}`, column, {
    enableScripts: true,
    localResourceRoots: [],
    retainContextWhenHidden: true,
  });
  panel.webview.html = html;
}

export async function inspectLast(recent: RecentRequests): Promise<void> {
  const [last] = recent.rows;
  if (!last) throw new Error(NOTHING);
  await inspectRequest(last);
}

export async function inspectRecent(recent: RecentRequests): Promise<void> {
  if (!recent.rows.length) throw new Error(NOTHING);
  const items = recent.rows.map((row) => ({
    label: row.question || row.model,
    description: row.question ? row.model : "",
    detail: `${new Date(row.time).toLocaleTimeString()} · request ${row.id}`,
    row,
  }));
  const title = "Inspect a request";
  const picked = await vscode.window.showQuickPick(items, { title, matchOnDescription: true, matchOnDetail: true });
  if (picked) await inspectRequest(picked.row);
}
