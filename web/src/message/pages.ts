// Long Markdown in pages, so that two megabytes are never lexed at once: cut where a block ends, else at a line, else
// anywhere. Pictures that carry their bytes are lifted out first, so that no page is one long picture.

export const SOFT = 6 * 1024;
export const HARD = 16 * 1024;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`\n]*)/;
const GOES_ON = /^(?:\s|[-*+] |\d{1,9}[.)] |\||>)/;
const PICTURE = /data:image\/[\w+.-]+;base64,[A-Za-z0-9+/=]{200,}/g;
const LIFTED = /^data:image\/lifted,(\d+)$/;

export interface Lifted {
  text: string;
  pictures: string[];
}

export function liftPictures(text: string): Lifted {
  if (!text.includes("data:image/")) return { text, pictures: [] };
  const pictures: string[] = [];
  const short = text.replace(PICTURE, (address) => `data:image/lifted,${pictures.push(address) - 1}`);
  return { text: short, pictures };
}

/** The address as it was before it was lifted. */
export function lowered(address: string, pictures: readonly string[]): string {
  const found = LIFTED.exec(address);
  return found ? (pictures[Number(found[1])] ?? address) : address;
}

/** The first `most` pages, and how many characters of the text they hold. */
export function splitPages(text: string, most: number): { pages: string[]; used: number } {
  const pages: string[] = [];
  let used = 0;
  let carried = ""; // the fence that a cut went through, opened again on the next page
  while (used < text.length && pages.length < most) {
    const { end, fence } = pageEnd(text, used, carried);
    const closing = fence ? `\n${fence.trim().replace(/[^`~].*$/s, "")}` : "";
    pages.push((carried ? `${carried}\n` : "") + text.slice(used, end) + closing);
    carried = fence;
    used = end;
  }
  return { pages, used };
}

function pageEnd(text: string, from: number, carried: string): { end: number; fence: string } {
  if (text.length - from <= SOFT) return { end: text.length, fence: "" };
  let fence = carried;
  let blank = false;
  let at = from;
  while (at < text.length) {
    const next = lineEnd(text, at);
    if (next - from > HARD) return { end: at > from ? at : halfway(text, from), fence };
    const line = text.slice(at, next);
    if (blank && !fence && at - from >= SOFT && !GOES_ON.test(line)) return { end: at, fence: "" };
    fence = fenceAfter(fence, line);
    blank = line.trim() === "";
    at = next;
  }
  return { end: text.length, fence: "" };
}

function lineEnd(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end + 1;
}

/** In a line that is longer than a page: at a space, and never inside a pair of surrogates. */
function halfway(text: string, from: number): number {
  const space = text.lastIndexOf(" ", from + HARD);
  if (space > from + SOFT) return space + 1;
  const code = text.charCodeAt(from + HARD - 1);
  return code >= 0xd800 && code <= 0xdbff ? from + HARD - 1 : from + HARD;
}

/** The opening line of the fence that is open after this line, "" for none. */
function fenceAfter(open: string, line: string): string {
  const found = FENCE.exec(line);
  if (!found) return open;
  const [, mark = "", info = ""] = found;
  if (!open) return `${mark}${info.trimEnd()}`;
  const opened = /^(`+|~+)/.exec(open)?.[0] ?? "";
  return mark[0] === opened[0] && mark.length >= opened.length && info.trim() === "" ? "" : open;
}
