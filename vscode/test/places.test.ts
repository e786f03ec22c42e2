import assert from "node:assert/strict";
import { test } from "node:test";
import {
  executableIn,
  expanded,
  fileUrl,
  interpreters,
  pythonIn,
  SETTING,
  type System,
  uvs,
} from "../src/gateway/places.ts";
import { type Bundle, bundledPlan, type Means, type Probe, plan, readProbe, whyNot } from "../src/gateway/plan.ts";

const linux: System = { platform: "linux", env: { ROOT: "/srv" }, home: "/home/ann" };
const mac: System = { platform: "darwin", env: {}, home: "/Users/ann" };
const windows: System = { platform: "win32", env: { TOOLS: "D:\\tools" }, home: "C:\\Users\\Ann Lee" };

const NEWER = ["python3.14", "python3.13", "python3.12", "python3.11"];

const commands = (system: System, asked: Parameters<typeof interpreters>[1]) =>
  interpreters(system, asked).map(({ command }) => command);

test("interpreters are found where each system keeps them", () => {
  assert.deepEqual(commands(linux, { trusted: true, setting: "~/py/bin/python", folders: ["/w"] }), [
    "/home/ann/py/bin/python",
    "/w/.venv/bin/python",
    "/w/venv/bin/python",
    "python3",
    "python",
    ...NEWER,
  ]);
  assert.deepEqual(commands(windows, { trusted: true, folders: ["D:\\w"], active: "D:\\envs\\a\\python.exe" }), [
    "D:\\envs\\a\\python.exe",
    "D:\\w\\.venv\\Scripts\\python.exe",
    "D:\\w\\venv\\Scripts\\python.exe",
    "py",
    "python",
    "python3",
  ]);
  assert.deepEqual(interpreters(windows, { trusted: false })[0]?.args, ["-3"]);
  assert.ok(commands(mac, { trusted: true }).includes("/opt/homebrew/bin/python3"));
});

test("a workspace that is not trusted chooses nothing", () => {
  assert.deepEqual(commands(linux, { trusted: false, folders: ["/evil"], active: "/evil/python" }), [
    "python3",
    "python",
    ...NEWER,
  ]);
});

test("uv is found without a shell's PATH", () => {
  assert.deepEqual(uvs(mac).slice(0, 2), ["uv", "/Users/ann/.local/bin/uv"]);
  assert.ok(uvs(mac).includes("/opt/homebrew/bin/uv"));
  assert.deepEqual(uvs(windows), [
    "uv.exe",
    "C:\\Users\\Ann Lee\\.local\\bin\\uv.exe",
    "C:\\Users\\Ann Lee\\.cargo\\bin\\uv.exe",
  ]);
});

test("paths as people write them", () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: VS Code's own spelling
  assert.equal(expanded("${env:ROOT}/py", linux), "/srv/py");
  assert.equal(expanded("~\\py.exe", windows), "C:\\Users\\Ann Lee\\py.exe");
  assert.equal(expanded("~ann/py", linux), "~ann/py");
  assert.equal(executableIn("C:\\x\\gateway", windows), "C:\\x\\gateway\\penstock.exe");
  assert.equal(executableIn("/x/gateway", mac), "/x/gateway/penstock");
  assert.equal(pythonIn("C:\\e", windows), "C:\\e\\Scripts\\python.exe");
  assert.equal(fileUrl("C:\\Users\\Ann Lee\\a.whl", windows), "file:///C:/Users/Ann%20Lee/a.whl");
  assert.equal(fileUrl("/home/ann/a.whl", linux), "file:///home/ann/a.whl");
  const deep = "/Users/ann/Library/Application Support/Code/User/globalStorage/a.whl";
  assert.equal(fileUrl(deep, mac), "file:///Users/ann/Library/Application%20Support/Code/User/globalStorage/a.whl");
});

const bundle: Bundle = {
  wheel: "/x/bundle/penstock-1.2.0-py3-none-any.whl",
  version: "1.2.0",
  lock: "/x/bundle/runtime.lock",
  launcher: "/x/media/launch.py",
};
const probe = (version: [number, number], penstock = "", venv = true): Probe => ({
  interpreter: { command: "python3", args: [], from: "the system" },
  version,
  penstock,
  venv,
});
const way = (means: Partial<Means>, system = linux) =>
  plan({ probes: [], uv: undefined, made: false, ...means }, bundle, "/state/env", system);

test("the gateway that travels along comes first, unless an interpreter is set", () => {
  assert.equal(bundledPlan(bundle, ""), undefined);
  const own = { ...bundle, executable: "/x/bundle/gateway/penstock" };
  const chosen = bundledPlan(own, "");
  assert.deepEqual(chosen?.run, { command: "/x/bundle/gateway/penstock", args: ["vscode-launch"] });
  assert.deepEqual(chosen?.prepare, []);
  assert.equal(bundledPlan(own, "/opt/py"), undefined);
});

test("an interpreter that has this very version is used as it is", () => {
  const made = way({ probes: [probe([3, 12], "1.1.0"), probe([3, 11], "1.2.0")], uv: "uv" });
  assert.deepEqual([made?.prepare, made?.run], [[], { command: "python3", args: ["/x/media/launch.py"] }]);
});

test("an extension without a wheel takes no interpreter for ready", () => {
  const made = plan(
    { probes: [probe([3, 12])], uv: undefined, made: false },
    { ...bundle, version: "" },
    "/state/env",
    linux,
  );
  assert.equal(made?.prepare.length, 3);
});

test("uv is given the wheel that came along and its lock, and no name from an index", () => {
  const made = way({ probes: [probe([3, 12])], uv: "uv" });
  assert.deepEqual(made?.run.args, [
    "tool", "run", "--python", ">=3.11", "--from", "penstock[serve] @ file:///x/bundle/penstock-1.2.0-py3-none-any.whl",
    "--constraints", "/x/bundle/runtime.lock", "python", "/x/media/launch.py",
  ]); // biome-ignore format: a command line
});

test("the Python of the settings is the one that uv uses, if it will do", () => {
  const asked = (version: [number, number]) => {
    const interpreter = { command: "/opt/py", args: [], from: SETTING };
    return way({ probes: [{ ...probe(version), interpreter }, probe([3, 12])], uv: "uv" })?.run.args[3];
  };
  assert.equal(interpreters(linux, { trusted: false, setting: "/opt/py" })[0]?.from, SETTING);
  assert.equal(asked([3, 13]), "/opt/py");
  assert.equal(asked([3, 9]), ">=3.11");
});

test("without uv an environment is made once, by hash", () => {
  const made = way({ probes: [probe([3, 9]), probe([3, 13])] });
  assert.equal(made?.prepare.length, 3);
  assert.ok(made?.prepare[1]?.args.includes("--require-hashes"));
  assert.deepEqual(made?.prepare[2]?.args.slice(-2), ["--no-deps", bundle.wheel]);
  assert.equal(made?.run.command, "/state/env/bin/python");
  assert.deepEqual(way({ probes: [probe([3, 13])], made: true })?.prepare, []);
  assert.match(way({ probes: [probe([3, 13])] }, windows)?.run.command ?? "", /Scripts\\python\.exe$/);
});

test("where there is no way, the reason says what to do", () => {
  assert.equal(way({ probes: [probe([3, 9])] }), undefined);
  assert.match(whyNot([]), /no Python was found; install Python 3\.11 or newer, or uv, or set penstock\.gateway\.url/);
  assert.match(whyNot([probe([3, 8]), probe([3, 10])]), /newest Python found is 3\.10/);
  assert.match(whyNot([probe([3, 12], "", false)]), /Python 3\.12 has no venv module/);
});

test("what an interpreter says about itself is read from its last line", () => {
  const { interpreter } = probe([3, 11]);
  assert.deepEqual(readProbe(interpreter, 'a warning\n[[3, 11], "1.2.0", true]\n'), probe([3, 11], "1.2.0"));
  assert.equal(readProbe(interpreter, "Python was not found"), undefined);
});
