// Which help fits a fault: each has one place where it is mended.

import { type Action, SHOW_LOG } from "./check.ts";

const SET_KEY: Action = { label: "Set Key", command: "penstock.setKey" };
const CHECK: Action = { label: "Check Set-up", command: "penstock.checkSetup" };
const CONFIGURATION: Action = { label: "Open Configuration", command: "penstock.openConfiguration" };
const STEP = { category: "penstock.penstock#setup", step: "penstock.penstock#setup#trouble" };
const HOW: Action = { label: "Show How", command: "workbench.action.openWalkthrough", args: [STEP, false] };

/** The buttons of a message about a fault. */
export function helpFor(fault: string, message: string): readonly Action[] {
  if (fault === "auth") return [SET_KEY, SHOW_LOG];
  if (/\.toml\b/.test(message)) return [CONFIGURATION, SHOW_LOG];
  if (/\bPython\b|\buv\b/.test(message)) return [HOW, SHOW_LOG];
  return [CHECK, SHOW_LOG];
}
