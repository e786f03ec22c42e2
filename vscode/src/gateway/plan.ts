// How a gateway is started: which of the ways there are on this machine. Decides; does nothing.

import { fileUrl, type Interpreter, pythonIn, SETTING, type System } from "./places.ts";

/** What an interpreter told about itself. */
export interface Probe {
  readonly interpreter: Interpreter;
  readonly version: readonly [number, number];
  /** The version of penstock that it has, with all that a server needs; empty: none. */
  readonly penstock: string;
  /** Whether it can make environments. */
  readonly venv: boolean;
}

export interface Bundle {
  /** The wheel that travels with the extension. */
  readonly wheel: string;
  readonly version: string;
  /** The packages that it needs, pinned by hash. */
  readonly lock: string;
  readonly launcher: string;
  /** The self-contained gateway, in a package for one platform: it needs no Python and no network. */
  readonly executable?: string;
}

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  /** What it does, in words for a person who waits. */
  readonly step?: string;
}

export interface Plan {
  readonly how: string;
  /** What has to be run once before; none if the environment is there. */
  readonly prepare: readonly Command[];
  readonly run: Command;
}

export const OLDEST: readonly [number, number] = [3, 11];
export const PROBE = [
  "import json,sys",
  "p=''",
  "try:",
  " import uvicorn,penstock.gateway;p=penstock.__version__",
  "except Exception: pass",
  "try:",
  " import venv,ensurepip;v=True",
  "except Exception: v=False",
  "print(json.dumps([list(sys.version_info[:2]),p,v]))",
].join("\n");

export function readProbe(interpreter: Interpreter, text: string): Probe | undefined {
  try {
    const [version, penstock, venv] = JSON.parse(text.trim().split("\n").at(-1) ?? "") as [
      [number, number],
      string,
      boolean,
    ];
    return { interpreter, version, penstock, venv };
  } catch {
    return undefined;
  }
}

const recent = ({ version: [major, minor] }: Probe) => major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);

/** The interpreter of the settings, if it will do. */
export const wished = (probes: readonly Probe[]): Interpreter | undefined =>
  probes.find((probe) => probe.interpreter.from === SETTING && recent(probe))?.interpreter;

export interface Means {
  readonly probes: readonly Probe[];
  readonly uv: string | undefined;
  /** An environment that an earlier start made for this very version. */
  readonly made: boolean;
}

/** What the launcher is called inside the self-contained gateway. */
export const LAUNCH = "vscode-launch";

/** The self-contained gateway comes first, unless somebody chose an interpreter. */
export function bundledPlan({ executable }: Bundle, python: string): Plan | undefined {
  if (!executable || python) return undefined;
  return {
    how: `the extension's own gateway (${executable})`,
    prepare: [],
    run: { command: executable, args: [LAUNCH] },
  };
}

/** The way to start with what the machine has; undefined where there is none. */
export function plan(means: Means, bundle: Bundle, home: string, system: System): Plan | undefined {
  const own = pythonIn(home, system);
  const { launcher } = bundle;
  const ready = means.probes.find(({ penstock }) => penstock && penstock === bundle.version);
  if (ready) {
    const { command, args, from } = ready.interpreter;
    return { how: `${command} (${from})`, prepare: [], run: { command, args: [...args, launcher] } };
  }
  if (means.made) return { how: own, prepare: [], run: { command: own, args: [launcher] } };
  if (means.uv) {
    const python = wished(means.probes)?.command ?? ">=3.11";
    const args = [...uvx(bundle, python, system), "python", launcher];
    const step = "Installing packages and starting…";
    return { how: `uvx (Python ${python})`, prepare: [], run: { command: means.uv, args, step } };
  }
  const able = means.probes.find((probe) => recent(probe) && probe.venv);
  if (!able) return undefined;
  const { command, args, from } = able.interpreter;
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"];
  return {
    how: `an environment made with ${command} (${from})`,
    prepare: [
      { command, args: [...args, "-m", "venv", "--clear", home], step: "Preparing the Python environment…" },
      { command: own, args: [...pip, "--require-hashes", "-r", bundle.lock], step: "Installing packages…" },
      { command: own, args: [...pip, "--no-deps", bundle.wheel], step: "Installing the gateway…" },
    ],
    run: { command: own, args: [launcher] },
  };
}

/** uv with the wheel that travels with the extension, never a name from an index; what it needs is held by the lock. */
function uvx(bundle: Bundle, python: string, system: System): string[] {
  const from = `penstock[serve] @ ${fileUrl(bundle.wheel, system)}`;
  return ["tool", "run", "--python", python, "--from", from, "--constraints", bundle.lock];
}

/** Why there is no plan, and what to do, in one sentence. */
export function whyNot(probes: readonly Probe[]): string {
  const newest = probes.toSorted((a, b) => b.version[0] - a.version[0] || b.version[1] - a.version[1])[0];
  const seen = newest ? `the newest Python found is ${newest.version.join(".")}` : "no Python was found";
  const lame = newest && recent(newest) ? `Python ${newest.version.join(".")} has no venv module` : seen;
  return `The gateway cannot be started: ${lame}; install Python 3.11 or newer, or uv, or set penstock.gateway.url.`;
}
