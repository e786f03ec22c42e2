// Bundles the extension into dist/extension.cjs, and with --tests the tests that run inside VS Code.
import { build } from "esbuild";

const common = {
  bundle: true,
  platform: "node",
  target: "node22",
  format: "cjs",
  external: ["vscode"],
  logLevel: "warning",
};
await build({
  ...common,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.cjs",
  minify: true,
  legalComments: "none",
});
if (process.argv.includes("--tests")) {
  await build({
    ...common,
    entryPoints: ["../tests/surfaces/vscode/host/index.ts"],
    outfile: "dist-tests/index.cjs",
    sourcemap: "inline",
  });
}
