// What travels in the extension's folder to start a gateway with.

import * as fs from "node:fs";
import { join } from "node:path";
import { executableIn } from "./places.ts";
import type { Bundle } from "./plan.ts";
import { here } from "./processes.ts";

const WHEEL = /^penstock-([^-]+)-.*\.whl$/;

/**
 * The wheel, its lock and the launcher; in a package for one platform also the self-contained gateway. Without a wheel the
 * version is empty, and no interpreter has that.
 */
export function bundleIn(extension: string, system = here()): Bundle {
  const folder = join(extension, "bundle");
  const wheel = fs.existsSync(folder) ? fs.readdirSync(folder).find((name) => WHEEL.test(name)) : undefined;
  const executable = executableIn(join(folder, "gateway"), system);
  return {
    ...(fs.existsSync(executable) && { executable }),
    wheel: join(folder, wheel ?? ""),
    version: WHEEL.exec(wheel ?? "")?.[1] ?? "",
    lock: join(folder, "runtime.lock"),
    launcher: join(extension, "media", "launch.py"),
  };
}
