// A commit message from a diff: what is asked of the utility model, and what is kept of its answer. Off by default.

const MOST = 24_000;

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
