// Figures and outcomes in plain words. Pure.
import type { Fault, Tokens } from "./parts.ts";

const FINISHES: Record<string, string> = {
  stop: "Finished",
  length: "Cut short: the limit of tokens was reached",
  calls: "Stopped to get the results of its calls",
  filter: "Stopped by a content filter",
  refusal: "Declined to answer",
  pause: "Paused: the client must resume it",
  other: "Ended",
};

/** Who made an error; "" if that is not known. "unsent": the gateway could not send the request to the provider. */
export type Party = "" | "gateway" | "provider" | "unsent";

type Words = Record<string, string>;

/** Whoever made it. */
const FAULTS: Words = {
  auth: "The key was not accepted",
  permission: "This was not permitted",
  quota: "There is no credit left",
  "not-found": "The model or address is not known",
  invalid: "The request was not accepted",
  "too-large": "The request is too large",
  "rate-limit": "A rate limit was reached",
  overloaded: "The server is overloaded",
  server: "The server failed",
  timeout: "It took too long",
  network: "The connection broke",
  cancelled: "The client left",
  filter: "A content filter stopped it",
  truncated: "The stream ended before the answer did",
  malformed: "What came could not be read",
  grammar: "What came was out of order",
  other: "Something went wrong",
};

const PROVIDER: Words = {
  auth: "The provider did not accept the key",
  permission: "The provider did not permit this",
  quota: "The account at the provider has no credit left",
  "not-found": "The provider does not know this model or address",
  invalid: "The provider did not accept the request",
  "too-large": "The request is too large for the provider",
  "rate-limit": "The provider's rate limit was reached",
  overloaded: "The provider is overloaded",
  server: "The provider failed",
};

const GATEWAY: Words = {
  auth: "The gateway did not accept the key",
  permission: "The gateway did not permit this",
  quota: "A budget of the gateway is used up",
  "not-found": "The gateway does not know this model or address",
  invalid: "The gateway did not accept the request",
  "too-large": "The request is too large for the gateway",
  "rate-limit": "A rate limit of the gateway was reached",
  overloaded: "The gateway is overloaded",
  server: "The gateway failed",
};

const UNSENT: Words = {
  auth: "The gateway has no key for the provider",
  invalid: "The gateway could not write this request for the provider",
};

const BY_PARTY: Record<Party, Words> = { "": {}, provider: PROVIDER, gateway: GATEWAY, unsent: UNSENT };

/** More exact words for codes of the gateway. A provider may use the same code for something else. */
const GATEWAY_CODES: Words = {
  "circuit-open": "No provider was asked: it has failed too often",
  "cool-down": "No provider was asked: all of them are set aside for a while",
  "no-operation": "The provider does not offer this operation",
  "shutting-down": "The gateway is shutting down",
  key_revoked: "The key of the gateway was revoked",
};

export function describeFinish(reason: string, raw: string): string {
  const words = FINISHES[reason] ?? "Ended";
  return reason === "other" && raw ? `${words}: ${raw}` : words;
}

/** What happened, and who says so: the gateway or a provider. */
export function describeFault(kind: string, by: Party = "", code = ""): string {
  const exact = by === "provider" ? "" : GATEWAY_CODES[code];
  return exact || BY_PARTY[by][kind] || FAULTS[kind] || "Something went wrong";
}

/** What else is known of a fault, behind its message. */
export function faultFacts(fault: Fault): string[] {
  const facts = [fault.kind];
  if (fault.status !== null) facts.push(`status ${fault.status}`);
  if (fault.code) facts.push(`code ${fault.code}`);
  if (fault.retryAfter !== null) facts.push(`try again in ${fault.retryAfter} s`);
  return facts;
}

export function count(value: number): string {
  return value.toLocaleString("en");
}

/** `1,204 in (1,000 cached) · 56 out (12 thinking)`; what is not known is left out. */
export function formatUsage(usage: Tokens): string {
  const inner = (facts: [number | null, string][]) => {
    const known = facts
      .filter(([value]) => value !== null && value > 0)
      .map(([value, word]) => `${count(value ?? 0)} ${word}`);
    return known.length > 0 ? ` (${known.join(", ")})` : "";
  };
  const sides = [
    usage.input === null
      ? ""
      : `${count(usage.input)} in${inner([
          [usage.cached, "cached"],
          [usage.written, "written to the cache"],
        ])}`,
    usage.output === null ? "" : `${count(usage.output)} out${inner([[usage.reasoning, "thinking"]])}`,
  ];
  const said = sides.filter((side) => side !== "").join(" · ");
  return said === "" ? "no figures" : `${usage.exact ? "" : "about "}${said}`;
}

export function size(characters: number): string {
  if (characters < 1000) return characters === 1 ? "1 character" : `${characters} characters`;
  return characters < 1_000_000
    ? `${Math.round(characters / 1000)} k characters`
    : `${(characters / 1_000_000).toFixed(1)} M characters`;
}
