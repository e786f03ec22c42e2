// Builds the page into the Python package. One script and one style sheet, so that a turn can be saved as one HTML
// file; nothing inline, because the gateway's content security policy allows none.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/inspector/",
  clearScreen: false,
  logLevel: "warn",
  build: {
    outDir: "../src/penstock/_inspector/static",
    emptyOutDir: true,
    assetsDir: "assets",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    sourcemap: false,
    target: "es2022",
    rolldownOptions: { output: { codeSplitting: false } },
  },
});
