// The command "Check set-up": looks at everything that can be wrong, and shows each finding with its fix.

import { homedir } from "node:os";
import * as vscode from "vscode";
import { failureOf } from "./errors.ts";
import { type Finding, finding, redacted, report, testRequest } from "./extras/check.ts";
import { Client } from "./gateway/client.ts";
import type { Address } from "./gateway/http.ts";
import { UTILITY, utilityOf } from "./models.ts";
import { VENDOR } from "./provider.ts";
import type { Settings } from "./settings.ts";
import type { Model } from "./wire.ts";

const TEST = 60_000;
const GATEWAY_FIX = "Run “Penstock: Restart Gateway”, or set penstock.gateway.url.";
const KEYS_FIX =
  "Set a provider's key (such as OPENAI_API_KEY) where VS Code is started, or write a penstock.toml and name it in penstock.gateway.config.";

export interface Setup {
  readonly address: () => Promise<Address>;
  readonly settings: () => Settings;
  readonly thinks: boolean;
  readonly version: string;
  readonly log: (line: string) => void;
  readonly show: (name: string, text: string) => Promise<void>;
}

export async function findings({ address, settings, thinks, log }: Setup): Promise<{ found: Finding[]; key: string }> {
  let client: Client | undefined;
  let models: Model[] = [];
  const found = [
    await finding("Gateway", GATEWAY_FIX, async () => {
      client = new Client(await address(), log);
      return (await client.healthy())
        ? client.address.url
        : { ok: false, what: `Gateway: ${client.address.url} does not answer`, fix: GATEWAY_FIX };
    }),
    await finding("Models", "See the message; “Penstock: Show Log” has more.", async () => {
      if (!client) return { ok: false, what: "Models: none without a gateway", fix: "See to the gateway first." };
      models = await client.models();
      return models.length
        ? `${models.length}, from ${providers(models)}`
        : { ok: false, what: "Models: none", fix: KEYS_FIX };
    }),
    keys(models),
    utility(),
    agentHost(),
    thinking(thinks),
    await finding("Test request", "See the message; “Penstock: Show Log” has more.", () =>
      test(client, models, settings()),
    ),
  ];
  return { found, key: client?.address.key ?? "" };
}

const providers = (models: readonly Model[]) =>
  [...new Set(models.map(({ detail }) => detail ?? "the gateway"))].join(", ");

/** A gateway without any key lists only the models that it plays itself. */
function keys(models: readonly Model[]): Finding {
  if (!models.length)
    return { ok: "warning", what: "Keys: nothing can be said without a list of models", fix: "See to that first." };
  const real = models.filter(({ played }) => !played);
  if (real.length) return { ok: true, what: `Keys: there is one for ${providers(real)}` };
  return { ok: "warning", what: "Keys: none; only packaged answers are played", fix: KEYS_FIX };
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
  };
}

function thinking(thinks: boolean): Finding {
  if (thinks) return { ok: true, what: "Thinking: this VS Code can show it" };
  return {
    ok: "warning",
    what: "Thinking: this VS Code cannot show it apart",
    fix: "Set penstock.reasoning to text to see it as text.",
  };
}

async function test(
  client: Client | undefined,
  models: readonly Model[],
  { models: choice }: Settings,
): Promise<string> {
  // The cheapest that takes both a tool and an image; else one that takes a tool.
  const tools = models.filter(({ capabilities }) => capabilities.toolCalling);
  const both = tools.filter(({ capabilities }) => capabilities.imageInput);
  const model = [both, tools, models].map((some) => utilityOf(some, choice.utility)).find(Boolean);
  if (!client || !model) throw new Error("there is no model to ask");
  const { toolCalling, imageInput } = model.capabilities;
  const body = JSON.stringify(testRequest(model.id, imageInput === true, Boolean(toolCalling)));
  const kinds = new Set<string>();
  for await (const line of client.chat(body, AbortSignal.timeout(TEST))) {
    if (line.kind === "error") throw failureOf(line, model.detail ?? "");
    kinds.add(line.kind);
  }
  if (!kinds.has("text") && !kinds.has("call")) throw new Error(`${model.id} gave neither text nor a call`);
  return `${model.id} answered${imageInput ? ", with an image" : ""}${toolCalling ? ", with a tool" : ""}`;
}

/** Show the findings, with a button that copies a report without secrets. */
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
  const text = redacted(report(found, about, [key]), [key], homedir());
  await setup.show("Set-up", text);
  const bad = found.filter(({ ok }) => ok === false).length;
  const say = bad ? vscode.window.showWarningMessage : vscode.window.showInformationMessage;
  void say(
    bad ? `Penstock: ${bad} of ${found.length} checks failed.` : "Penstock: the set-up works.",
    "Copy Report",
  ).then((answer) => {
    if (answer) void vscode.env.clipboard.writeText(text);
  });
  return text;
}
