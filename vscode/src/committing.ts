// The commit message of a repository: the changes as Source Control shows them, described by a model.

import { relative, sep } from "node:path";
import * as vscode from "vscode";
import { commitMessage, commitPrompt, type FileChange, newFile, parseDiff } from "./extras/commit.ts";
import { UTILITY } from "./models.ts";
import { VENDOR } from "./provider.ts";
import { settings } from "./settings.ts";

const LARGEST = 200_000; // bytes of a new file that is read
const NEW_FILES = 200; // that are read; others are only named
const TOLD = 10_000;

// Of Git's extension (https://github.com/microsoft/vscode/blob/main/extensions/git/src/api/git.d.ts), as far as it is used.
const UNTRACKED = 7;
interface Change {
  readonly uri: vscode.Uri;
  readonly status: number;
}
interface Repository {
  readonly rootUri: vscode.Uri;
  readonly inputBox: { value: string };
  readonly state: {
    readonly indexChanges: readonly Change[];
    readonly workingTreeChanges: readonly Change[];
    readonly untrackedChanges?: readonly Change[];
  };
  diff(cached?: boolean): Promise<string>;
  log(options: { maxEntries: number }): Promise<{ message: string }[]>;
  status(): Promise<void>;
}
interface GitApi {
  readonly repositories: Repository[];
}

/** `of` is what the button belongs to: a repository, or the input box of one. */
export async function generateCommitMessage(log: (line: string) => void, of?: unknown): Promise<void> {
  const repository = await findRepository(of);
  const { commitMessage: writing, completions } = settings();
  await repository.status();
  const changes = await changesOf(repository, completions.exclude);
  if (!changes.length) throw new Error("there is no change to describe");
  const wanted = writing.model || UTILITY;
  const [model] = await vscode.lm.selectChatModels({ vendor: VENDOR, id: wanted });
  if (!model) throw new Error(`there is no model ${wanted}`);
  const recent = await repository.log({ maxEntries: 5 }).catch(() => []);
  const subjects = recent.map(({ message }) => message.split("\n")[0] ?? "");
  const { text: prompt, cut, hidden } = commitPrompt(changes, subjects);
  const progress = {
    location: vscode.ProgressLocation.Notification,
    title: "Penstock: writing the commit message",
    cancellable: true,
  };
  await vscode.window.withProgress(progress, async (_, token) => {
    const reply = await model.sendRequest([vscode.LanguageModelChatMessage.User(prompt)], {}, token);
    let text = "";
    for await (const piece of reply.text) text += piece;
    // What stands in the box is left there by a person who changes their mind.
    if (!token.isCancellationRequested) repository.inputBox.value = commitMessage(text);
  });
  if (cut.length || hidden.length) tellOfCuts(changes.length, cut, hidden, log);
}

function tellOfCuts(all: number, cut: readonly string[], hidden: readonly string[], log: (line: string) => void): void {
  const parts = [cut.length ? `${cut.length} in part` : "", hidden.length ? `${hidden.length} by name only` : ""];
  const message = `of ${all} changed files the model saw ${parts.filter(Boolean).join(", ")}`;
  vscode.window.setStatusBarMessage(`Penstock: ${message}`, TOLD);
  log(`commit message: ${message} (${[...cut, ...hidden].join(", ")})`);
}

async function findRepository(of: unknown): Promise<Repository> {
  const git = vscode.extensions.getExtension<{ getAPI(version: 1): GitApi }>("vscode.git");
  const all = (await git?.activate())?.getAPI(1).repositories ?? [];
  const root = String((of as { rootUri?: vscode.Uri } | undefined)?.rootUri ?? "");
  const repository = all.find(({ rootUri }) => String(rootUri) === root) ?? all[0];
  if (!repository) throw new Error("there is no Git repository in this workspace");
  return repository;
}

/** What is staged, if anything is; else all changes, new files among them. */
async function changesOf(repository: Repository, patterns: readonly string[]): Promise<FileChange[]> {
  const staged = parseDiff(await repository.diff(true), patterns);
  if (staged.length) return staged;
  const { workingTreeChanges, untrackedChanges = [] } = repository.state;
  const unknown = [...workingTreeChanges.filter(({ status }) => status === UNTRACKED), ...untrackedChanges];
  const files = [...new Map(unknown.map(({ uri }) => [uri.fsPath, uri])).values()];
  const fresh = files.map(async (uri, place) => {
    const path = relative(repository.rootUri.fsPath, uri.fsPath).split(sep).join("/");
    const named = newFile(path, undefined, patterns);
    // An excluded file is not even read.
    if (named.hidden?.startsWith("not shown") || place >= NEW_FILES) return named;
    return newFile(path, await readText(uri), patterns);
  });
  return [...parseDiff(await repository.diff(), patterns), ...(await Promise.all(fresh))];
}

/** A file as text; undefined if it is too large, or no text. */
async function readText(uri: vscode.Uri): Promise<string | undefined> {
  try {
    if ((await vscode.workspace.fs.stat(uri)).size > LARGEST) return undefined;
    const bytes = await vscode.workspace.fs.readFile(uri);
    return bytes.includes(0) ? undefined : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
