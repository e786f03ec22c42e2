// The session token of a gateway on this machine: it keeps other users of the machine from reading requests. A gateway
// without keys writes it to a file that only its owner can read.

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Address } from "./http.ts";

const FILE = "inspector-session";
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The token; "" where a key does instead, for a gateway elsewhere, or if there is none. */
export async function readSession({ url, key }: Address): Promise<string> {
  if (key || !LOOPBACK.test(new URL(url).hostname)) return "";
  try {
    return (await readFile(join(dataFolder(), FILE), "ascii")).trim();
  } catch {
    return "";
  }
}

/** Where penstock keeps its data. The same rule as in its `data_folder.py`. */
function dataFolder(env = process.env): string {
  if (env.PENSTOCK_DATA) return env.PENSTOCK_DATA.replace(/^~(?=$|[\\/])/, homedir());
  if (process.platform === "win32") return join(env.LOCALAPPDATA || join(homedir(), "AppData", "Local"), "penstock");
  if (process.platform === "darwin") return join(homedir(), "Library", "Application Support", "penstock");
  return join(env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "penstock");
}
