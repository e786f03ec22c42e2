// JSON texts that are changed without being read: numbers and strings stay as they were written. Pure.
import { prettyLines } from "./json.ts";

/** A JSON text with one entry on each line, or the text itself if it is not JSON. */
export function indentJson(text: string): string {
  const lines = prettyLines(text);
  return lines
    ? lines.map(({ depth, spans }) => "  ".repeat(depth) + spans.map((span) => span.text).join("")).join("\n")
    : text;
}

/** The lines of a JSON text, for a comparison. */
export function linesOfJson(text: string): string[] {
  return text ? indentJson(text).split("\n") : [];
}

/** The text with another value of a name of the outermost object, at its end if it was not there. */
export function setJsonValue(text: string, name: string, value: string): string {
  const lines = prettyLines(text);
  if (lines?.[0]?.spans[0]?.text !== "{") return text;
  const key = JSON.stringify(name);
  const found = lines.find(({ depth, spans }) => depth === 1 && spans[0]?.text === key);
  const written = JSON.stringify(value);
  const old = found?.spans[2];
  if (old && old.kind !== "mark") old.text = written;
  else if (!found && lines.length > 1) {
    lines.splice(1, 0, {
      depth: 1,
      spans: [
        { kind: "key", text: `${key}: ` },
        { kind: "string", text: `${written},` },
      ],
    });
  } else return text;
  return lines.map(({ depth, spans }) => "  ".repeat(depth) + spans.map((span) => span.text).join("")).join("\n");
}
