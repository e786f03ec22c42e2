// What an error of the gateway says, in whichever protocol it is said. Pure.

/** What an error says, in whichever dialect it is said. */
export function describeRefusal(status: number, text: string): string {
  let found = "";
  try {
    found = messageIn(JSON.parse(text));
  } catch {
    found = text.length < 300 && !text.trimStart().startsWith("<") ? text.trim() : "";
  }
  return found || `The gateway said ${status}.`;
}

function messageIn(body: unknown): string {
  if (Array.isArray(body)) return messageIn(body[0]);
  if (typeof body === "string") return body;
  if (typeof body !== "object" || body === null) return "";
  const { error, message, detail, errorText } = body as Record<string, unknown>;
  for (const place of [error, message, errorText, detail]) {
    const words = messageIn(place);
    if (words) return words;
  }
  return "";
}
