// A gateway of our own: what travels with the extension, what the workspace offers, put together into a start.

import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import * as vscode from "vscode";
import { Failure } from "./errors.ts";
import type { Running, SharedFiles } from "./gateway/files.ts";
import { here, launch, means } from "./gateway/launch.ts";
import { expanded, pythonIn } from "./gateway/places.ts";
import { type Bundle, plan, whyNot, wished } from "./gateway/plan.ts";
import type { Settings } from "./settings.ts";

export async function startOwn(
  bundle: Bundle,
  files: SharedFiles,
  settings: Settings,
  log: (line: string) => void,
): Promise<Running> {
  const system = here();
  const home = join(files.folder, ["environment", bundle.version, ...mark(settings.python)].join("-"));
  const stamp = join(home, "complete");
  const made = fs.existsSync(stamp) && fs.existsSync(pythonIn(home, system));
  const { isTrusted: trusted, workspaceFolders } = vscode.workspace;
  const active = trusted ? await activePython() : undefined;
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
  const config = expanded(settings.config, system);
  const running = await launch(chosen, {
    files,
    version: bundle.version,
    env: config ? { PENSTOCK_CONFIG: config } : {},
    args: settings.arguments,
    log,
  });
  if (chosen.prepare.length) fs.writeFileSync(stamp, "");
  return running;
}

/** An environment made for another interpreter is another environment. */
const mark = (python: string): string[] =>
  python ? [createHash("sha256").update(python).digest("hex").slice(0, 8)] : [];

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
