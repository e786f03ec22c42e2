// A gateway of our own: what travels with the extension, what the workspace offers, put together into a start.

import * as fs from "node:fs";
import { join } from "node:path";
import * as vscode from "vscode";
import { Failure } from "./errors.ts";
import { startBundled } from "./gateway/bundled.ts";
import { agentDefaults } from "./gateway/defaults.ts";
import { environmentName, isComplete, markUsed, removeOldEnvironments } from "./gateway/environments.ts";
import type { Running, SharedFiles } from "./gateway/files.ts";
import { type Launch, launch, means } from "./gateway/launch.ts";
import { expanded, pythonIn } from "./gateway/places.ts";
import { type Bundle, plan, whyNot, wished } from "./gateway/plan.ts";
import { here } from "./gateway/processes.ts";
import type { Settings } from "./settings.ts";

/** What a start tells: lines of the log, and what is done now in words for a person who waits. */
export interface Reports {
  readonly log: (line: string) => void;
  readonly step: (text: string) => void;
}

export async function startOwn(
  bundle: Bundle,
  files: SharedFiles,
  settings: Settings,
  reports: Reports,
): Promise<Running> {
  const config = expanded(settings.config, here());
  const options: Launch = {
    files,
    version: bundle.version,
    env: { ...(config && { PENSTOCK_CONFIG: config }), ...agentDefaults(settings) },
    args: settings.arguments,
    ...reports,
  };
  const bundled = await startBundled(bundle, settings.python, options);
  if (!bundled) return startWithPython(bundle, settings, options);
  cleanUp(bundle, options, "");
  return bundled;
}

async function startWithPython(bundle: Bundle, settings: Settings, options: Launch): Promise<Running> {
  const { files, log } = options;
  const system = here();
  const home = join(files.folder, environmentName(bundle.version, settings.python));
  const made = isComplete(home) && fs.existsSync(pythonIn(home, system));
  const { isTrusted: trusted, workspaceFolders } = vscode.workspace;
  const active = trusted ? await activePython() : undefined;
  options.step?.("Looking for Python…");
  const found = await means(
    {
      setting: settings.python,
      ...(active && { active }),
      folders: workspaceFolders?.map(({ uri }) => uri.fsPath) ?? [],
      trusted,
    },
    bundle,
    made,
    system,
  );
  if (settings.python && !wished(found.probes))
    log(`penstock.python (${settings.python}) is no Python 3.11 or newer: another one is looked for`);
  const chosen = plan(found, bundle, home, system);
  if (!chosen) throw new Failure(whyNot(found.probes));
  log(`the gateway is started with ${chosen.how}`);
  const running = await launch(chosen, options);
  const used = chosen.run.command === pythonIn(home, system);
  if (used) markUsed(home);
  cleanUp(bundle, options, used ? home : "");
  return running;
}

/** Nobody waits for it. */
function cleanUp(bundle: Bundle, { files, log }: Launch, used: string): void {
  void removeOldEnvironments(files.folder, bundle.version, used).then((removed) => {
    if (removed.length) log(`removed old environments: ${removed.join(", ")}`);
  });
}

interface PythonApi {
  readonly environments?: { getActiveEnvironmentPath(): { readonly path: string } };
}

/** The interpreter chosen in the Python extension, if that is there. */
async function activePython(): Promise<string | undefined> {
  try {
    const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
    return (extension?.isActive ? extension.exports : undefined)?.environments?.getActiveEnvironmentPath().path;
  } catch {
    return undefined;
  }
}
