// Chunks of bytes → lines of text → lines of a reply. Any cutting of the bytes gives the same lines; a line has a limit.

import { StringDecoder } from "node:string_decoder";
import { type Line, readLine } from "../wire.ts";

const LIMIT = 64 * 1024 * 1024;

export async function* textLines(chunks: AsyncIterable<Uint8Array>, limit = LIMIT): AsyncGenerator<string> {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  for await (const chunk of chunks) {
    const pieces = (rest + decoder.write(chunk as Buffer)).split("\n");
    rest = pieces.pop() ?? "";
    if (rest.length > limit) throw new Error(`a line of the reply is over ${limit} characters`);
    for (const piece of pieces) if (piece.trim()) yield piece;
  }
  rest += decoder.end();
  if (rest.trim()) yield rest;
}

/** The lines that are understood; `skipped` is told of the others. */
export async function* replyLines(
  chunks: AsyncIterable<Uint8Array>,
  skipped: (line: string) => void = () => {},
): AsyncGenerator<Line> {
  for await (const text of textLines(chunks)) {
    const line = readLine(text);
    if (line) yield line;
    else skipped(text.slice(0, 200));
  }
}
