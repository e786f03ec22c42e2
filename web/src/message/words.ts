// Figures and outcomes in plain words. Pure.
import type { Fault, Tokens } from "./parts.ts";

const FINISHES: Record<string, string> = {
  stop: "Finished",
  length: "Cut short: the limit of tokens was reached",
  calls: "Waits for the results of its calls",
  filter: "Stopped by a content filter",
  refusal: "Declined to answer",
  pause: "Paused: the client must resume it",
  other: "Ended",
};

const FAULTS: Record<string, string> = {
  auth: "The provider did not accept the key",
  permission: "The provider did not permit this",
  quota: "The account at the provider has no credit left",
  "not-found": "The provider does not know this model or address",
  invalid: "The provider did not accept the request",
  "too-large": "The request is too large",
  "rate-limit": "The provider's rate limit was reached",
  overloaded: "The provider is overloaded",
  server: "The provider failed",
  timeout: "It took too long",
  network: "The connection broke",
  cancelled: "The client left",
  filter: "A content filter stopped it",
  truncated: "The stream ended before the answer did",
  malformed: "What came could not be read",
  grammar: "What came was out of order",
  other: "Something went wrong",
};

export function finishWords(reason: string, raw: string): string {
  const words = FINISHES[reason] ?? "Ended";
  return reason === "other" && raw ? `${words}: ${raw}` : words;
}

export function faultWords(kind: string): string {
  return FAULTS[kind] ?? "Something went wrong";
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
export function usageWords(usage: Tokens): string {
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
  if (characters < 1000) return `${characters} characters`;
  return characters < 1_000_000
    ? `${Math.round(characters / 1000)} k characters`
    : `${(characters / 1_000_000).toFixed(1)} M characters`;
}
