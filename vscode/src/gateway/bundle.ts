// What travels in the extension's folder to start a gateway with.

import * as fs from "node:fs";
import { join } from "node:path";
import type { Bundle } from "./plan.ts";

const WHEEL = /^penstock-([^-]+)-.*\.whl$/;

/** The wheel, its lock and the launcher. Without a wheel the version is empty, and no interpreter has that. */
export function bundleIn(extension: string): Bundle {
  const folder = join(extension, "bundle");
  const wheel = fs.existsSync(folder) ? fs.readdirSync(folder).find((name) => WHEEL.test(name)) : undefined;
  return {
    wheel: join(folder, wheel ?? ""),
    version: WHEEL.exec(wheel ?? "")?.[1] ?? "",
    lock: join(folder, "serve.lock"),
    launcher: join(extension, "media", "launch.py"),
  };
}
