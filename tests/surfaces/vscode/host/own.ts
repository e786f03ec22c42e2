// No gateway in the settings: the extension starts one, brings it back when it is killed, and shares it with all windows.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, control, eye, taken, until, user, VENDOR } from "./tools.ts";

interface Running {
  readonly url: string;
  readonly key: string;
  readonly pid: number;
  readonly windows: number;
}

const running = () => control<Running>("running");
const restarted = async (...settings: [string, unknown][]): Promise<void> => {
  await control("machine", Object.fromEntries(settings));
  await vscode.commands.executeCommand("notifications.showList");
  await eye("press", "Restart Gateway");
};

export const own: Suite = {
  "a gateway is started on a free port with a key of its own": async () => {
    // The host does not wait for a gateway that is being started: it is told when there are models.
    await until("its models", async () => (await vscode.lm.selectChatModels({ vendor: VENDOR })).length > 5);
    const { url, key, pid } = await running();
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.ok(key.length > 30 && pid > 1);
    assert.match((await ask("replay/text", [user("Hello")])).text, /^A penstock/);
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
  },
  "it is killed in the middle of an answer: one sentence, and the next question is answered": async () => {
    const [chat] = await vscode.lm.selectChatModels({ vendor: VENDOR, id: "replay/text" });
    assert.ok(chat);
    const { pid } = await running();
    let killed = false;
    await assert.rejects(
      taken(await chat.sendRequest([user("Go")]), () => {
        if (!killed) process.kill(pid, "SIGKILL");
        killed = true;
      }),
      /The gateway went away in the middle of its answer: try again, or run “Penstock: Check Set-up”\.$/,
    );
    assert.match((await ask("replay/text", [user("And now?")])).text, /^A penstock/);
    await running();
  },
  "two windows share it, and one that closes leaves it to the other": async () => {
    const { pid, windows } = await running();
    assert.equal(windows, 1);
    await eye("open");
    await until("the other window to want it", async () => (await running()).windows === 2);
    assert.equal((await running()).pid, pid);
    await eye("close");
    await until("it to be gone", async () => (await running()).windows === 1);
    assert.equal((await running()).pid, pid);
    assert.match((await ask("replay/text", [user("Still there?")])).text, /^A penstock/);
  },
  "the inspector is opened with the key where it is never sent": async () => {
    const { url, key } = await running();
    void vscode.commands.executeCommand("penstock.openInspector");
    const page = await until("its page", async () =>
      (await eye<string[]>("opened")).find((one) => one.includes(new URL(url).port)),
    );
    assert.ok(page.endsWith(`#key=${key}`), page);
    // A browser's editor leads through a proxy; on a desktop it is the address itself, and the page keeps the key to itself.
    const seen = await eye<string>("visit", [`${url}/#key=${key}`, "Streams"]).catch(String);
    assert.equal(seen.includes(key), false, seen);
    assert.ok(seen.startsWith(url), seen);
    await eye("shut");
  },
  "a restart by hand": async () => {
    const { pid } = await running();
    await vscode.commands.executeCommand("penstock.restart");
    const fresh = await running();
    assert.notEqual(fresh.pid, pid);
  },
  "the set-up is checked, and the report has no secret in it": async () => {
    const report = await vscode.commands.executeCommand<string>("penstock.checkSetup");
    assert.match(report, /✓ Gateway: http:\/\/127\.0\.0\.1/);
    assert.match(report, /✗ Providers: there is none yet, so no model can answer\n {2}- Fix: Add a provider/);
    assert.match(report, /! Utility model: .*\n {2}- Fix: Set chat\.utilityModel/);
    assert.equal(report.includes("Test request"), false, "packaged answers prove nothing");
    assert.equal(report.includes((await running()).key), false);
    await vscode.commands.executeCommand("notifications.showList");
    await eye("press", "Copy Report");
    await until("the clipboard", async () => (await vscode.env.clipboard.readText()) === report);
  },
  "the log is shown, and what the gateway writes there has no key in it": async () => {
    await vscode.commands.executeCommand("penstock.showLog");
    // What stands in the channel cannot be read here: the library with which VS Code writes it is not compiled.
    await until("the channel", () =>
      vscode.window.visibleTextEditors.some(({ document: { uri } }) => /^output:.*-Penstock$/.test(String(uri))),
    );
    const { url, key, pid } = await running();
    const log = await control<string>("log");
    assert.ok(log.includes(`penstock-vscode: pid ${pid}`) && log.includes(url), log);
    assert.equal(log.includes(key), false);
  },
  "today's usage is shown, of this window's key": async () => {
    await ask("replay/text", [user("Once more")]);
    const text = await until("the journal", async () => {
      const shown = await vscode.commands.executeCommand<string>("penstock.showUsage");
      return shown.includes("\ntext: ") ? shown : undefined;
    });
    assert.match(text, /^Today: [1-9]\d* requests?, [\d,]+ tokens; cost: /);
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
  "a port that is taken is said in one sentence, and another one helps": async () => {
    const port = await control<number>("taken");
    await restarted(["penstock.gateway.arguments", ["--port", String(port)]]);
    const said = new RegExp(`The gateway did not start: .*port ${port} on 127\\.0\\.0\\.1 is taken`);
    await until("the reason", async () => (await eye<string[]>("notices")).find((one) => said.test(one)));
    // It is tried again after a while: meanwhile the tooltip says so.
    await until("the tooltip", async () => said.test(await eye<string>("tip")));
    await control("machine", { "penstock.gateway.arguments": [] });
    await until("an answer", () => ask("replay/text", [user("Hello?")]).catch(() => undefined));
    await running();
  },
  "models stay while nothing answers, and a question is told why": async () => {
    await control("machine", { "penstock.gateway.url": "http://127.0.0.1:9" });
    const said = /^The gateway at http:\/\/127\.0\.0\.1:9 does not answer: start it, or clear penstock\.gateway\.url\./;
    await until("the reason", () =>
      ask("replay/text", [user("Hello?")]).then(
        () => undefined,
        (error: Error) => said.test(error.message),
      ),
    );
    assert.ok((await vscode.lm.selectChatModels({ vendor: VENDOR })).length > 5);
    await control("machine", { "penstock.gateway.url": "" });
    await until("an answer", () => ask("replay/text", [user("And now?")]).catch(() => undefined));
  },
  "a setting that a gateway has from its start on is offered as a restart": async () => {
    const { pid } = await running();
    await restarted(["penstock.gateway.config", await control<string>("config")]);
    await until("the models of the configuration", async () =>
      (await vscode.lm.selectChatModels({ vendor: VENDOR })).some(({ id }) => id === "anthropic/claude-script"),
    );
    assert.notEqual((await running()).pid, pid);
  },
};
