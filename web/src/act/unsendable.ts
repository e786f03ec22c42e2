// Why a turn's request cannot be sent again. Pure.
import type { Trace } from "../api/types.ts";
import { formatSentence } from "../ui/format.ts";

/** Empty if it can be sent. */
export function explainUnsendable({
  request,
  request_lost,
  row,
}: Pick<Trace, "request" | "request_lost" | "row">): string {
  if (request_lost) return formatSentence(request_lost);
  if (!request || !row) return "The request of this turn is not known.";
  return isJsonObject(request) ? "" : "The body of the request is not a JSON object.";
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
