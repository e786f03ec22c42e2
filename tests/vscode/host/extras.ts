// What is off by default, and further gateways: commit messages, completions, configuration groups, the user's choice.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, control, model, until, user, VENDOR } from "./tools.ts";

const ids = async () => (await vscode.lm.selectChatModels({ vendor: VENDOR })).map(({ id }) => id);
const folder = () => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";

interface Repository {
  readonly inputBox: { value: string };
  status(): Promise<void>;
}

async function repository(): Promise<Repository> {
  const git = (...words: string[]) =>
    execFileSync("git", ["-C", folder(), "-c", "user.name=a", "-c", "user.email=a@b", ...words]);
  git("init", "--quiet");
  fs.writeFileSync(path.join(folder(), "gate.txt"), "open\n");
  git("add", ".");
  git("commit", "--quiet", "-m", "Begin");
  fs.writeFileSync(path.join(folder(), "gate.txt"), "shut\n");
  const extension = vscode.extensions.getExtension("vscode.git");
  const api = (await extension?.activate())?.getAPI(1);
  return until(
    "the repository",
    async () => (await api?.openRepository(vscode.Uri.file(folder()))) as Repository | undefined,
  );
}

export const extras: Suite = {
  "a further gateway is a configuration group, and its models have ids of their own": async () => {
    const other = await control<string>("other");
    const found = await until("its models", async () => {
      const all = await ids();
      return all.includes(`replay/text@${other}`) ? all : undefined;
    });
    assert.equal(new Set(found).size, found.length);
    assert.ok(found.includes("replay/text"));
    assert.match((await ask(`replay/text@${other}`, [user("Hello")])).text, /^A penstock/);
  },
  "the user chooses which models are shown": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    await settings.update("models.show", ["replay/ref*", "replay/image"], vscode.ConfigurationTarget.Global);
    const chosen = ["replay/image", "replay/refusal", "utility"];
    await until("the choice to be seen", async () => {
      const own = (await ids()).filter((id) => !id.includes("@")).sort();
      return JSON.stringify(own) === JSON.stringify(chosen) || undefined;
    });
    await settings.update("models.show", undefined, vscode.ConfigurationTarget.Global);
    await until("all to come back", async () => (await ids()).includes("replay/text") || undefined);
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
  "a completion is asked for by filling in the middle, once it is on": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    await settings.update("completions.model", "mistral/codestral-latest", vscode.ConfigurationTarget.Global);
    await settings.update("completions.enabled", true, vscode.ConfigurationTarget.Global);
    const document = await vscode.workspace.openTextDocument({ content: "a gate is \nend\n" });
    const editor = await vscode.window.showTextDocument(document);
    const at = new vscode.Position(0, 10);
    editor.selection = new vscode.Selection(at, at);
    await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
    await until("the completion to be taken", async () => {
      await vscode.commands.executeCommand("editor.action.inlineSuggest.commit");
      return document.getText().startsWith("a gate is 42 cm high\nend") || undefined;
    });
    await settings.update("completions.enabled", false, vscode.ConfigurationTarget.Global);
  },
};
