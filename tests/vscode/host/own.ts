// No gateway in the settings: the extension starts one, brings it back when it is killed, and shares it with all windows.

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, control, until, user, VENDOR } from "./tools.ts";

interface Running {
  readonly url: string;
  readonly key: string;
  readonly pid: number;
}

async function running(): Promise<Running> {
  const folder = await control<string>("state");
  return JSON.parse(fs.readFileSync(path.join(folder, "gateway.json"), "utf8"));
}

export const own: Suite = {
  "a gateway is started on a free port with a key of its own": async () => {
    const models = await vscode.lm.selectChatModels({ vendor: VENDOR });
    assert.ok(models.length > 5);
    const { url, key, pid } = await running();
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.ok(key.length > 30 && pid > 1);
    assert.match((await ask("replay/text", [user("Hello")])).text, /^A penstock/);
    await control("pid", pid);
  },
  "its key opens it, and without one it stays shut": async () => {
    const { url, key } = await running();
    const status = async (headers: Record<string, string>) => (await fetch(`${url}/vscode/models`, { headers })).status;
    assert.equal(await status({ authorization: `Bearer ${key}` }), 200);
    assert.equal(await status({}), 401);
  },
  "it is killed, and brought back": async () => {
    const { pid } = await running();
    process.kill(pid, "SIGKILL");
    const reply = await until("an answer", () => ask("replay/text", [user("Again")]).catch(() => undefined));
    assert.match(reply.text, /^A penstock/);
    const back = await running();
    assert.notEqual(back.pid, pid);
    await control("pid", back.pid);
  },
  "a restart by hand": async () => {
    const { pid } = await running();
    await vscode.commands.executeCommand("penstock.restart");
    const fresh = await running();
    assert.notEqual(fresh.pid, pid);
    await control("pid", fresh.pid);
  },
  "the set-up is checked, and the report has no secret in it": async () => {
    const report = await vscode.commands.executeCommand<string>("penstock.checkSetup");
    assert.match(report, /✓ Gateway: http:\/\/127\.0\.0\.1/);
    assert.match(report, /! Keys: none; only packaged answers are played\n {2}- Fix: /);
    assert.match(report, /! Utility model: .*\n {2}- Fix: Set chat\.utilityModel/);
    assert.match(report, /✓ Test request: replay\/text answered, with an image, with a tool/);
    assert.equal(report.includes((await running()).key), false);
    const shown = vscode.window.activeTextEditor?.document.getText() ?? "";
    assert.ok(shown.startsWith("# Penstock: set-up"));
  },
  "today's usage is shown, of this window's key": async () => {
    await ask("replay/text", [user("Once more")]);
    const text = await until("the journal", async () => {
      const shown = await vscode.commands.executeCommand<string>("penstock.showUsage");
      return shown.includes("| text |") ? shown : undefined;
    });
    assert.match(text, /^# Penstock: today\n\n[1-9]\d* requests/);
  },
  "the entry for a custom endpoint is copied": async () => {
    await vscode.commands.executeCommand("penstock.copyEndpoint");
    const entry = await until("the clipboard", async () => {
      const text = await vscode.env.clipboard.readText();
      return text.includes("customendpoint") ? JSON.parse(text) : undefined;
    });
    assert.ok(entry.models.length > 5);
  },
  "every command is there": async () => {
    const known = new Set(await vscode.commands.getCommands(true));
    const declared = vscode.extensions.getExtension("penstock.penstock")?.packageJSON.contributes.commands as {
      command: string;
    }[];
    assert.deepEqual(
      declared.filter(({ command }) => !known.has(command)),
      [],
    );
  },
  "the model list says why where nothing can be started, and comes back": async () => {
    await control("machine", { "penstock.gateway.url": "http://127.0.0.1:9" });
    await until("the models to go", async () =>
      (await vscode.lm.selectChatModels({ vendor: VENDOR })).length ? undefined : true,
    );
    await control("machine", { "penstock.gateway.url": "" });
    await until("the models to come back", async () =>
      (await vscode.lm.selectChatModels({ vendor: VENDOR })).length ? true : undefined,
    );
  },
};
