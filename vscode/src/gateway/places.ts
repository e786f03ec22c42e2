// Where things are on each system: interpreters, uv, the environment of our own. Plain values in and out, so that the
// paths of Windows and macOS are tested on Linux.

import { posix, win32 } from "node:path";

export interface System {
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
}

export interface Interpreter {
  readonly command: string;
  readonly args: readonly string[];
  /** Where it was found, for a person. */
  readonly from: string;
}

/** Where an interpreter comes from that somebody asked for. */
export const SETTING = "the setting penstock.python";

const windows = (system: System) => system.platform === "win32";
export const pathOf = (system: System) => (windows(system) ? win32 : posix);

/** The interpreter in an environment. */
export function pythonIn(folder: string, system: System): string {
  const { join } = pathOf(system);
  return windows(system) ? join(folder, "Scripts", "python.exe") : join(folder, "bin", "python");
}

/** The self-contained gateway in a folder. */
export function executableIn(folder: string, system: System): string {
  return pathOf(system).join(folder, windows(system) ? "penstock.exe" : "penstock");
}

/**
 * Interpreters in the order in which they are tried. The workspace's own come only from a trusted workspace: a folder that
 * was merely opened must not choose what is run.
 */
export function interpreters(
  system: System,
  asked: { setting?: string; active?: string; folders?: readonly string[]; trusted: boolean },
): Interpreter[] {
  const { join } = pathOf(system);
  const found: Interpreter[] = [];
  const add = (from: string, command: string | undefined, ...args: string[]) => {
    if (command && !found.some((one) => one.command === command)) found.push({ command, args, from });
  };
  add(SETTING, expanded(asked.setting ?? "", system));
  if (asked.trusted) {
    add("the Python extension", asked.active);
    for (const folder of asked.folders ?? []) {
      for (const name of [".venv", "venv"]) add("the workspace", pythonIn(join(folder, name), system));
    }
  }
  for (const [command, ...args] of SYSTEM[system.platform] ?? SYSTEM.linux ?? []) add("the system", command, ...args);
  return found;
}

// Where `python3` is the system's old one, a newer one stands beside it under its own name.
const NEWER: readonly (readonly [string])[] = [["python3.14"], ["python3.13"], ["python3.12"], ["python3.11"]];

// A desktop program on macOS has no PATH of a shell, so Homebrew's and python.org's places are named.
const SYSTEM: Partial<Record<NodeJS.Platform, readonly (readonly [string, ...string[]])[]>> = {
  win32: [["py", "-3"], ["python"], ["python3"]],
  darwin: [
    ["python3"],
    ["/opt/homebrew/bin/python3"],
    ["/usr/local/bin/python3"],
    ["/Library/Frameworks/Python.framework/Versions/Current/bin/python3"],
    ...NEWER,
  ],
  linux: [["python3"], ["python"], ...NEWER],
};

/** Places of uv, in order. */
export function uvs(system: System): string[] {
  const { join } = pathOf(system);
  const name = windows(system) ? "uv.exe" : "uv";
  const places = [name, join(system.home, ".local", "bin", name), join(system.home, ".cargo", "bin", name)];
  return system.platform === "darwin" ? [...places, "/opt/homebrew/bin/uv", "/usr/local/bin/uv"] : places;
}

/** `~` and `${env:NAME}` as people write them in settings. */
export function expanded(path: string, system: System): string {
  const filled = path.replace(/\$\{env:([^{}]+)\}/g, (_, name: string) => system.env[name] ?? "");
  return /^~(?=[/\\]|$)/.test(filled) ? pathOf(system).join(system.home, filled.slice(1)) : filled;
}

/** A path as a file address that pip and uv take. */
export function fileUrl(path: string, system: System): string {
  const plain = windows(system) ? `/${path.replaceAll("\\", "/")}` : path;
  return `file://${plain.split("/").map(encodeURIComponent).join("/").replace("%3A", ":")}`;
}
