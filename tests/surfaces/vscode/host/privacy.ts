// Which documents inline completions are asked for: the upstream counts the requests.

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { control, eye, until } from "./tools.ts";

const TEXT = "a gate is ";
const folder = () => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";

const asked = () => control<number>("asked");

async function switchOn(exclude?: Record<string, boolean>): Promise<void> {
  const settings = vscode.workspace.getConfiguration("penstock");
  const user = vscode.ConfigurationTarget.Global;
  await settings.update("completions.model", "mistral/codestral-latest", user);
  await settings.update("completions.delay", 0, user);
  await settings.update("completions.exclude", exclude, user);
  await settings.update("completions.enabled", true, user);
}

function written(name: string, text = TEXT): vscode.Uri {
  const file = path.join(folder(), name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
  return vscode.Uri.file(file);
}

const opened = async (uri: vscode.Uri) => vscode.workspace.openTextDocument(uri);

/** Trigger a completion at the end of the first line. */
async function trigger(document: vscode.TextDocument): Promise<void> {
  const editor = await vscode.window.showTextDocument(document);
  const end = document.lineAt(0).range.end;
  editor.selection = new vscode.Selection(end, end);
  await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
}

let number = 0;
/** A document that is allowed: its request comes after all those that were asked for before it. */
async function controlRequest(): Promise<void> {
  const before = await asked();
  const mark = `control ${number++} `;
  await trigger(await vscode.workspace.openTextDocument({ content: `${mark}is ` }));
  await until("the control request", async () => (await asked()) > before);
  assert.ok((await control<string>("last")).includes(mark));
}

/** Nothing is sent for the document, while the document after it is sent. */
async function refused(document: vscode.TextDocument, name: string): Promise<void> {
  const before = await asked();
  await trigger(document);
  await controlRequest();
  assert.equal((await asked()) - before, 1, `${name} was sent`);
}

async function accepted(document: vscode.TextDocument, mark: string): Promise<void> {
  const before = await asked();
  await trigger(document);
  await until(`${mark} to be sent`, async () => (await asked()) > before);
  assert.ok((await control<string>("last")).includes(mark));
}

export const privacy: Suite = {
  "files and new files are completed": async () => {
    await switchOn();
    await accepted(await opened(written("gate.txt", "a plain gate ")), "a plain gate ");
    await accepted(await vscode.workspace.openTextDocument({ content: "a new gate " }), "a new gate ");
  },
  "cells of a notebook are completed": async () => {
    const cell = new vscode.NotebookCellData(vscode.NotebookCellKind.Code, "a cell of a gate ", "plaintext");
    const notebook = await vscode.workspace.openNotebookDocument("jupyter-notebook", new vscode.NotebookData([cell]));
    await vscode.window.showNotebookDocument(notebook);
    const before = await asked();
    await vscode.commands.executeCommand("notebook.cell.edit");
    await vscode.commands.executeCommand("cursorEnd");
    await until("the cell to be sent", async () => {
      await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
      return (await asked()) > before;
    });
    assert.ok((await control<string>("last")).includes("a cell of a gate "));
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  },
  "files that hold secrets are never sent": async () => {
    const names = [".env", ".env.local", "conf/PROD.ENV", "server.pem", "id_rsa", ".npmrc", "secrets.yaml", "a.tfvars"];
    for (const name of [...names, ".git/config", ".vscode/mcp.json", "run.log"])
      await refused(await opened(written(name, `TOKEN of ${name} `)), name);
  },
  "a link to such a file is never sent": async () => {
    const link = path.join(folder(), "innocent.txt");
    fs.rmSync(link, { force: true });
    fs.symlinkSync(written(".env").fsPath, link);
    await refused(await opened(vscode.Uri.file(link)), "a link to .env");
  },
  "a document of the language dotenv is never sent": async () => {
    await refused(await vscode.workspace.openTextDocument({ language: "dotenv", content: "KEY=" }), "dotenv");
  },
  "documents of other kinds are never sent": async () => {
    const provider = { provideTextDocumentContent: () => TEXT };
    const registration = vscode.workspace.registerTextDocumentContentProvider("penstock-test", provider);
    await refused(await opened(vscode.Uri.parse("penstock-test:/gate.txt")), "another scheme");
    registration.dispose();
    await vscode.commands.executeCommand("workbench.action.openSettingsJson");
    const settings = await until("the settings", async () => {
      const document = vscode.window.activeTextEditor?.document;
      return document?.fileName.endsWith("settings.json") ? document : undefined;
    });
    assert.ok(settings.lineCount > 1);
    await refused(settings, `the user's settings (${settings.uri.scheme})`);
  },
  "the commit box and the chat box are never sent": async () => {
    for (const command of ["workbench.scm.focus", "workbench.action.chat.open"]) {
      const before = await asked();
      await vscode.commands.executeCommand(command).then(undefined, () => undefined);
      await eye("type", "a secret plan of the gate ");
      await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
      await controlRequest();
      const sent = await control<string[]>("bodies");
      assert.deepEqual(
        sent.slice(before).filter((body) => body.includes("secret plan")),
        [],
        command,
      );
      await vscode.commands.executeCommand("workbench.action.closeAllEditors");
    }
  },
  "nobody is asked with an empty prompt": async () => {
    await refused(await vscode.workspace.openTextDocument({ content: "" }), "an empty document");
    await refused(await vscode.workspace.openTextDocument({ content: " \t\nrest of the file" }), "a blank prefix");
  },
  "the user can exclude more, and switch a pattern off": async () => {
    await switchOn({ "*.gate": true, "*.gpg": false });
    await refused(await opened(written("lower.gate", "the lower gate ")), "lower.gate");
    await accepted(await opened(written("other.gpg", "an armoured gate ")), "an armoured gate ");
  },
  "a workspace can exclude more, and switch nothing off": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    const patterns = { ".env": false, "*.theirs": true };
    await settings.update("completions.exclude", patterns, vscode.ConfigurationTarget.Workspace);
    await refused(await opened(written("upper.theirs", "their gate ")), "upper.theirs");
    await refused(await opened(written(".env", "STILL=")), ".env");
    await settings.update("completions.exclude", undefined, vscode.ConfigurationTarget.Workspace);
  },
};
