// A real VS Code (code-server) with folders of its own, and the browser that shows it. Everything that is started here is
// stopped here, by process group.
import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const HERE = path.dirname(fileURLToPath(import.meta.url));
export const SERVER = path.join(HERE, "..", "node_modules", "code-server");
// The headless shell first: the same engine without windows, at half the cost.
const BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"].map(
  (name) => `/usr/bin/${name}`,
);
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const UP = 180_000;

const freePort = () =>
  new Promise((resolve, reject) => {
    const probe = net.createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

/**
 * Start the editor in a work folder. `settings` are the user's; `env` is added to that of the editor; `trust` switches
 * workspace trust on: every folder is untrusted then.
 */
export async function startCode(work, { settings = {}, env = {}, port, trust = false } = {}) {
  const folder = (...names) => {
    const made = path.join(work, ...names);
    fs.mkdirSync(made, { recursive: true });
    return made;
  };
  const data = folder("data");
  const extensions = folder("extensions");
  const workspace = folder("workspace");
  // What has the scope of a machine is read from that machine's own settings only.
  for (const name of ["User", "Machine"]) {
    fs.writeFileSync(path.join(folder("data", name), "settings.json"), JSON.stringify(settings, undefined, 2));
  }
  fs.writeFileSync(path.join(work, "empty.yaml"), "");
  const chosen = port ?? (await freePort());
  const home = folder("home");
  const log = fs.openSync(path.join(work, "code.log"), "a");
  const child = spawn(
    process.execPath,
    [
      SERVER,
      ...["--auth", "none", "--bind-addr", `127.0.0.1:${chosen}`, "--config", path.join(work, "empty.yaml")],
      ...["--user-data-dir", data, "--extensions-dir", extensions, "--disable-telemetry", "--disable-update-check"],
      ...(trust ? [] : ["--disable-workspace-trust"]),
      ...["--disable-getting-started-override", "--reconnection-grace-time", "3"],
      ...["--vscode-option", "enable-smoke-test-driver"],
    ],
    {
      detached: true,
      stdio: ["ignore", log, log],
      env: {
        ...process.env,
        HOME: home,
        XDG_CONFIG_HOME: path.join(home, "c"),
        XDG_DATA_HOME: path.join(home, "d"),
        ...env,
      },
    },
  );
  const stop = () => {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  };
  process.once("exit", stop);
  const host = `127.0.0.1:${chosen}`;
  await answering(`http://${host}/healthz`, stop);
  return { host, url: `http://${host}`, workspace, extensions, data, stop };
}

async function answering(url, stop) {
  const until = Date.now() + UP;
  while (Date.now() < until) {
    try {
      if ((await fetch(url)).ok) return;
    } catch {
      await new Promise((wake) => setTimeout(wake, 200));
    }
  }
  stop();
  throw new Error(`code-server did not answer within ${UP / 1000} s`);
}

export async function startBrowser() {
  const executablePath = BROWSERS.find((file) => fs.existsSync(file));
  if (!executablePath) throw new Error("Chromium is missing (Debian, Ubuntu: apt-get install chromium)");
  return chromium.launch({ executablePath, headless: true, args: FLAGS });
}
