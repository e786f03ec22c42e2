// Text of strangers in one line: characters that hide something, or turn the text around, are shown by their number.
// What the page copies, exports or sends again is the text itself. Pure.

/** Control characters, marks of direction, invisible characters and lone surrogates. Joiners (U+200C, U+200D) stay: emoji
 * and many scripts need them. The same as `reveal_controls` in Python. */
const HIDDEN =
  /(?!\t|\r?\n)\p{Cc}|[\p{Cs}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** The text with hidden and control characters made visible. A text without any is returned as it is. */
export function visibleText(text: string): string {
  return text.replace(HIDDEN, pictureOf);
}

function pictureOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code >= 0xd800 && code <= 0xdfff ? "\ufffd" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
