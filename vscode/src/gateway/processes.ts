// Which process a number belongs to: numbers are used again, so a process is identified by its start time and its command
// line. What the system is asked is a seam, so that Windows and macOS are tested on Linux.

import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import { homedir } from "node:os";
import { promisify } from "node:util";
import { pathOf, type System } from "./places.ts";

export interface ProcessIdentity {
  /** When it was started, in the system's own words: only compared. */
  readonly started: string;
  readonly command: string;
}

/** What is asked of the system. Both reject where there is no such process. */
export interface ProcessTools {
  readonly run: (command: string, args: readonly string[]) => Promise<string>;
  readonly read: (path: string) => Promise<string>;
}

const PATIENCE = 10_000;
export const here = (): System => ({ platform: process.platform, env: process.env, home: homedir() });

const TOOLS: ProcessTools = {
  run: async (command, args) => {
    // English dates, and lines that no narrow terminal cuts off.
    const env = { ...process.env, LC_ALL: "C", COLUMNS: "10000" };
    const { stdout } = await promisify(execFile)(command, [...args], { timeout: PATIENCE, windowsHide: true, env });
    return stdout;
  },
  read: (path) => fs.readFile(path, "utf8"),
};

/** Who a process is; undefined if there is none, or the system does not say. */
export async function identify(
  pid: number,
  system = here(),
  tools: ProcessTools = TOOLS,
): Promise<ProcessIdentity | undefined> {
  if (!Number.isInteger(pid) || pid <= 1) return undefined;
  try {
    if (system.platform === "linux") return await onLinux(pid, tools);
    return await (system.platform === "win32" ? onWindows(pid, system, tools) : onUnix(pid, tools));
  } catch {
    return undefined;
  }
}

// proc(5): the name in parentheses may hold blanks and parentheses; the start time is the 22nd field, the 20th after it.
async function onLinux(pid: number, { read }: ProcessTools): Promise<ProcessIdentity | undefined> {
  const [stat, words] = [await read(`/proc/${pid}/stat`), await read(`/proc/${pid}/cmdline`)];
  const started = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  return started ? { started, command: words.replaceAll("\0", " ").trim() } : undefined;
}

// `Tue Nov 17 12:13:18 2026  /path/to/program words`
const PS_LINE = /^\s*(\w+ +\w+ +\d+ +[\d:]+ +\d+) +(.*)/;

async function onUnix(pid: number, { run }: ProcessTools): Promise<ProcessIdentity | undefined> {
  const line = await run("/bin/ps", ["-ww", "-p", String(pid), "-o", "lstart=", "-o", "command="]);
  const [, started, command] = PS_LINE.exec(line.trim()) ?? [];
  return started && command ? { started, command } : undefined;
}

// By its full path: a program of that name in some other folder must not be run.
async function onWindows(pid: number, system: System, { run }: ProcessTools): Promise<ProcessIdentity | undefined> {
  const root = system.env.SystemRoot ?? "C:\\Windows";
  const shell = pathOf(system).join(root, "System32", "WindowsPowerShell", "v1.0", "powershell.exe");
  const script = [
    "[Console]::OutputEncoding = [Text.Encoding]::UTF8",
    `$found = Get-CimInstance Win32_Process -Filter 'ProcessId = ${pid}'`,
    "if ($found) { $found.CreationDate.ToUniversalTime().ToString('o'); $found.CommandLine }",
  ].join("; ");
  const [started, ...rest] = (await run(shell, ["-NoProfile", "-NonInteractive", "-Command", script])).split(/\r?\n/);
  const command = rest.join(" ").trim();
  return started?.trim() && command ? { started: started.trim(), command } : undefined;
}

/** What is known of a process that was started earlier. */
export interface Started {
  readonly pid: number;
  /** Absent in a file of an older version: then the command line alone decides. */
  readonly started?: string;
}

/** Whether a number still belongs to the gateway of these windows: their folder of leases is on its command line. */
export async function isGateway(
  { pid, started }: Started,
  leases: string,
  system = here(),
  tools: ProcessTools = TOOLS,
): Promise<boolean> {
  const found = await identify(pid, system, tools);
  if (!found?.command.includes(leases)) return false;
  return started === undefined || started === found.started;
}

/** Stops the gateway. A process that has got its number since is left alone. */
export async function stopGateway(
  running: Started,
  leases: string,
  system = here(),
  tools: ProcessTools = TOOLS,
  kill: (pid: number) => void = (pid) => process.kill(pid, "SIGTERM"),
): Promise<void> {
  if (!(await isGateway(running, leases, system, tools))) return;
  try {
    kill(running.pid);
  } catch {
    // It has ended meanwhile.
  }
}
