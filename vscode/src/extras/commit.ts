// A commit message from the changes of a repository: what is asked of the model, and what is kept of its answer. Off by default.

import { excludedBy } from "./eligibility.ts";

/** What happened to a file. */
export type ChangeKind = "new" | "deleted" | "renamed" | "changed";

export interface FileChange {
  /** With forward slashes, from the root of the repository. */
  readonly path: string;
  readonly kind: ChangeKind;
  /** The name before, of a renamed file. */
  readonly from?: string;
  /** Lines of a diff without its header; empty if there is nothing to show. */
  readonly lines: readonly string[];
  /** Why the contents are not shown. */
  readonly hidden?: string;
}

export interface CommitPrompt {
  readonly text: string;
  /** Files that the model sees only a part of. */
  readonly cut: readonly string[];
  /** Files of which the model sees only the name. */
  readonly hidden: readonly string[];
}

const MOST = 24_000; // characters of all contents
const NAMED = 400; // files that are named one by one
const FILE = /^(?=diff --git )/m;
const WORDS: Readonly<Record<ChangeKind, string>> = { new: "new", deleted: "deleted", renamed: "renamed", changed: "" };

/** The files of a diff as Git writes it. Contents of excluded files are taken out. */
export function parseDiff(diff: string, patterns: readonly string[]): FileChange[] {
  return diff
    .split(FILE)
    .filter((section) => section.startsWith("diff --git "))
    .map((section) => parseFile(section, patterns));
}

function parseFile(section: string, patterns: readonly string[]): FileChange {
  const lines = section.replace(/\n$/, "").split("\n");
  const [head = ""] = lines;
  const body = lines.findIndex((line) => line.startsWith("@@"));
  const header = lines.slice(1, body < 0 ? lines.length : body);
  const field = (name: string) => header.find((line) => line.startsWith(name))?.slice(name.length);
  const from = field("rename from ");
  const path = unquoted(field("rename to ") ?? nameOf(field("+++ ")) ?? nameOf(field("--- ")) ?? lastName(head));
  const kind = kindOf(header);
  const excluded = excludedBy([path, ...pathsIn(head), ...(from ? [unquoted(from)] : [])], patterns);
  const hidden = hiddenReason(excluded, header, kind, lines.length);
  return {
    path,
    kind,
    lines: hidden || body < 0 ? [] : lines.slice(body),
    ...(from && { from: excluded ? "…" : unquoted(from) }),
    ...(hidden && { hidden }),
  };
}

function kindOf(header: readonly string[]): ChangeKind {
  const has = (start: string) => header.some((line) => line.startsWith(start));
  if (has("new file")) return "new";
  if (has("deleted file")) return "deleted";
  return has("rename to ") ? "renamed" : "changed";
}

function hiddenReason(
  excluded: string | undefined,
  header: readonly string[],
  kind: ChangeKind,
  lines: number,
): string | undefined {
  if (excluded) return `not shown: it matches "${excluded}"`;
  if (header.some((line) => line.startsWith("Binary files") || line.startsWith("GIT binary patch"))) return "binary";
  return kind === "deleted" ? `about ${lines} lines` : undefined;
}

/** `a/name`, `b/name` or `/dev/null`, as a diff names a file. */
const nameOf = (field: string | undefined): string | undefined =>
  field === undefined || field === "/dev/null" ? undefined : unquoted(field.replace(/\t$/, "")).replace(/^[ab]\//, "");

// Git puts names with unusual characters in quotes, with escapes. Escapes stay: the name is only read by people and models.
const unquoted = (name: string): string => (/^".*"$/.test(name) ? name.slice(1, -1) : name);

const lastName = (head: string): string => {
  const plain = head.replaceAll('"', "");
  return plain.slice(plain.lastIndexOf(" b/") + 3);
};

// `diff --git a/old b/new`: a name can hold spaces, and Git quotes unusual ones. Every piece counts as a path, so that a
// name which is read wrongly excludes more rather than less.
const pathsIn = (head: string): string[] => {
  const names = head.slice("diff --git ".length).replaceAll('"', "");
  const middle = names.indexOf(" b/");
  return [...names.split(" "), names.slice(0, middle), names.slice(middle + 1)];
};

/** A file that Git does not know yet. `text` is undefined where it cannot be read as text. */
export function newFile(path: string, text: string | undefined, patterns: readonly string[]): FileChange {
  const excluded = excludedBy([path], patterns);
  if (excluded) return { path, kind: "new", lines: [], hidden: `not shown: it matches "${excluded}"` };
  if (text === undefined) return { path, kind: "new", lines: [], hidden: "binary or too large" };
  const lines = text.replace(/\n$/, "").split("\n");
  return { path, kind: "new", lines: text ? lines.map((line) => `+${line}`) : [] };
}

/** What is asked. Every file is named; contents that are too long are cut, each file to a fair share. */
export function commitPrompt(changes: readonly FileChange[], recent: readonly string[]): CommitPrompt {
  const shares = fairShares(changes.map(sizeOf), MOST);
  const shown = changes.map((change, place) => cutTo(change, shares[place] ?? 0));
  const cut = shown.filter(({ left }) => left > 0).map(({ path }) => path);
  const hidden = changes.filter(({ hidden: why }) => why?.startsWith("not shown")).map(({ path }) => path);
  const text = [
    "Write a commit message for these changes: a subject of at most 72 characters, and a body only if the subject does not say it all.",
    recent.length ? `Keep to the style of these subjects:\n${recent.map((subject) => `- ${subject}`).join("\n")}` : "",
    "Answer with the message alone.",
    `<files>\n${nameFiles(changes)}\n</files>`,
    cut.length ? `${cut.length} of ${changes.length} files are shown in part.` : "",
    `<diff>\n${shown.flatMap(({ text: part }) => part || []).join("\n")}\n</diff>`,
  ];
  return { text: text.filter(Boolean).join("\n\n"), cut, hidden };
}

const headOf = (path: string): string => `--- ${path}`;
const sizeOf = ({ path, lines }: FileChange): number =>
  lines.reduce((sum, line) => sum + line.length + 1, lines.length && headOf(path).length + 1);

/** Divide a budget: what small ones leave is for the others. */
export function fairShares(sizes: readonly number[], budget: number): number[] {
  const shares = sizes.map(() => 0);
  let left = budget;
  const order = sizes.map((size, place) => ({ size, place })).sort((a, b) => a.size - b.size);
  for (const [done, { size, place }] of order.entries()) {
    const share = Math.min(size, Math.floor(left / (order.length - done)));
    shares[place] = share;
    left -= share;
  }
  return shares;
}

function cutTo({ path, lines }: FileChange, share: number): { path: string; left: number; text: string } {
  if (!lines.length) return { path, left: 0, text: "" };
  let size = headOf(path).length + 1;
  if (share <= size) return { path, left: lines.length, text: "" };
  const whole = lines.findIndex((line) => {
    size += line.length + 1;
    return size > share;
  });
  const kept = whole < 0 ? lines : lines.slice(0, whole);
  const left = lines.length - kept.length;
  // A first line that is longer than the share is shown in part: a file of one line would not be shown at all.
  const begun = left && !kept.length ? [(lines[0] ?? "").slice(0, share - headOf(path).length)] : [];
  const note = left ? [`[${left} more ${left === 1 ? "line" : "lines"} of this file]`] : [];
  return { path, left, text: [headOf(path), ...kept, ...begun, ...note].join("\n") };
}

function nameFiles(changes: readonly FileChange[]): string {
  const names = changes.slice(0, NAMED).map(({ path, kind, from, hidden }) => {
    const notes = [WORDS[kind] + (from ? ` from ${from}` : ""), hidden ?? ""].filter(Boolean);
    return `${path}${notes.length ? ` (${notes.join("; ")})` : ""}`;
  });
  const rest = Map.groupBy(changes.slice(NAMED), ({ path }) => path.slice(0, path.lastIndexOf("/") + 1) || "./");
  const folders = [...rest].slice(0, NAMED).map(([folder, some]) => `${folder}: ${some.length} more`);
  return [...names, ...folders].join("\n");
}

/** The message without the fence or the quotes that models like to put around it. */
export function commitMessage(answer: string): string {
  const fenced = /^```[a-z]*\n([\s\S]*?)\n?```$/.exec(answer.trim());
  return (fenced?.[1] ?? answer)
    .trim()
    .replace(/^(["'`])([\s\S]*)\1$/, "$2")
    .trim();
}
