// Environments of the extension's own: which one belongs to this version, and removing those of earlier versions.

import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";

const PREFIX = "environment-";
const STAMP = "complete"; // written last: an environment without it is half made
const UNUSED = 30 * 24 * 60 * 60_000;

/** The folder for a version and, if one is set, an interpreter. */
export function environmentName(version: string, python: string): string {
  const mark = python ? `-${createHash("sha256").update(python).digest("hex").slice(0, 8)}` : "";
  return `${PREFIX}${version}${mark}`;
}

export const isComplete = (environment: string): boolean => fs.existsSync(join(environment, STAMP));

/** It is whole, and was used just now. */
export function markUsed(environment: string): void {
  fs.writeFileSync(join(environment, STAMP), "");
}

/**
 * Removes environments of other versions, and those of this version that were not used for a month. `used` stays. One that
 * cannot be removed, because a program in it still runs, is tried again at the next start.
 */
export async function removeOldEnvironments(
  folder: string,
  version: string,
  used: string,
  now = Date.now(),
): Promise<string[]> {
  const removed: string[] = [];
  for (const name of fs.existsSync(folder) ? fs.readdirSync(folder) : []) {
    const environment = join(folder, name);
    if (!name.startsWith(PREFIX) || environment === used) continue;
    const current = name === PREFIX + version || name.startsWith(`${PREFIX}${version}-`);
    if (current && now - lastUse(environment) < UNUSED) continue;
    try {
      // The stamp goes first: what is left of a removal that fails is not taken for an environment.
      await rm(join(environment, STAMP), { force: true });
      await rm(environment, { recursive: true, force: true, maxRetries: 2 });
      removed.push(name);
    } catch {
      // Next time.
    }
  }
  return removed;
}

/** When it was used last; one without a stamp is being made, or was given up when its folder was last changed. */
function lastUse(environment: string): number {
  try {
    return fs.statSync(isComplete(environment) ? join(environment, STAMP) : environment).mtimeMs;
  } catch {
    return 0;
  }
}
