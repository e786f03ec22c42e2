// Starts a gateway by a plan: a process of its own that outlives this window, its output in a file, its key in a variable
// that no command line shows. Gives its address once it listens.

import { type ChildProcess, execFile, type SpawnOptions, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { Failure } from "../errors.ts";
import { downloadFailure } from "./downloads.ts";
import type { Running, SharedFiles } from "./files.ts";
import { type Interpreter, interpreters, uvs } from "./places.ts";
import { type Bundle, type Command, type Means, type Plan, PROBE, type Probe, readProbe } from "./plan.ts";
import { here, identify } from "./processes.ts";
import { Tail, watchFile } from "./tail.ts";

const run = promisify(execFile);
export const KEY = "PENSTOCK_GATEWAY_KEY";
const TAKES_KEYS = "PENSTOCK_EDITOR_KEYS"; // the gateway takes providers' keys from us
const PROBED = 10_000;
const PREPARED = 4 * 60_000;
const LISTENS = 90_000; // uvx may have to make its environment first
const LOOK = 250; // where the system does not report that the log has grown
const REPORT = 1024 * 1024; // of what a step of the preparation prints
const ADDRESS = /https?:\/\/(?:127\.0\.0\.1|\[::1\]|localhost):\d+/;
const PID = /penstock-vscode: pid (\d+)/;

/** The program could not be run at all: another way to start may do. */
export class NotRunnable extends Failure {}

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
  /** What is being done now, for a person who waits. */
  readonly step?: (text: string) => void;
}

export async function launch(plan: Plan, { files, version, env, args, log, step }: Launch): Promise<Running> {
  for (const command of plan.prepare) {
    if (command.step) step?.(command.step);
    await prepare(command, files.folder, log);
  }
  step?.(plan.run.step ?? "Starting…");
  const key = randomBytes(32).toString("base64url");
  const words = [...plan.run.args, files.leases, "--host", "127.0.0.1", "--port", "0", ...args];
  log(`starting ${plan.run.command} ${words.join(" ")}`);
  const from = rotate(files.log);
  const out = fs.openSync(files.log, "a", 0o600);
  const options: SpawnOptions = {
    cwd: files.folder,
    detached: true,
    windowsHide: true,
    stdio: ["ignore", out, out],
    env: { ...process.env, ...env, [KEY]: key, [TAKES_KEYS]: "1", PYTHONUNBUFFERED: "1" },
  };
  let child: ChildProcess;
  try {
    child = spawn(plan.run.command, words, options);
  } finally {
    fs.closeSync(out);
  }
  child.unref();
  const { url, pid } = await listening(child, files.log, from);
  const started = (await identify(pid))?.started;
  return { url, pid, key, version, ...(started !== undefined && { started }) };
}

/** One step of the preparation. All that it printed goes to the log; the message has its last line. */
async function prepare({ command, args }: Command, cwd: string, log: (line: string) => void): Promise<void> {
  log(`running ${command} ${args.join(" ")}`);
  try {
    await run(command, [...args], { timeout: PREPARED, cwd, maxBuffer: REPORT, windowsHide: true });
  } catch (error) {
    const { stdout = "", stderr = "", message, killed } = error as Error & Output;
    const output = `${stdout}\n${stderr}`.trim();
    log(output ? `it failed:\n${output}` : `it failed: ${message}`);
    const why = killed ? `it took longer than ${PREPARED / 60_000} minutes` : lastLine(stderr) || message;
    const failure = downloadFailure(output) ?? `The gateway's environment could not be made: ${why}`;
    throw new Failure(`${failure}; see the log.`);
  }
}

interface Output {
  readonly stdout?: string;
  readonly stderr?: string;
  readonly killed?: boolean;
}

/** Wait until the log says where it listens. The process may end before, or never get so far: both are said. */
function listening(child: ChildProcess, path: string, from: number): Promise<{ url: string; pid: number }> {
  return new Promise((resolve, reject) => {
    let [text, over] = ["", false];
    const tail = new Tail(
      path,
      (more) => {
        text += more;
      },
      from,
    );
    const look = () => {
      if (over) return;
      tail.look();
      const url = ADDRESS.exec(text)?.[0];
      if (url) finish(() => resolve({ url, pid: Number(PID.exec(text)?.[1] ?? child.pid) }));
    };
    const ended = (how: string) => {
      look();
      if (!over) finish(() => reject(notStarted(text, how)));
    };
    const finish = (act: () => void) => {
      over = true;
      clearTimeout(timer);
      // Not while it is being made: the first look is part of that.
      queueMicrotask(() => watching.dispose());
      act();
    };
    child.once("error", (error) => ended(error.message));
    child.once("exit", (code, signal) => ended(`it ended with ${signal ?? code}`));
    const timer = setTimeout(() => {
      child.kill();
      const late = `The gateway did not say within ${LISTENS / 1000} seconds where it listens; see the log.`;
      finish(() => reject(new Failure(late)));
    }, LISTENS);
    const watching = watchFile(path, look, LOOK);
  });
}

/** A launcher that could be run has told its number first. */
function notStarted(text: string, how: string): Failure {
  const why = `The gateway did not start: ${lastLine(text) || how}; see the log.`;
  if (PID.test(text)) return new Failure(why);
  const download = downloadFailure(text);
  return new NotRunnable(download ? `${download}; see the log.` : why);
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
