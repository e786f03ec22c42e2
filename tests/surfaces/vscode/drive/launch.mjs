// Starts a gateway by one of the extension's own plans, asks it, and stops it: node launch.mjs WAY FOLDER PYTHON UV
// WAY is uvx or venv. Prints how it was started and what its first model is called.
import * as path from "node:path";
import { bundleIn } from "../../../../vscode/src/gateway/bundle.ts";
import { Client } from "../../../../vscode/src/gateway/client.ts";
import { SharedFiles } from "../../../../vscode/src/gateway/files.ts";
import { launch } from "../../../../vscode/src/gateway/launch.ts";
import { plan } from "../../../../vscode/src/gateway/plan.ts";
import { here, stopGateway } from "../../../../vscode/src/gateway/processes.ts";

const [way, folder, python, uv] = process.argv.slice(2);
const bundle = bundleIn(path.resolve(import.meta.dirname, "../../../../vscode"));
const interpreter = { command: python, args: [], from: "the test" };
const probes = [{ interpreter, version: [3, 11], penstock: "", venv: true }];
const means = { probes, uv: way === "uvx" ? uv : undefined, made: false };
const chosen = plan(means, bundle, path.join(folder, "environment"), here());
const files = new SharedFiles(folder);
files.touch();
const running = await launch(chosen, { files, version: bundle.version, env: {}, args: [], log: () => {} });
try {
  const [first] = await new Client(running).models();
  console.log(JSON.stringify({ how: chosen.how, model: first?.id, healthy: await new Client(running).healthy() }));
} finally {
  await stopGateway(running, files.leases);
  files.release();
}
process.exit(0);
