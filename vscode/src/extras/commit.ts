// A commit message from a diff: what is asked of the utility model, and what is kept of its answer. Off by default.

import { excludedBy } from "./eligibility.ts";

const MOST = 24_000;
const FILE = /^(?=diff --git )/m;

/** The diff with only the names, not the contents, of files that are never sent. */
export function withoutExcluded(diff: string, patterns: readonly string[]): string {
  return diff
    .split(FILE)
    .map((file) => {
      const [head = ""] = file.split("\n", 1);
      const excluded = head.startsWith("diff --git ") && excludedBy(pathsIn(head), patterns);
      return excluded ? `${head}\n[not shown: the file matches "${excluded}"]\n` : file;
    })
    .join("");
}

// `diff --git a/old b/new`: a name can hold spaces, and Git quotes unusual ones. Every piece counts as a path, so that a
// name which is read wrongly excludes more rather than less.
const pathsIn = (head: string): string[] => {
  const names = head.slice("diff --git ".length).replaceAll('"', "");
  const middle = names.indexOf(" b/");
  return [...names.split(" "), names.slice(0, middle), names.slice(middle + 1)];
};

export function commitPrompt(diff: string, recent: readonly string[]): string {
  const shown = diff.length > MOST ? `${diff.slice(0, MOST)}\n[… ${diff.length - MOST} more characters]` : diff;
  return [
    "Write a commit message for this diff: a subject of at most 72 characters, and a body only if the subject does not say it all.",
    recent.length ? `Keep to the style of these subjects:\n${recent.map((subject) => `- ${subject}`).join("\n")}` : "",
    "Answer with the message alone.",
    `<diff>\n${shown}\n</diff>`,
  ]
    .filter(Boolean)
    .join("\n\n");
}

/** The message without the fence or the quotes that models like to put around it. */
export function commitMessage(answer: string): string {
  const fenced = /^```[a-z]*\n([\s\S]*?)\n?```$/.exec(answer.trim());
  return (fenced?.[1] ?? answer)
    .trim()
    .replace(/^(["'`])([\s\S]*)\1$/, "$2")
    .trim();
}
