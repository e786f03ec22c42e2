// Which level of the settings (default, user, workspace, folder) counts for which setting. VS Code itself leaves restricted
// settings of untrusted workspaces out; this is a second check, and the only one for settings that are merged.

/** What `WorkspaceConfiguration.inspect` tells of a setting, as far as it is used. */
export interface Levels {
  readonly defaultValue?: unknown;
  readonly globalValue?: unknown;
  readonly workspaceValue?: unknown;
  readonly workspaceFolderValue?: unknown;
}

/** Settings that a workspace can set before it is trusted: they change only what is shown, or only exclude more. */
export const HARMLESS: ReadonlySet<string> = new Set(["reasoning", "completions.exclude"]);

/** The value that counts: `effective` is VS Code's own answer, with every level in it. */
export function trustedValue<T>(
  name: string,
  effective: T | undefined,
  levels: Levels,
  trusted: boolean,
): T | undefined {
  if (trusted || HARMLESS.has(name)) return effective;
  return (levels.globalValue ?? levels.defaultValue) as T | undefined;
}

/**
 * The patterns of an object such as `{".env": true}`. The user can switch a default off; a workspace, trusted or not, can
 * only add patterns.
 */
export function patternsOf(levels: Levels): string[] {
  const own = { ...entries(levels.defaultValue), ...entries(levels.globalValue) };
  const added = [levels.workspaceValue, levels.workspaceFolderValue].flatMap((one) => switchedOn(entries(one)));
  return [...new Set([...switchedOn(own), ...added])];
}

const entries = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

// Only `false` switches a pattern off: a mistyped value keeps it.
const switchedOn = (patterns: Readonly<Record<string, unknown>>): string[] =>
  Object.keys(patterns).filter((pattern) => patterns[pattern] !== false);
