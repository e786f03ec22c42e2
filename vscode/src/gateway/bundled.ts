// Starts the self-contained gateway that a package for one platform carries.

import * as fs from "node:fs";
import type { Running } from "./files.ts";
import { type Launch, launch, NotRunnable } from "./launch.ts";
import { type Bundle, bundledPlan } from "./plan.ts";

/**
 * Gives undefined if there is none, if an interpreter is set, or if this machine cannot run it: then another way may do. A
 * gateway that runs and does not want to start, because of its configuration, would not start another way either.
 */
export async function startBundled(bundle: Bundle, python: string, options: Launch): Promise<Running | undefined> {
  const chosen = bundledPlan(bundle, python);
  if (!chosen) return undefined;
  options.log(`the gateway is started with ${chosen.how}`);
  makeExecutable(chosen.run.command);
  try {
    return await launch(chosen, options);
  } catch (error) {
    if (!(error instanceof NotRunnable)) throw error;
    options.log(`${error.message} A Python of this machine is looked for instead.`);
    return undefined;
  }
}

/** A package that was unpacked by hand, or copied over a network drive, may have lost this. */
function makeExecutable(path: string): void {
  try {
    fs.accessSync(path, fs.constants.X_OK);
  } catch {
    try {
      fs.chmodSync(path, 0o755);
    } catch {
      // Then the start says why it cannot be run.
    }
  }
}
