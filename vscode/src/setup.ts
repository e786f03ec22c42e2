// The command "Check set-up": looks at everything that can be wrong, and shows each finding with its fix.

import { randomBytes } from "node:crypto";
import { homedir } from "node:os";
import * as vscode from "vscode";
import { Failure } from "./errors.ts";
import { type Action, type Finding, finding, RESTART, redacted, report, SHOW_LOG, verdict } from "./extras/check.ts";
import { checkPage } from "./extras/checkPage.ts";
import { askModel, checkProviders } from "./extras/providerChecks.ts";
import { Client } from "./gateway/client.ts";
import type { Address } from "./gateway/http.ts";
import { UTILITY, utilityOf } from "./models.ts";
import { VENDOR } from "./provider.ts";
import { SECTION, type Settings } from "./settings.ts";
import type { Model } from "./wire.ts";

const GATEWAY_FIX = "Run “Penstock: Restart Gateway”, or set penstock.gateway.url.";
const SET_KEY: Action = { label: "Set Key", command: `${SECTION}.setKey` };
const openSettings = (query: string): Action => ({
  label: "Open Settings",
  command: "workbench.action.openSettings",
  args: [query],
});
/** Commands that a link of the page may run. */
const COMMANDS = [
  ...[
    "checkSetup",
    "copyReport",
    "showLog",
    "restart",
    "setKey",
    "addProvider",
    "manageProviders",
    "useUtilityModel",
  ].map((name) => `${SECTION}.${name}`),
  "workbench.action.openSettings",
];

export interface Setup {
  readonly address: () => Promise<Address>;
  readonly settings: () => Settings;
  readonly thinks: boolean;
  readonly version: string;
  readonly log: (line: string) => void;
}

export async function findings({ address, settings, thinks, log }: Setup): Promise<{ found: Finding[]; key: string }> {
  let client: Client | undefined;
  let models: readonly Model[] = [];
  const gateway = await finding(
    "Gateway",
    GATEWAY_FIX,
    async () => {
      client = new Client(await address(), log);
      return (await client.healthy())
        ? client.address.url
        : { ok: false, what: `Gateway: ${client.address.url} does not answer`, fix: GATEWAY_FIX, actions: [RESTART] };
    },
    [RESTART, openSettings("penstock.gateway"), SHOW_LOG],
  );
  const list = await listFinding(client, (found) => {
    models = found;
  });
  const { models: choice } = settings();
  const checked = client && list.ok === true ? await checkProviders(client, models, choice) : [];
  // A provider that has failed is not asked again.
  const failed = checked.filter(({ ok }) => ok === false);
  const usable = models.filter(({ detail }) => !failed.some(({ what }) => detail && what.startsWith(detail)));
  const tested = await testFinding(client, usable, settings());
  const found = [gateway, list, ...checked, ...tested, utility(), agentHost(), thinking(thinks)];
  return { found, key: client?.address.key ?? "" };
}

async function listFinding(client: Client | undefined, take: (models: Model[]) => void): Promise<Finding> {
  if (!client) return { ok: false, what: "Models: none without a gateway", fix: "See to the gateway first." };
  try {
    const models = await client.models();
    take(models);
    return { ok: true, what: `Models: ${models.length}, from ${sources(models)}` };
  } catch (error) {
    const refused = error instanceof Failure && error.fault === "auth";
    const what = `Models: ${error instanceof Error ? error.message : String(error)}`;
    const fix = refused ? "Set the key of the gateway." : "The log of the gateway has more.";
    return { ok: false, what, fix, actions: refused ? [SET_KEY] : [RESTART, SHOW_LOG] };
  }
}

const sources = (models: readonly Model[]) =>
  [...new Set(models.map(({ detail }) => detail ?? "the gateway"))].join(", ") || "no provider";

/** One request with a tool and an image. Packaged answers prove nothing, so they are not asked for. */
async function testFinding(
  client: Client | undefined,
  models: readonly Model[],
  { models: choice }: Settings,
): Promise<Finding[]> {
  // The cheapest that takes both a tool and an image; else one that takes a tool.
  const real = models.filter(({ played }) => !played);
  const tools = real.filter(({ capabilities }) => capabilities.toolCalling);
  const both = tools.filter(({ capabilities }) => capabilities.imageInput);
  const model = [both, tools, real].map((some) => utilityOf(some, choice.utility)).find(Boolean);
  if (!client || !model) return [];
  const fix = "Try another model; the log of the gateway has more.";
  return [await finding("Test request", fix, () => askModel(client, model), [SHOW_LOG])];
}

/** VS Code has two: for titles and the like, and for what takes more. */
function utility(): Finding {
  const names = ["utilityModel", "utilitySmallModel"];
  const chosen = names.map((name) => vscode.workspace.getConfiguration("chat").get<string>(name));
  const missing = names.filter((_, place) => !chosen[place]).map((name) => `chat.${name}`);
  if (!missing.length) return { ok: true, what: `Utility model: ${[...new Set(chosen)].join(", ")}` };
  return {
    ok: "warning",
    what: "Utility model: not chosen, so titles, summaries and commit messages may use another provider",
    fix: `Set ${missing.join(" and ")} to ${VENDOR}/${UTILITY}.`,
    actions: [{ label: "Use It", command: `${SECTION}.useUtilityModel` }, openSettings("chat.utility")],
  };
}

function agentHost(): Finding {
  const on = vscode.workspace.getConfiguration("chat").get<boolean>("agentHost.byokModels.enabled");
  if (on === undefined) return { ok: true, what: "Agent host: this VS Code has no setting for it" };
  if (on) return { ok: true, what: "Agent host: may use these models" };
  return {
    ok: "warning",
    what: "Agent host: does not list these models",
    fix: "Switch chat.agentHost.byokModels.enabled on.",
    actions: [openSettings("chat.agentHost.byokModels.enabled")],
  };
}

function thinking(thinks: boolean): Finding {
  if (thinks) return { ok: true, what: "Thinking: this VS Code can show it" };
  return {
    ok: "warning",
    what: "Thinking: this VS Code cannot show it apart",
    fix: "Set penstock.reasoning to text to see it as text.",
    actions: [openSettings("penstock.reasoning")],
  };
}

let panel: vscode.WebviewPanel | undefined;
let last = "";

/** Show the findings, with buttons that help and one that copies a report without secrets. */
export async function checkSetup(setup: Setup): Promise<string> {
  const { found, key } = await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title: "Penstock: checking the set-up" },
    () => findings(setup),
  );
  const about = {
    extension: setup.version,
    "VS Code": vscode.version,
    platform: `${process.platform} ${process.arch}`,
  };
  const clean = (text: string) => redacted(text, [key], homedir());
  const shown = found.map((row) => ({ ...row, what: clean(row.what) }));
  last = clean(report(found, about, [key]));
  show(checkPage(shown, about, randomBytes(16).toString("base64")));
  const { good, text } = verdict(found);
  const say = good ? vscode.window.showInformationMessage : vscode.window.showWarningMessage;
  void say(`Penstock: ${text}`, "Copy Report").then((answer) => answer && copyReport());
  return last;
}

export async function copyReport(): Promise<void> {
  await vscode.env.clipboard.writeText(last);
  vscode.window.setStatusBarMessage("Penstock: the report is copied", 5_000);
}

/** A panel, which a restored window does not open again: what it says would be out of date. */
function show(html: string): void {
  panel ??= createPanel();
  panel.webview.html = html;
  panel.reveal();
}

function createPanel(): vscode.WebviewPanel {
  const options = { enableScripts: false, enableCommandUris: COMMANDS, localResourceRoots: [] };
  const name = "Penstock: Set-up";
  const created = vscode.window.createWebviewPanel(`${SECTION}.setup`, name, vscode.ViewColumn.Active, options);
  created.onDidDispose(() => {
    panel = undefined;
  });
  return created;
}
