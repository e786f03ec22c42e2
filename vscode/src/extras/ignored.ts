// Which files Git ignores: `git check-ignore`, with a cache. A program of the repository is never run: `core.fsmonitor`, which
// could name one, is switched off.

import { execFile } from "node:child_process";
import { basename, dirname } from "node:path";

const LIFETIME = 60_000;
const LIMIT = 3_000;
const MOST = 500;

/** Exit status of `git` in a folder; undefined if there is no git, or no such folder. */
export type RunGit = (folder: string, args: readonly string[]) => Promise<number | undefined>;

const runGit: RunGit = (folder, args) =>
  new Promise((resolve, reject) => {
    const options = {
      cwd: folder,
      timeout: LIMIT,
      windowsHide: true,
      env: { ...process.env, GIT_OPTIONAL_LOCKS: "0" },
    };
    execFile("git", args as string[], options, (error) => {
      if (!error) resolve(0);
      else if (typeof error.code === "number") resolve(error.code);
      else if (error.code === "ENOENT") resolve(undefined);
      else reject(error);
    });
  });

export class IgnoredFiles {
  readonly #known = new Map<string, { readonly answer: Promise<boolean>; readonly until: number }>();
  readonly #run: RunGit;
  readonly #now: () => number;

  constructor(run: RunGit = runGit, now: () => number = Date.now) {
    this.#run = run;
    this.#now = now;
  }

  /** Whether Git ignores a file. A file outside of a repository is not ignored; one that Git cannot tell of is. */
  has(path: string): Promise<boolean> {
    const known = this.#known.get(path);
    if (known && known.until > this.#now()) return known.answer;
    const answer = this.#ask(path);
    if (this.#known.size >= MOST) this.#known.clear();
    this.#known.set(path, { answer, until: this.#now() + LIFETIME });
    return answer;
  }

  /** The rules have changed. */
  clear(): void {
    this.#known.clear();
  }

  async #ask(path: string): Promise<boolean> {
    try {
      const args = ["-c", "core.fsmonitor=false", "check-ignore", "--quiet", "--", basename(path)];
      return (await this.#run(dirname(path), args)) === 0;
    } catch {
      this.#known.delete(path);
      return true;
    }
  }
}

/** Files that hold the rules. */
export const isIgnoreFile = (path: string): boolean => [".gitignore", "exclude"].includes(basename(path));
