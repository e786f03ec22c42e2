// "Check set-up" as values: what was found, what to do about it, and a report that can be shown to others.

/** A fix that is one click: a command of VS Code. */
export interface Action {
  readonly label: string;
  readonly command: string;
  readonly args?: readonly unknown[];
}

/** What is not as it should be comes with what to do about it. */
export type Finding =
  | { readonly ok: true; readonly what: string }
  | {
      readonly ok: false | "warning";
      readonly what: string;
      readonly fix: string;
      readonly actions?: readonly Action[];
      /** A page that helps, such as the one where a key is made. */
      readonly link?: { readonly label: string; readonly url: string };
    };

export const SHOW_LOG: Action = { label: "Show Log", command: "penstock.showLog" };
export const RESTART: Action = { label: "Restart Gateway", command: "penstock.restart" };
export const ADD_PROVIDER: Action = { label: "Add Provider", command: "penstock.addProvider" };

/** A finding that does not stop the others: what is thrown is the finding. */
export async function finding(
  what: string,
  fix: string,
  look: () => Promise<Finding | string>,
  actions: readonly Action[] = [],
): Promise<Finding> {
  try {
    const found = await look();
    return typeof found === "string" ? { ok: true, what: `${what}: ${found}` } : found;
  } catch (error) {
    return { ok: false, what: `${what}: ${error instanceof Error ? error.message : String(error)}`, fix, actions };
  }
}

export const MARKS = { true: "✓", false: "✗", warning: "!" } as const;

export function report(
  findings: readonly Finding[],
  about: Readonly<Record<string, string>>,
  secrets: readonly string[],
): string {
  const rows = findings.map(
    (row) => `- ${MARKS[`${row.ok}`]} ${row.what}${row.ok === true ? "" : `\n  - Fix: ${row.fix}`}`,
  );
  const facts = Object.entries(about).map(([name, value]) => `- ${name}: ${value}`);
  const text = `# Penstock: set-up\n\n${rows.join("\n")}\n\n## Versions\n\n${facts.join("\n")}\n`;
  return redacted(text, secrets);
}

/** In one line: what failed, and what could be better. */
export function verdict(findings: readonly Finding[]): { readonly good: boolean; readonly text: string } {
  const failed = findings.filter(({ ok }) => ok === false).length;
  const warnings = findings.filter(({ ok }) => ok === "warning").length;
  if (failed) return { good: false, text: `${failed} of ${findings.length} checks failed.` };
  const hints = warnings ? ` ${warnings} ${warnings === 1 ? "thing" : "things"} could be better.` : "";
  return { good: true, text: `The set-up works.${hints}` };
}

// Keys as providers write them, bearer tokens, and credentials in addresses.
const LOOKS_SECRET = [
  /\b(?:sk|pk|rk|key|gsk|xai|hf|AIza)[-_][A-Za-z0-9_-]{12,}/g,
  /\bAIza[A-Za-z0-9_-]{20,}/g,
  /(?<=Bearer )\S+/gi,
  /(?<=:\/\/)[^/\s@]+@/g,
];

/** Known secrets, what looks like one, and the name of the user's home, taken out. */
export function redacted(text: string, secrets: readonly string[], home = ""): string {
  const known = secrets
    .filter((secret) => secret.length >= 6)
    .reduce((rest, secret) => rest.replaceAll(secret, "[secret]"), text);
  const clean = LOOKS_SECRET.reduce((rest, pattern) => rest.replace(pattern, "[secret]"), known);
  return home.length > 1 ? clean.replaceAll(home, "~") : clean;
}

// A dot of one pixel and a tool that must be called: the smallest request that shows that both arrive.
export const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkqD/zHwAEhwJ/pW8cZQAAAABJRU5ErkJggg==";

export function testRequest(model: string, image: boolean, tool: boolean): object {
  const picture = { kind: "data", mimeType: "image/png", data: PIXEL };
  return {
    version: 1,
    model,
    messages: [
      {
        role: 1,
        content: [
          { kind: "text", value: "Say OK, or call the tool. This is a test of the connection." },
          ...(image ? [picture] : []),
        ],
      },
    ],
    ...(tool
      ? {
          toolMode: 1,
          tools: [{ name: "say_ok", description: "Says OK", inputSchema: { type: "object", properties: {} } }],
        }
      : {}),
    modelOptions: { max_tokens: 256 },
  };
}
