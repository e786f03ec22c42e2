// Starts a gateway by a plan: a process of its own that outlives this window, its output in a file, its key in a variable
// that no command line shows. Gives its address once it listens.

import { execFile, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { homedir } from "node:os";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { Failure } from "../errors.ts";
import type { Running, SharedFiles } from "./files.ts";
import { type Interpreter, interpreters, type System, uvs } from "./places.ts";
import { type Bundle, type Means, type Plan, PROBE, type Probe, readProbe } from "./plan.ts";

const run = promisify(execFile);
export const KEY = "PENSTOCK_GATEWAY_KEY";
const PROBED = 10_000;
const PREPARED = 4 * 60_000;
const LISTENS = 90_000; // uvx may have to make its environment first
const LOOK = 100;
const ADDRESS = /https?:\/\/(?:127\.0\.0\.1|\[::1\]|localhost):\d+/;
const PID = /penstock-vscode: pid (\d+)/;

export const here = (): System => ({ platform: process.platform, env: process.env, home: homedir() });

/** `from` is the folder to run it in: Python imports what lies there, and the editor's own may be anybody's. */
async function probe(interpreter: Interpreter, from: string): Promise<Probe | undefined> {
  try {
    const words = [...interpreter.args, "-c", PROBE];
    const { stdout } = await run(interpreter.command, words, { timeout: PROBED, cwd: from });
    return readProbe(interpreter, stdout);
  } catch {
    return undefined;
  }
}

async function works(command: string, from: string): Promise<boolean> {
  try {
    await run(command, ["--version"], { timeout: PROBED, cwd: from });
    return true;
  } catch {
    return false;
  }
}

/** What this machine has to start a gateway with. Stops at the first interpreter that has all of it. */
export async function means(
  asked: Parameters<typeof interpreters>[1],
  bundle: Bundle,
  made: boolean,
  system = here(),
): Promise<Means> {
  const probes: Probe[] = [];
  const from = dirname(bundle.launcher);
  for (const one of interpreters(system, asked)) {
    const found = await probe(one, from);
    if (found) probes.push(found);
    if (found?.penstock && found.penstock === bundle.version) return { probes, uv: undefined, made };
  }
  for (const uv of made ? [] : uvs(system)) if (await works(uv, from)) return { probes, uv, made };
  return { probes, uv: undefined, made };
}

export interface Launch {
  readonly files: SharedFiles;
  readonly version: string;
  readonly env: Readonly<Record<string, string>>;
  readonly args: readonly string[];
  readonly log: (line: string) => void;
}

export async function launch(plan: Plan, { files, version, env, args, log }: Launch): Promise<Running> {
  for (const { command, args: words } of plan.prepare) {
    log(`running ${command} ${words.join(" ")}`);
    await run(command, [...words], { timeout: PREPARED, cwd: files.folder }).catch(
      (error: Error & { stderr?: string }) => {
        throw new Failure(
          `The gateway's environment could not be made: ${lastLine(error.stderr) || error.message}; see the log.`,
        );
      },
    );
  }
  const key = randomBytes(32).toString("base64url");
  const words = [...plan.run.args, files.leases, "--host", "127.0.0.1", "--port", "0", ...args];
  log(`starting ${plan.run.command} ${words.join(" ")}`);
  const from = rotate(files.log);
  const out = fs.openSync(files.log, "a", 0o600);
  const child = spawn(plan.run.command, words, {
    cwd: files.folder,
    detached: true,
    windowsHide: true,
    stdio: ["ignore", out, out],
    env: { ...process.env, ...env, [KEY]: key, PYTHONUNBUFFERED: "1" },
  });
  fs.closeSync(out);
  child.unref();
  return await listening(child, files, from, { key, version });
}

type Child = ReturnType<typeof spawn>;

/** Wait until the log says where it listens. The process may end before, or never get so far: both are said. */
async function listening(
  child: Child,
  files: SharedFiles,
  from: number,
  rest: { key: string; version: string },
): Promise<Running> {
  let ended: string | undefined;
  child.once("error", (error) => {
    ended = error.message;
  });
  child.once("exit", (code, signal) => {
    ended ??= `it ended with ${signal ?? code}`;
  });
  const until = Date.now() + LISTENS;
  while (Date.now() < until) {
    const text = fs.readFileSync(files.log).subarray(from).toString("utf8");
    const url = ADDRESS.exec(text)?.[0];
    if (url) return { url, pid: Number(PID.exec(text)?.[1] ?? child.pid), ...rest };
    if (ended) throw new Failure(`The gateway did not start: ${lastLine(text) || ended}; see the log.`);
    await new Promise((wake) => setTimeout(wake, LOOK));
  }
  kill(child.pid ?? 0);
  throw new Failure(`The gateway did not say within ${LISTENS / 1000} seconds where it listens; see the log.`);
}

const lastLine = (text: string | undefined): string => text?.trim().split("\n").at(-1)?.slice(0, 300) ?? "";

/** A log that has grown large begins anew. Gives where new lines begin. */
function rotate(path: string, most = 2 * 1024 * 1024): number {
  try {
    const { size } = fs.statSync(path);
    if (size <= most) return size;
    fs.renameSync(path, `${path}.1`);
  } catch {
    // There is none yet.
  }
  return 0;
}

/** Tell a gateway to stop. Its number may be another process's by now (a reboot, a long time): that one is left alone. */
export function kill(pid: number): void {
  if (pid <= 1 || !ours(pid)) return;
  try {
    process.kill(pid, "SIGTERM");
  } catch {
    // It is gone already.
  }
}

/** Whether a process is there, and one of ours. */
export function ours(pid: number): boolean {
  const windows = process.platform === "win32";
  const [command, args] = windows
    ? ["tasklist", ["/FI", `PID eq ${pid}`, "/FO", "CSV", "/NH"]]
    : ["ps", ["-ww", "-p", String(pid), "-o", "command="]];
  try {
    const said = execFileSync(command, args, { encoding: "utf8", timeout: PROBED, stdio: "pipe" });
    return windows ? /python|uv/i.test(said) : said.includes("launch.py");
  } catch {
    return false;
  }
}
