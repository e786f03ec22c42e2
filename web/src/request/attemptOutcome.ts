// What became of a try that has no HTTP status. Pure.
import type { Row } from "../api/types.ts";
import type { Attempt } from "./types.ts";

/** Why there is no HTTP request: the engine needs none, or the gateway has not sent it (yet). */
export function explainUnsent(attempt: Attempt): string {
  if (!needsHttp(attempt.engine)) return `The engine ${attempt.engine} sends no HTTP request.`;
  if (attempt.error) return "The gateway could not send it.";
  return isOver(attempt) ? "It was not sent." : "It has not been sent yet.";
}

/** Describes a turn without any try. */
export function describeUnsent(done: boolean, row: Pick<Row, "state" | "engine"> | null): string {
  if (!done) return "Nothing has been sent to a provider yet.";
  if (row?.state === "refused") return "Nothing was sent to a provider: the turn was refused before any try.";
  if (row?.engine === "cache") return "Nothing was sent to a provider: the response cache had the answer.";
  return "Nothing was sent to a provider.";
}

function needsHttp(engine: string): boolean {
  return engine === "" || engine === "native";
}

/** A try without an answer has an end once it has failed, or its turn has ended. */
function isOver({ error, timing }: Attempt): boolean {
  return Boolean(error) || timing.end != null;
}

/** The outcome of a try without an HTTP status. A try that waits for a token or for TLS is running, though not sent. */
export function describeNoStatus(attempt: Attempt): string {
  const { sent, engine, error } = attempt;
  if (!isOver(attempt)) return "running";
  if (needsHttp(engine) && !sent) return "not sent";
  if (error === "timeout") return "timed out";
  if (error) return needsHttp(engine) ? "no response" : "failed";
  return needsHttp(engine) ? "no response" : "ended";
}
