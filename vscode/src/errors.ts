// What went wrong, in one sentence: who, what, what to do, and the request's id. No stack is ever shown for these.

import { BUDGET_CODE } from "./extras/budget.ts";
import type { ErrorLine } from "./wire.ts";

interface Fault {
  readonly what: string;
  readonly fix: string;
  /** Whether the very same request would fail again at once. */
  readonly lasting: boolean;
  /** The word of LanguageModelError for other extensions. */
  readonly code?: "NoPermissions" | "NotFound" | "Blocked";
}

const AGAIN = "try again in a minute or pick another model";
const FAULTS: Readonly<Record<string, Fault>> = {
  auth: {
    what: "refused the key",
    fix: "run “Penstock: Add Provider” and enter a valid key, or put one into the configuration of a gateway of your own",
    lasting: true,
    code: "NoPermissions",
  },
  permission: {
    what: "does not allow this",
    fix: "ask for access or pick another model",
    lasting: true,
    code: "NoPermissions",
  },
  quota: {
    what: "has no credit left on this account, or its spending limit is reached",
    fix: "add credit at the provider or pick another model",
    lasting: true,
    code: "NoPermissions",
  },
  "not-found": { what: "does not have this model", fix: "pick another model", lasting: true, code: "NotFound" },
  invalid: { what: "did not accept the request", fix: "start a new chat or pick another model", lasting: true },
  "too-large": {
    what: "cannot take a prompt this long",
    fix: "start a new chat, attach less or pick a model with a larger window",
    lasting: true,
  },
  "rate-limit": { what: "is at its rate limit", fix: AGAIN, lasting: false },
  overloaded: { what: "is overloaded", fix: AGAIN, lasting: false },
  server: { what: "failed", fix: AGAIN, lasting: false },
  timeout: { what: "took too long", fix: AGAIN, lasting: false },
  network: { what: "could not be reached", fix: "check the network, then try again", lasting: false },
  cancelled: { what: "was cancelled", fix: "ask again", lasting: false },
  filter: {
    what: "stopped the answer with its content filter",
    fix: "say it in other words",
    lasting: true,
    code: "Blocked",
  },
  truncated: { what: "broke off before the end of its answer", fix: "try again", lasting: false },
  malformed: { what: "sent something unreadable", fix: "try again or pick another model", lasting: false },
  grammar: { what: "sent an answer that makes no sense", fix: "try again or pick another model", lasting: false },
};
// The same of a gateway, where another word fits better: what is wrong is then wrong with the settings here.
const OF_GATEWAY: Readonly<Record<string, Partial<Fault>>> = {
  auth: { fix: "run “Penstock: Set Key of the Gateway”" },
  permission: { fix: "ask the person who runs it for a key that may" },
  "not-found": { what: "is not at this address", fix: "check penstock.gateway.url" },
};
/** Who reports an error that does not come from a provider. */
export const GATEWAY = "The gateway";
const OTHER: Fault = { what: "failed", fix: "try again or pick another model", lasting: false };
const LONG = 300;
const TOO_MANY_BYTES = 413; // the body was too large, whatever it counts in tokens

/** A failure that a person is to read. */
export class Failure extends Error {
  override readonly name = "Penstock";
  readonly lasting: boolean;
  readonly fault: string;
  readonly code: string | undefined;

  constructor(message: string, fault = "other") {
    super(message);
    const row = FAULTS[fault] ?? OTHER;
    this.fault = fault;
    this.lasting = row.lasting;
    this.code = row.code;
    this.stack = "";
  }
}

/** The person's own budget is used up: no provider has refused anything. */
function budgetFailure({ message }: ErrorLine): Failure {
  const what = short(message.split("): ")[0] ?? "").replace(/[^)]$/, "$&)");
  const fix = "run “Penstock: Lift Today's Budget”, raise penstock.gateway.dailyBudget, or wait until midnight";
  return new Failure(`${what.charAt(0).toUpperCase()}${what.slice(1)}: ${fix}.`, "budget");
}

/** The failure that an error line tells of. `promptSize`: the size of its prompt, which is told if it was too long. */
export function failureOf(line: ErrorLine, provider: string, promptSize?: () => string): Failure {
  if (line.code === BUDGET_CODE) return budgetFailure(line);
  const size = line.fault === "too-large" && line.status !== TOO_MANY_BYTES ? promptSize?.() : undefined;
  return new Failure(sentence(line, provider, size), line.fault);
}

export function sentence(line: ErrorLine, provider: string, promptSize?: string): string {
  const row = { ...(FAULTS[line.fault] ?? OTHER), ...(provider === GATEWAY ? OF_GATEWAY[line.fault] : undefined) };
  const told = [line.status, short(line.message)].filter(Boolean).join(": ");
  const fix = line.retryAfter && !row.lasting ? `try again in ${Math.ceil(line.retryAfter)} seconds` : row.fix;
  const id = line.requestId ? ` (request ${line.requestId})` : "";
  const who = provider ? provider.charAt(0).toUpperCase() + provider.slice(1) : "The provider";
  const counted = promptSize ? `; penstock counted ${promptSize}` : "";
  return `${who} ${row.what}${told ? ` (${told})` : ""}${counted}: ${fix}${id}.`;
}

/** One line of what somebody else said, without the full stop that our own sentence brings. */
function short(text: string): string {
  const line = text.replace(/\s+/g, " ").trim().replace(/\.$/, "");
  return line.length > LONG ? `${line.slice(0, LONG)}…` : line;
}

/** What an unknown value thrown somewhere says, in one line. */
export function said(error: unknown): string {
  return short(error instanceof Error ? error.message : String(error));
}
