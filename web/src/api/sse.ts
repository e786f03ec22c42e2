// Server-sent events out of text, piece by piece. Knows the format only; the connection is in client.ts.

export interface Message {
  event: string;
  data: string;
}

/** Fed with text as it comes, gives whole messages back; what is not whole yet is kept. */
export class MessageParser {
  /** The pieces of a line that has not ended: a trace of some MB is one line, and is joined once. */
  #rest: string[] = [];
  #event = "";
  #data: string[] = [];

  feed(text: string): Message[] {
    const found: Message[] = [];
    const lines = text.split("\n");
    const rest = lines.pop() ?? "";
    if (lines.length) {
      lines[0] = this.#rest.join("") + lines[0];
      this.#rest = [];
    }
    this.#rest.push(rest);
    for (const line of lines) {
      const message = this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (message) found.push(message);
    }
    return found;
  }

  #line(line: string): Message | null {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    return null;
  }

  #end(): Message | null {
    const message = this.#data.length ? { event: this.#event || "message", data: this.#data.join("\n") } : null;
    this.#event = "";
    this.#data = [];
    return message;
  }
}

/** The messages of a body, as they come. */
export async function* messages(body: ReadableStream<Uint8Array>): AsyncGenerator<Message> {
  const parser = new MessageParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
