// JSON laid out for reading without being read: every number and string stays as it was written. Pure.

export type SpanKind = "key" | "string" | "number" | "word" | "mark";

export interface Span {
  kind: SpanKind;
  text: string;
}

export interface Line {
  depth: number;
  spans: Span[];
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|-?\d[\d.eE+-]*|true|false|null|\s+/y;
const OPENING = new Set(["{", "["]);
const CLOSING = new Set(["}", "]"]);

/** The lines of a JSON text, or null if it is none. */
export function prettyLines(text: string): Line[] | null {
  const tokens = tokensOf(text);
  return tokens && tokens.length > 0 ? new Layout(tokens).lines() : null;
}

/** Its tokens, as they were written; null if it is neither an object nor a list. */
export function tokensOf(text: string): string[] | null {
  const start = text.trimStart()[0];
  if (start !== "{" && start !== "[") return null;
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const found = TOKEN.exec(text)?.[0];
    if (found === undefined) return null;
    if (found.trim()) tokens.push(found);
  }
  return tokens;
}

class Layout {
  readonly #tokens: string[];
  readonly #lines: Line[] = [];
  #line: Line = { depth: 0, spans: [] };
  #depth = 0;

  constructor(tokens: string[]) {
    this.#tokens = tokens;
  }

  lines(): Line[] {
    for (const [index, token] of this.#tokens.entries()) {
      if (CLOSING.has(token)) this.#close(token, this.#tokens[index - 1] ?? "");
      else this.#add(token, this.#tokens[index + 1] ?? "");
    }
    this.#break();
    return this.#lines;
  }

  #add(token: string, next: string): void {
    this.#line.spans.push({ kind: kindOf(token, next), text: token === ":" ? ": " : token });
    if (OPENING.has(token)) {
      this.#depth++;
      if (!CLOSING.has(next)) this.#break();
    } else if (token === ",") this.#break();
  }

  #close(token: string, before: string): void {
    this.#depth = Math.max(0, this.#depth - 1);
    if (!OPENING.has(before)) this.#break();
    this.#line.spans.push({ kind: "mark", text: token });
  }

  #break(): void {
    if (this.#line.spans.length) this.#lines.push(this.#line);
    this.#line = { depth: this.#depth, spans: [] };
  }
}

function kindOf(token: string, next: string): SpanKind {
  if (token[0] === '"') return next === ":" ? "key" : "string";
  if (/^[-\d]/.test(token)) return "number";
  return /^[a-z]/.test(token) ? "word" : "mark";
}
