// A gateway that wants a key: none, a wrong one, the right one, by the message and its button, as a person would.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, eye, until, user, VENDOR } from "./tools.ts";

const own = async () => (await vscode.lm.selectChatModels({ vendor: VENDOR })).map(({ id }) => id);
const said = async (text: RegExp) => (await eye<string[]>("notices")).find((one) => text.test(one));

export const keys: Suite = {
  "without its key there are no models of it, and one message says why": async () => {
    assert.deepEqual(await own(), ["add-provider"]);
    assert.deepEqual(await own(), ["add-provider"]);
    await assert.rejects(ask("add-provider", [user("Hello?")]), /refused the key .*Penstock: Set Key of the Gateway/);
    await vscode.commands.executeCommand("notifications.showList");
    const told = await until("the message", () => said(/The gateway refused the key \(401: no gateway key was sent/));
    assert.match(told, /run “Penstock: Set Key of the Gateway”\./);
    assert.match(await eye<string>("tip"), /The gateway refused the key/);
    assert.equal((await eye<string[]>("notices")).filter((one) => one.includes("refused the key")).length, 1);
  },
  "the set-up check says the same, with the fix": async () => {
    const report = await vscode.commands.executeCommand<string>("penstock.checkSetup");
    assert.match(report, /✓ Gateway: http/);
    assert.match(report, /✗ Models: The gateway refused the key .*run “Penstock: Set Key of the Gateway”/);
  },
  "a wrong key is refused, too": async () => {
    await vscode.commands.executeCommand("notifications.showList");
    await eye("press", "Set Key");
    await eye("enter", "quite-another-key");
    await until("the next message", () => said(/401: the gateway key is not known here/));
  },
  "the right key opens it at once": async () => {
    const told = new Promise<void>((done) => vscode.lm.onDidChangeChatModels(() => done()));
    void vscode.commands.executeCommand("penstock.setKey");
    await eye("enter", "the-right-key");
    await told;
    await until("the models", async () => (await own()).includes("replay/text"));
    assert.match((await ask("replay/text", [user("Hello")])).text, /^A penstock/);
    await until("the warning to go", async () => !/refused/.test(await eye<string>("tip")));
  },
};
