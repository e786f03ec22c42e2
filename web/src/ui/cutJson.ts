// The beginning of a JSON text as a whole one: what is open is closed, and what is not whole but a text is left out. Pure.

/** Space, and then a string of whole escapes, closed or not; a mark; a number or a word. */
const TOKEN = /\s*("(?:[^"\\]+|\\(?:u[\da-fA-F]{4}|[^u]))*("?)|[{}[\],:]|[^\s{}[\],:"]+)/y;

/** Closes the beginning of an object or a list. What was no JSON before the cut is none then either. */
export function closeCutJson(text: string): string {
  const closers: string[] = [];
  let whole = 0; // up to here nothing is half there
  let before = "";
  for (const { token, end, open } of tokensOf(text)) {
    const isValue = before === ":" || closers.at(-1) === "]";
    followBrackets(closers, token);
    if (open) return close(isValue ? `${text.slice(0, end)}"` : text.slice(0, whole), closers);
    if (isWhole(token, isValue, end < text.length)) whole = end;
    before = token;
  }
  return close(text.slice(0, whole), closers);
}

/** The tokens, each with its end; `open`: a string that nothing closes. */
function* tokensOf(text: string): Generator<{ token: string; end: number; open: boolean }> {
  TOKEN.lastIndex = 0;
  for (let found = TOKEN.exec(text); found; found = TOKEN.exec(text)) {
    const [, token = "", quote] = found;
    const end = TOKEN.lastIndex;
    yield { token, end, open: quote === "" };
    TOKEN.lastIndex = end;
  }
}

function followBrackets(closers: string[], token: string): void {
  if (token === "{") closers.push("}");
  else if (token === "[") closers.push("]");
  else if (token === "}" || token === "]") closers.pop();
}

/** Whether the text may end after this token. A number may go on where the text ends. */
function isWhole(token: string, isValue: boolean, goesOn: boolean): boolean {
  if ("{}[]".includes(token)) return true;
  return isValue && !",:".includes(token) && (token[0] === '"' || goesOn);
}

function close(text: string, closers: readonly string[]): string {
  return text + closers.toReversed().join("");
}
