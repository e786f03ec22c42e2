// What runs inside VS Code's extension host: the suite that this window is for, test by test. Results go to a file;
// a failing test makes the runner fail.

import * as fs from "node:fs";
import * as path from "node:path";
import { suites } from "./suites.ts";
import { eye, job } from "./tools.ts";

const LIMIT = 180_000;

export async function run(): Promise<void> {
  const suite = await eye<string>("suite");
  const results: { name: string; error?: string; milliseconds: number }[] = [];
  for (const [name, test] of Object.entries(suites[suite] ?? {})) {
    const began = Date.now();
    const error = await limited(test).then(
      () => undefined,
      (thrown: unknown) => (thrown instanceof Error ? `${thrown.message}\n${thrown.stack ?? ""}` : String(thrown)),
    );
    results.push({ name, milliseconds: Date.now() - began, ...(error === undefined ? {} : { error }) });
    if (error !== undefined) await eye("shot", `failed-${suite}-${results.length}`).catch(() => undefined);
    fs.writeFileSync(path.join(job().folder, `${suite}.json`), JSON.stringify(results, undefined, 2));
  }
  const failed = results.filter(({ error }) => error !== undefined);
  if (failed.length || !results.length) throw new Error(`${failed.length} of ${results.length} failed`);
}

function limited(test: () => Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no end within ${LIMIT / 1000} s`)), LIMIT);
    test()
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}
