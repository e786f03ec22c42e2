// Which documents may be sent to a model for inline completions. What is not known to be allowed is refused.

import { matchesGlob } from "./globs.ts";

/** Files on disk, new files, and the cells of notebooks. Not output, Source Control boxes, chat inputs, settings or diffs. */
export const SCHEMES: readonly string[] = ["file", "untitled", "vscode-notebook-cell"];
const NOTEBOOK_CELL = "vscode-notebook-cell";

/** Languages of documents that hold secrets, or that are no source, whatever their name is. */
const LANGUAGES: ReadonlySet<string> = new Set(["dotenv", "env", "git-commit", "scminput", "ssh_config", "pem"]);

export interface DocumentFacts {
  readonly scheme: string;
  /** With forward slashes; for a link also where it leads. */
  readonly paths: readonly string[];
  readonly language: string;
  /** The scheme of the notebook that a cell belongs to; undefined if no open notebook has the cell. */
  readonly notebook?: string | undefined;
}

export interface Exclusions {
  /** Globs. */
  readonly patterns: readonly string[];
  /** Folders of the editor itself, such as the one of the user's settings. */
  readonly folders: readonly string[];
}

/** Why no completion is offered for a document; undefined if one may be. */
export function refusalOf(document: DocumentFacts, { patterns, folders }: Exclusions): string | undefined {
  const { scheme, paths, language, notebook } = document;
  const kinds = scheme === NOTEBOOK_CELL ? [scheme, notebook ?? "unknown"] : [scheme];
  const kind = kinds.find((one, place) => !SCHEMES.includes(one) || (place > 0 && one === NOTEBOOK_CELL));
  if (kind !== undefined) return `documents of the kind "${kind}" are never sent`;
  if (LANGUAGES.has(language)) return `documents of the language "${language}" are never sent`;
  const folder = folders.find((one) => paths.some((path) => inside(path, one)));
  if (folder !== undefined) return "the editor's own files are never sent";
  const pattern = excludedBy(paths, patterns);
  return pattern && `it matches "${pattern}" in penstock.completions.exclude`;
}

const inside = (path: string, folder: string): boolean => path.toLowerCase().startsWith(`${folder.toLowerCase()}/`);

/** The first pattern that excludes one of the paths. */
export const excludedBy = (paths: readonly string[], patterns: readonly string[]): string | undefined =>
  patterns.find((pattern) => paths.some((path) => matchesGlob(pattern, path)));

/** An empty prompt says nothing about what is wanted, and some providers answer it with a text of their own. */
export const isBlank = (prefix: string): boolean => prefix.trim() === "";
