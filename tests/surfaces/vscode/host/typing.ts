// A person types, with completions on: the upstream records every byte that arrives.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { control, eye, until } from "./tools.ts";

const folder = () => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
const asked = () => control<number>("asked");
const bodies = () => control<string[]>("bodies");
let number = 0;

function written(name: string, text: string): vscode.Uri {
  const file = path.join(folder(), name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
  return vscode.Uri.file(file);
}

/** Open a file with the cursor at its end, and type. */
async function typeInto(uri: vscode.Uri, text: string): Promise<vscode.TextEditor> {
  const document = await vscode.workspace.openTextDocument(uri);
  const editor = await vscode.window.showTextDocument(document);
  // A command, because a selection that is set here reaches the page only later.
  await vscode.commands.executeCommand("cursorBottom");
  await eye("type", text);
  await until("the text to arrive", async () => document.getText().includes(text.slice(0, 5)));
  return editor;
}

/** A normal file, whose request comes after all those that were caused before it. */
async function controlFile(): Promise<string> {
  const mark = `control${number++}`;
  await typeInto(written(`${mark}.txt`, "a gate\n"), `${mark} is `);
  await until("the control request", async () => (await bodies()).some((body) => body.includes(`${mark} is `)));
  return mark;
}

/** What was typed must not have been sent, while a normal file after it is. */
async function unsent(mark: string, where: string): Promise<void> {
  await controlFile();
  assert.deepEqual(
    (await bodies()).filter((body) => body.includes(mark)),
    [],
    where,
  );
}

export const typing: Suite = {
  "typing in a normal file asks for a completion, which has several lines": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    const user = vscode.ConfigurationTarget.Global;
    await settings.update("completions.model", "mistral/codestral-latest", user);
    await settings.update("completions.delay", 50, user);
    await settings.update("completions.enabled", true, user);
    execFileSync("git", ["init", "--quiet"], { cwd: folder() });
    written(".gitignore", "build/\n");
    const editor = await typeInto(written("gate.py", "def area(width, height):\n"), "    return ");
    await until("the request", async () => (await bodies()).some((body) => body.includes("    return ")));
    const [request] = (await bodies()).map((body) => JSON.parse(body)).slice(-1);
    assert.deepEqual([request.model, request.suffix], ["codestral-latest", ""], "at the end of a file");
    assert.deepEqual(new Set(await control<string[]>("paths")), new Set(["/fim/completions"]), "never by chat");
    await until("the suggestion", async () => (await eye<string>("ghost")).includes("width * height"));
    await eye("shot", "completion");
    const before = await asked();
    await eye("type", "wid");
    await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
    await until("the rest of it", async () => (await eye<string>("ghost")).includes("th * height"));
    assert.equal(await asked(), before, "typing what was suggested costs no request");
    await vscode.commands.executeCommand("editor.action.inlineSuggest.commit");
    assert.match(
      editor.document.getText(),
      / {4}return width \* height\n{3}def volume.*\n {4}return area\(width, height\) \* depth$/,
    );
  },
  "typing in .env sends nothing": async () => {
    await typeInto(written(".env", "A=1\n"), "TOKEN=sk-typed-here");
    await unsent("sk-typed-here", ".env");
  },
  "typing in a file that Git ignores sends nothing": async () => {
    await typeInto(written("build/out.txt", "made\n"), "an ignored gate is ");
    await unsent("an ignored gate", "an ignored file");
  },
  "an ignored file is completed once that is wished": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    await settings.update("completions.includeIgnored", true, vscode.ConfigurationTarget.Global);
    await typeInto(written("build/wished.txt", "made\n"), "a wished gate is ");
    await until("the request", async () => (await bodies()).some((body) => body.includes("a wished gate is ")));
    await settings.update("completions.includeIgnored", undefined, vscode.ConfigurationTarget.Global);
  },
  "typing in a settings file sends nothing": async () => {
    await typeInto(written(".vscode/settings.json", "{}\n"), "// a workspace gate is ");
    await unsent("a workspace gate", "settings of the workspace");
    await vscode.commands.executeCommand("workbench.action.openSettingsJson");
    await until("the user's settings", async () =>
      vscode.window.activeTextEditor?.document.fileName.endsWith("settings.json"),
    );
    const editor = vscode.window.activeTextEditor as vscode.TextEditor;
    await vscode.commands.executeCommand("cursorBottom");
    await eye("type", "// a user gate is ");
    await until("the text to arrive", async () => editor.document.getText().includes("a user gate"));
    await vscode.commands.executeCommand("undo");
    await vscode.commands.executeCommand("workbench.action.files.revert");
    await unsent("a user gate", "the user's settings");
  },
  "typing in the commit box sends nothing": async () => {
    await vscode.commands.executeCommand("workbench.view.scm");
    await until("the commit box", async () => eye<boolean>("focus", ".scm-input .monaco-editor"));
    await eye("type", "a committed gate is ");
    await until("the text to arrive", async () => (await eye<string>("boxes")).includes("committed"));
    await unsent("a committed gate", "the commit box");
  },
  "typing in the chat box sends nothing": async () => {
    await vscode.commands.executeCommand("workbench.action.chat.open");
    await until("the chat box", async () => eye<boolean>("focus", ".interactive-input-part .monaco-editor"));
    await eye("type", "a chatty gate is ");
    await until("the text to arrive", async () => (await eye<string>("boxes")).includes("chatty"));
    await unsent("a chatty gate", "the chat box");
  },
  "a language that is switched off sends nothing": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    const user = vscode.ConfigurationTarget.Global;
    await settings.update("completions.languages", { markdown: false }, user);
    await typeInto(written("notes.md", "# Gates\n"), "a written gate is ");
    await unsent("a written gate", "Markdown");
    await settings.update("completions.languages", undefined, user);
  },
  "a model that does not fill in is refused, with the names of those that do": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    await settings.update("completions.model", "mistral/mistral-large-latest", vscode.ConfigurationTarget.Global);
    const before = await asked();
    const file = written("large.txt", "a gate\n");
    await typeInto(file, "a large gate is ");
    let looks = 0;
    const notice = await until("the notice", async () => {
      // The list takes the focus from the text, which ends a request for a completion: on a slow machine before it began.
      looks += 1;
      if (looks % 30 === 0) await typeInto(file, `and ${looks} is `);
      if (looks % 30 === 15) await vscode.commands.executeCommand("notifications.showList");
      return (await eye<string[]>("notices")).find((text) => text.includes("does not fill in the middle"));
    });
    assert.match(notice, /mistral-large-latest does not .*These models do: mistral\/codestral-latest\./s);
    assert.equal(await asked(), before);
    await eye("shot", "completion-model");
    await eye("press", "Choose Model");
    await until("the list", async () => (await eye<string>("rows")).includes("mistral/codestral-latest"));
    await eye("key", "Enter");
    await until("the model", async () => {
      const model = vscode.workspace.getConfiguration("penstock").get<string>("completions.model");
      return model === "mistral/codestral-latest";
    });
    await controlFile();
  },
};
