// Markdown's tokens → vnodes. Never HTML: what a model says can only become the elements named here. HTML in it is
// shown as the text it is, pictures from elsewhere as links. Leans on marked's lexer; pages.ts bounds what it is given.
import { Lexer, type Token, type Tokens } from "marked";
import { type ComponentChild, h } from "preact";
import { breakable } from "../ui/breaking.ts";
import { linkTarget, pictureData, saysItself } from "./addresses.ts";
import { type Piece, pieces, unmarked } from "./citing.ts";
import { decodeReferences } from "./entities.ts";
import { lowered } from "./pages.ts";

export interface Brush {
  /** Whether the text has the marks of citing.ts. */
  marked: boolean;
  /** Pictures that were lifted out of the text. */
  pictures: readonly string[];
  code: (text: string, language: string) => ComponentChild;
  cite: (number: number) => ComponentChild;
}

const DEEPEST = 24;
// Inline rules look from each of these signs to the end of the paragraph: with very many of them that takes minutes.
const SIGNS = /[_*~[\]<@`!.]/g;
const MOST_SIGNS = 1500;

/** One page of Markdown. What the lexer cannot take, or not in good time, is shown as it was written. */
export function drawMarkdown(text: string, brush: Brush): ComponentChild[] {
  try {
    return new Drawing(brush).blocks(lex(text));
  } catch {
    return [h("p", { class: "md-plain" }, breakable(brush.marked ? unmarked(text) : text))]; // nested beyond the stack
  }
}

/** As `lexer.lex` does it, but paragraphs that would take too long stay text. */
function lex(text: string): Token[] {
  const lexer = new Lexer();
  lexer.blockTokens(text.replace(/\r\n?/g, "\n"), lexer.tokens);
  for (const { src, tokens } of lexer.inlineQueue) {
    if ((src.match(SIGNS)?.length ?? 0) > MOST_SIGNS) tokens.push({ type: "escape", raw: src, text: src });
    else lexer.inlineTokens(src, tokens);
  }
  return lexer.tokens;
}

type Draw = (drawing: Drawing, token: never) => ComponentChild;

class Drawing {
  readonly brush: Brush;
  #depth = 0;
  #cited = new Set<number>();
  #held: number[] | null = null; // numbers that stand in a link: no button may stand in one, so they follow it

  constructor(brush: Brush) {
    this.brush = brush;
  }

  blocks(tokens: readonly Token[]): ComponentChild[] {
    return this.#deeper(tokens, BLOCKS);
  }

  inline(tokens: readonly Token[] | undefined, otherwise = ""): ComponentChild[] {
    return tokens ? this.#deeper(tokens, INLINE) : this.words(otherwise);
  }

  #deeper(tokens: readonly Token[], table: Record<string, Draw>): ComponentChild[] {
    if (this.#depth >= DEEPEST) return this.words(tokens.map((token) => token.raw).join(""));
    this.#depth += 1;
    const drawn = tokens.map((token) => {
      const draw = Object.hasOwn(table, token.type) ? table[token.type] : undefined;
      return draw ? draw(this, token as never) : this.words(token.raw);
    });
    this.#depth -= 1;
    return drawn;
  }

  /** Text: references read, citations drawn. */
  words(text: string): ComponentChild[] {
    const found: Piece[] = this.brush.marked ? pieces(text) : [text];
    return found.map((piece) => this.#piece(piece));
  }

  #piece(piece: Piece): ComponentChild {
    if (typeof piece === "string") {
      const said = breakable(decodeReferences(piece));
      return this.#cited.size > 0
        ? h("span", { class: "cited", "data-cited": [...this.#cited].join(" ") }, said)
        : said;
    }
    if ("begins" in piece) {
      this.#cited.add(piece.begins);
      return null;
    }
    this.#cited.delete(piece.ends);
    if (this.#held === null) return this.brush.cite(piece.ends);
    this.#held.push(piece.ends);
    return null;
  }

  link(token: Tokens.Link): ComponentChild {
    const target = linkTarget(decodeReferences(this.#clean(token.href)));
    if (!target) return this.inline(token.tokens, token.text);
    const outer = this.#held;
    this.#held = [];
    const inner = this.inline(token.tokens, token.text);
    const cites = this.#held.map((number) => this.brush.cite(number));
    this.#held = outer;
    return [h("a", link(target.href), inner), ...aside(this.#clean(token.text), target), ...cites];
  }

  image(token: Tokens.Image): ComponentChild {
    const alt = decodeReferences(this.#clean(token.text));
    const address = lowered(decodeReferences(this.#clean(token.href)), this.brush.pictures);
    const src = pictureData(address);
    if (src) return h("img", { class: "md-picture", src, alt: alt || "picture without a description" });
    const target = linkTarget(address);
    if (!target) return this.words(token.raw);
    const words = `Picture${alt ? `: ${alt}` : ""}`;
    return [h("a", { ...link(target.href), class: "md-elsewhere" }, words), ...aside(words, target)];
  }

  /** Code in a line: words as they are, and the numbers behind it. */
  codespan(token: Tokens.Codespan): ComponentChild {
    const found: Piece[] = this.brush.marked ? pieces(token.text) : [token.text];
    const said = found.filter((piece) => typeof piece === "string").join("");
    const marks = found.filter((piece) => typeof piece !== "string").map((piece) => this.#piece(piece));
    return [h("code", null, said), ...marks];
  }

  code(token: Tokens.Code): ComponentChild {
    return this.brush.code(this.#clean(token.text), /^[\w+#.-]{1,32}/.exec(token.lang ?? "")?.[0] ?? "");
  }

  #clean(text: string): string {
    return this.brush.marked ? unmarked(text) : text;
  }
}

function link(href: string) {
  return { href, target: "_blank", rel: "noopener noreferrer", title: href };
}

function aside(words: string, target: { href: string; shown: string }): ComponentChild[] {
  return saysItself(words, target) ? [] : [" ", h("span", { class: "md-target" }, target.shown)];
}

function heading(drawing: Drawing, token: Tokens.Heading): ComponentChild {
  return h(`h${Math.min(6, token.depth + 2)}`, { class: `md-h${token.depth}` }, drawing.inline(token.tokens));
}

function list(drawing: Drawing, token: Tokens.List): ComponentChild {
  const items = token.items.map((item) =>
    h("li", { class: item.task ? "md-task" : undefined }, drawing.blocks(item.tokens)),
  );
  const start = typeof token.start === "number" && token.start !== 1 ? token.start : undefined;
  return token.ordered ? h("ol", { start }, items) : h("ul", null, items);
}

function table(drawing: Drawing, token: Tokens.Table): ComponentChild {
  const cell = (tag: "th" | "td", found: Tokens.TableCell) =>
    h(tag, { class: found.align ? `md-${found.align}` : undefined }, drawing.inline(found.tokens, found.text));
  const head = h(
    "tr",
    null,
    token.header.map((found) => cell("th", found)),
  );
  const rows = token.rows.map((row) =>
    h(
      "tr",
      null,
      row.map((found) => cell("td", found)),
    ),
  );
  const whole = h("table", null, h("thead", null, head), h("tbody", null, rows));
  return h("div", { class: "md-table", tabIndex: 0, role: "region", "aria-label": "Table" }, whole);
}

function checkbox(_: Drawing, token: Tokens.Checkbox): ComponentChild {
  return h("span", { role: "img", "aria-label": token.checked ? "done" : "to do" }, token.checked ? "☑ " : "☐ ");
}

/** HTML is shown as it was written; only a line break, which has no other spelling in a table, is one. */
function html(drawing: Drawing, token: Tokens.HTML | Tokens.Tag): ComponentChild {
  if (/^<br\s*\/?>$/i.test(token.raw.trim())) return h("br", null);
  return h(token.block ? "p" : "span", { class: "md-html" }, drawing.words(token.raw.trimEnd()));
}

const INLINE: Record<string, Draw> = {
  text: (drawing, token: Tokens.Text) => drawing.inline(token.tokens, token.text),
  escape: (drawing, token: Tokens.Escape) => drawing.words(token.text),
  strong: (drawing, token: Tokens.Strong) => h("strong", null, drawing.inline(token.tokens)),
  em: (drawing, token: Tokens.Em) => h("em", null, drawing.inline(token.tokens)),
  del: (drawing, token: Tokens.Del) => h("del", null, drawing.inline(token.tokens)),
  codespan: (drawing, token: Tokens.Codespan) => drawing.codespan(token),
  br: () => h("br", null),
  link: (drawing, token: Tokens.Link) => drawing.link(token),
  image: (drawing, token: Tokens.Image) => drawing.image(token),
  html,
  checkbox,
};

const BLOCKS: Record<string, Draw> = {
  ...INLINE,
  space: () => null,
  def: () => null,
  hr: () => h("hr", null),
  heading,
  paragraph: (drawing, token: Tokens.Paragraph) => h("p", null, drawing.inline(token.tokens)),
  blockquote: (drawing, token: Tokens.Blockquote) => h("blockquote", null, drawing.blocks(token.tokens)),
  list,
  table,
  code: (drawing, token: Tokens.Code) => drawing.code(token),
};
