// Commit messages of new, deleted, renamed and staged files: what the model is told is in the upstream's record.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { control, eye, until } from "./tools.ts";

const folder = () => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
const git = (...words: string[]) =>
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...words], { cwd: folder(), encoding: "utf8" });
const write = (name: string, text: string) => fs.writeFileSync(path.join(folder(), name), text);

interface Repository {
  readonly inputBox: { value: string };
}

async function repository(): Promise<Repository> {
  const api = (await vscode.extensions.getExtension("vscode.git")?.activate())?.getAPI(1);
  return until(
    "the repository",
    async () => (await api?.openRepository(vscode.Uri.file(folder()))) as Repository | undefined,
  );
}

/** Write the message; gives what the model was told. */
async function told(): Promise<string> {
  await vscode.commands.executeCommand("penstock.generateCommitMessage");
  return JSON.parse(await control<string>("last")).messages.at(-1).content;
}

export const commits: Suite = {
  "only new files, in a repository without a commit": async () => {
    git("init", "--quiet");
    write("first.txt", "the first gate\n");
    write(".env", "KEY=sk-secret-in-a-new-file\n");
    const box = (await repository()).inputBox;
    const text = await told();
    assert.match(text, /first\.txt \(new\)/);
    assert.match(text, /\+the first gate/);
    assert.match(text, /\.env \(new; not shown: it matches "\.env"\)/);
    assert.equal(text.includes("sk-secret"), false);
    assert.equal(box.value, "Open the gate");
  },
  "new, deleted, renamed and changed files": async () => {
    const lines = Array.from({ length: 20 }, (_, line) => `line ${line}`).join("\n");
    for (const name of ["changed.txt", "deleted.txt"]) write(name, "before\n");
    write("old.txt", lines);
    git("add", ".");
    git("commit", "--quiet", "-m", "Begin the gate");
    write("changed.txt", "after\n");
    fs.rmSync(path.join(folder(), "deleted.txt"));
    write("fresh.txt", "a fresh gate\n");
    const text = await told();
    assert.match(text, /changed\.txt\n/);
    assert.match(text, /deleted\.txt \(deleted; about \d+ lines\)/);
    assert.match(text, /fresh\.txt \(new\)/);
    assert.match(text, /- Begin the gate/, "the style of what was committed");
  },
  "what is staged is described, and nothing else": async () => {
    git("mv", "old.txt", "new.txt");
    const text = await told();
    assert.match(text, /new\.txt \(renamed from old\.txt\)/);
    assert.equal(/fresh|changed|deleted/.test(text), false);
    git("reset", "--quiet", "--hard");
  },
  "the button has a name of its own, where a person looks for it": async () => {
    write("fresh.txt", "a fresh gate\n");
    await vscode.commands.executeCommand("workbench.view.scm");
    const label = "Write Commit Message with Penstock";
    await until("the button", async () => (await eye<string[]>("labels")).some((text) => text.startsWith(label)));
    await eye("shot", "commit");
  },
};
