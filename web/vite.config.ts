// Builds the page into the Python package. One script and one style sheet, so that a turn can be saved as one HTML
// file, and the JSON editor as a second script that is loaded on demand; nothing inline, because the gateway's content
// security policy allows none.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** Writes each asset compressed beside it, once: the gateway sends the form that a browser accepts. */
function compressAssets(): Plugin {
  return {
    name: "compress-assets",
    apply: "build",
    writeBundle({ dir = "" }) {
      const folder = join(dir, "assets");
      for (const name of readdirSync(folder).filter((file) => /\.(?:js|css|svg)$/.test(file))) {
        const data = readFileSync(join(folder, name));
        const forms = {
          gz: gzipSync(data, { level: 9 }),
          br: brotliCompressSync(data, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
        };
        for (const [suffix, packed] of Object.entries(forms)) {
          if (packed.length < data.length) writeFileSync(join(folder, `${name}.${suffix}`), packed);
        }
      }
    },
  };
}

export default defineConfig({
  base: "/inspector/",
  clearScreen: false,
  logLevel: "warn",
  plugins: [compressAssets()],
  build: {
    outDir: "../src/penstock/_inspector/static",
    emptyOutDir: true,
    assetsDir: "assets",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    // The licences of the packages that are bundled: they travel in every package of penstock.
    license: { fileName: "licenses.md" },
    sourcemap: false,
    target: "es2022",
  },
});
