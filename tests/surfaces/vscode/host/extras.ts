// What is off by default, and further gateways: commit messages, completions, configuration groups, the user's choice.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, control, eye, model, until, usage, user, VENDOR } from "./tools.ts";

const ids = async (vendor = VENDOR) => (await vscode.lm.selectChatModels({ vendor })).map(({ id }) => id);
const GROUPS = "penstock-gateway";
const folder = () => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";

interface Repository {
  readonly inputBox: { value: string };
  status(): Promise<void>;
}

async function repository(): Promise<Repository> {
  const git = (...words: string[]) =>
    execFileSync("git", ["-C", folder(), "-c", "user.name=a", "-c", "user.email=a@b", ...words]);
  if (!fs.existsSync(path.join(folder(), ".git"))) {
    git("init", "--quiet");
    fs.writeFileSync(path.join(folder(), "gate.txt"), "open\n");
    git("add", ".");
    git("commit", "--quiet", "-m", "Begin");
    fs.writeFileSync(path.join(folder(), "gate.txt"), "shut\n");
  }
  const extension = vscode.extensions.getExtension("vscode.git");
  const api = (await extension?.activate())?.getAPI(1);
  return until(
    "the repository",
    async () => (await api?.openRepository(vscode.Uri.file(folder()))) as Repository | undefined,
  );
}

export const extras: Suite = {
  "a further gateway is a configuration group, and its models have ids of their own": async () => {
    const [other] = await control<string[]>("hosts");
    const found = await until("its models", async () => {
      const all = await ids(GROUPS);
      return all.includes(`replay/text@${other}`) ? all : undefined;
    });
    assert.equal(new Set(found).size, found.length);
    assert.ok(found.includes(`utility@${other}`));
    assert.equal((await ids()).filter((id) => id.includes("@")).length, 0);
    assert.match((await ask(`replay/text@${other}`, [user("Hello")], {}, GROUPS)).text, /^A penstock/);
  },
  "a further gateway that is away keeps its models, says why, and answers once it is back": async () => {
    const [other] = await control<string[]>("hosts");
    const there = async () => (await ids(GROUPS)).includes(`replay/text@${other}`);
    await control("away");
    await assert.rejects(ask(`replay/text@${other}`, [user("Hello?")], {}, GROUPS), /The gateway does not answer/);
    assert.ok(await there());
    await control("back");
    assert.match((await ask(`replay/text@${other}`, [user("Hello")], {}, GROUPS)).text, /^A penstock/);
  },
  "a gateway of a later version is understood as far as it goes": async () => {
    const [, later] = await control<string[]>("hosts");
    const reply = await ask(`later/one@${later}`, [user("Hello")], {}, GROUPS);
    assert.equal(reply.text, "Later.");
    const kinds = reply.data.map(({ mimeType }) => mimeType);
    assert.deepEqual(kinds.slice(0, 4), [
      "application/vnd.vercel.gauge+json",
      "text/plain",
      "application/json",
      "application/octet-stream",
    ]);
    assert.deepEqual(JSON.parse(reply.data[0]?.bytes.toString() ?? ""), { level: 3.2 });
    assert.deepEqual([...(reply.data[3]?.bytes ?? [])], [0, 1]);
    assert.ok(usage(reply).total_tokens > 0, "an estimate, where the gateway sent none");
  },
  "of hundreds of models a few are listed, and the others can be chosen": async () => {
    const shown = await ids();
    assert.equal(shown.length, 26, "24, the one that writes commit messages, and the utility model");
    assert.ok(shown.includes("mistral/codestral-latest"), "some of each provider");
    const last = ["many/delta-17", "many/delta-170"].find((id) => !shown.includes(id)) ?? "";
    void vscode.commands.executeCommand("penstock.chooseModels");
    assert.match(await eye<string>("rows"), /Models to show, of 3\d\d/);
    assert.match(await eye<string>("rows"), /shown now[\s\S]*many\/gpt-4/);
    await eye("toggle", last);
    await until("the choice to be seen", async () => (await ids()).includes(last));
    assert.equal((await ids()).length, 27);
    await vscode.workspace
      .getConfiguration("penstock")
      .update("models.show", undefined, vscode.ConfigurationTarget.Global);
    await until("a few again", async () => (await ids()).length === 26);
  },
  "the user chooses which models are shown": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    await settings.update("models.show", ["replay/ref*", "replay/image"], vscode.ConfigurationTarget.Global);
    const chosen = ["replay/image", "replay/refusal", "replay/text", "utility"];
    await until("the choice to be seen", async () => {
      return JSON.stringify((await ids()).sort()) === JSON.stringify(chosen) || undefined;
    });
    await settings.update("models.show", undefined, vscode.ConfigurationTarget.Global);
    await until("the others to come back", async () => (await ids()).includes("mistral/codestral-latest") || undefined);
  },
  "the utility model is one that was named": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    await settings.update("models.utility", "replay/refusal", vscode.ConfigurationTarget.Global);
    const said = await until("the other model", async () => {
      const { text } = await ask("utility", [user("A title, please")]);
      return text.includes("spillway") ? text : undefined;
    });
    assert.match(said, /can't help/);
    await settings.update("models.utility", undefined, vscode.ConfigurationTarget.Global);
    assert.ok(await model("utility"));
  },
  "a commit message is written where it belongs": async () => {
    const found = await repository();
    await until("the change to be seen", async () => {
      await found.status();
      return true;
    });
    await vscode.commands.executeCommand("penstock.generateCommitMessage");
    assert.match(found.inputBox.value, /^A penstock is the pipe/);
  },
  "somebody who changes their mind keeps what stands in the box, and the upstream is closed": async () => {
    const found = await repository();
    found.inputBox.value = "My own words";
    const settings = vscode.workspace.getConfiguration("penstock");
    await settings.update("commitMessage.model", "many/delta-7", vscode.ConfigurationTarget.Global);
    await until("the model to be listed", async () => (await ids()).includes("many/delta-7"));
    const before = await control<number>("asked");
    const writing = vscode.commands.executeCommand("penstock.generateCommitMessage");
    await until("it to be asked", async () => (await control<number>("asked")) > before);
    await vscode.commands.executeCommand("notifications.showList");
    await eye("press", "Cancel");
    await writing;
    assert.equal(found.inputBox.value, "My own words");
    assert.equal(await control<number>("closed"), 1);
    assert.deepEqual(
      (await eye<string[]>("notices")).filter((one) => /cancel/i.test(one)),
      [],
    );
    await settings.update("commitMessage.model", "replay/text", vscode.ConfigurationTarget.Global);
  },
  "a completion is asked for by filling in the middle, once it is on": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    await settings.update("completions.model", "mistral/codestral-latest", vscode.ConfigurationTarget.Global);
    await settings.update("completions.enabled", true, vscode.ConfigurationTarget.Global);
    const document = await vscode.workspace.openTextDocument({ content: "a gate is \nend\n" });
    const editor = await vscode.window.showTextDocument(document);
    const before = await control<number>("asked");
    const at = new vscode.Position(0, 10);
    editor.selection = new vscode.Selection(at, at);
    await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
    await until("the completion to be taken", async () => {
      await vscode.commands.executeCommand("editor.action.inlineSuggest.commit");
      return document.getText().startsWith("a gate is 42 cm high\nend") || undefined;
    });
    await editor.edit((change) => change.delete(new vscode.Range(at, at.translate(0, 10))));
    editor.selection = new vscode.Selection(at, at);
    await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
    await until("it to be taken again", async () => {
      await vscode.commands.executeCommand("editor.action.inlineSuggest.commit");
      return document.getText().startsWith("a gate is 42 cm high\nend") || undefined;
    });
    assert.equal((await control<number>("asked")) - before, 1, "what was given once is remembered");
    await settings.update("completions.enabled", false, vscode.ConfigurationTarget.Global);
  },
};
