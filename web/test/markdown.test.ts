// Markdown: what it becomes, and what it can never become.
import assert from "node:assert/strict";
import { test } from "node:test";
import { h } from "preact";
import { linkTarget, mediaAddress, pictureData } from "../src/message/addresses.ts";
import { type Brush, drawMarkdown } from "../src/message/draw.ts";
import { decodeReferences } from "../src/message/entities.ts";
import { liftPictures, splitPages } from "../src/message/pages.ts";
import { markup, nodes, words } from "./tree.ts";

const BRUSH: Brush = {
  marked: false,
  pictures: [],
  code: (text, language) => h("pre", { title: language }, text),
  cite: (number) => h("sup", null, `[${number}]`),
};

function draw(text: string, brush: Partial<Brush> = {}) {
  return drawMarkdown(text, { ...BRUSH, ...brush });
}

const SHAPES: [string, string][] = [
  ["a **b** _c_ ~~d~~ `e`", "<p>a <strong>b</strong> <em>c</em> <del>d</del> <code>e</code></p>"],
  ["# a\n\n###### b", "<h3>a</h3><h6>b</h6>"],
  ["- a\n- b\n  1. c", "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>"],
  ["> a\n> b", "<blockquote><p>a\nb</p></blockquote>"],
  ["a  \nb<br>c", "<p>a<br></br>b<br></br>c</p>"],
  ["```py\nx < 1\n```", "<pre>x < 1</pre>"],
  [
    "|a|b|\n|-|:-:|\n|1|`2`|",
    "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table></div>",
  ],
  ["---", "<hr></hr>"],
  ["AT&amp;T &lt;b&gt; &#x41; &bogus; & &", "<p>AT&T <b> A &bogus; & &</p>"],
  ["`&amp;`", "<p><code>&amp;</code></p>"],
  ["- [x] a\n- [ ] b", "<ul><li><span>☑ </span>a</li><li><span>☐ </span>b</li></ul>"],
];

for (const [text, shape] of SHAPES) {
  test(`drawn: ${JSON.stringify(text)}`, () => assert.equal(markup(draw(text)), shape));
}

test("a numbered list keeps its first number", () => {
  const [list] = nodes(draw("3. a\n4. b"));
  assert.equal(list?.props.start, 3);
});

test("a link says where it leads unless its words do", () => {
  assert.equal(words(draw("[your bank](https://evil.example/x)")), "your bank evil.example");
  assert.equal(words(draw("[https://bank.example](https://evil.example/x)")), "https://bank.example evil.example");
  assert.equal(words(draw("https://a.example/x")), "https://a.example/x");
  const link = [...nodes(draw("[a](https://a.example/x)"))].find((node) => node.type === "a");
  assert.equal(link?.props.rel, "noopener noreferrer");
  assert.equal(link?.props.href, "https://a.example/x");
});

test("pictures from elsewhere are links; those with their own bytes are shown", () => {
  const outside = [...nodes(draw("![a cat](https://cats.example/1.png)"))];
  assert.equal(outside.some((node) => node.type === "img"), false); // biome-ignore format: one line
  assert.equal(outside.find((node) => node.type === "a")?.props.href, "https://cats.example/1.png");
  const data = `data:image/png;base64,${"A".repeat(5000)}`;
  const { text, pictures } = liftPictures(`before ![x](${data}) after`);
  assert.ok(text.length < 100);
  const image = [...nodes(draw(text, { pictures }))].find((node) => node.type === "img");
  assert.equal(image?.props.src, data);
});

const REFUSED = [
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " javascript:alert(1)",
  "java\tscript:alert(1)",
  "java\nscript:alert(1)",
  "\u0001javascript:alert(1)",
  "javascript&colon;alert(1)",
  "&#106;avascript:alert(1)",
  "&#x6A&#x61;vascript:alert(1)",
  "javascript://https://example.com/%0aalert(1)",
  "data:text/html,<script>alert(1)</script>",
  "data:text/html;base64,PHNjcmlwdD4=",
  "data:image/svg+xml,<svg onload=alert(1)>",
  "vbscript:msgbox(1)",
  "file:///etc/passwd",
  "blob:https://example.com/1",
  "filesystem:https://example.com/1",
  "ftp://example.com/",
  "ws://example.com/",
  "about:blank",
  "view-source:https://example.com",
  "//evil.example/x",
  "/inspector/about",
  "#/try",
  "https:evil.example",
  "http:/\\evil.example",
  "https://exa\u200bmple.com/",
  "https://a.example/\u202egpj.exe",
  "https://a b.example/",
  "https://",
  "",
];

for (const address of REFUSED) {
  test(`never a link: ${JSON.stringify(address)}`, () => {
    assert.equal(linkTarget(address), null);
    for (const text of [`[x](<${address}>)`, `[x](${address})`, `<${address}>`, `[x]\n\n[x]: ${address}`, address]) {
      for (const node of nodes(draw(text))) {
        if (node.type === "a") assert.match(String(node.props.href), /^(https?:\/\/|mailto:)/, text);
      }
    }
  });
}

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  '<svg/onload="alert(1)">',
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  '<a href="javascript:alert(1)" onclick=alert(1)>x</a>',
  "<style>*{display:none}</style>",
  "<base href=https://evil.example/>",
  "<meta http-equiv=refresh content='0;url=https://evil.example'>",
  "a <b onmouseover=alert(1)>b</b>",
  '![x](https://a.example/x.png"onerror="alert(1))',
  '![x"onerror="alert(1)](data:image/png;base64,AAAA)',
  "![x](data:text/html;base64,PHNjcmlwdD4=)",
  '[x](https://a.example/"onclick="alert(1))',
  "```\n</code></pre><script>alert(1)</script>\n```",
  "|<script>|\n|-|\n|</script>|",
  "<!-- --><script>alert(1)</script>",
  "<![CDATA[<script>alert(1)</script>]]>",
  "[x]: javascript:alert(1)\n\n[x]",
  "<https://a.example/<script>>",
  "&lt;script&gt;alert(1)&lt;/script&gt;",
];
const ELEMENTS = new Set(
  "a blockquote br code del div em h3 h4 h5 h6 hr img li ol p pre span strong sup table tbody td th thead tr ul".split(
    " ",
  ),
);
const PROPS = new Set(
  "alt aria-label children class data-cited href rel role src start tabIndex target title".split(" "),
);

for (const text of HOSTILE) {
  test(`only harmless elements and properties: ${JSON.stringify(text)}`, () => {
    for (const node of nodes(draw(text))) {
      assert.ok(ELEMENTS.has(String(node.type)), String(node.type));
      for (const name of Object.keys(node.props)) assert.ok(PROPS.has(name), name);
      const src = node.props.src;
      if (src !== undefined) assert.ok(pictureData(String(src)), String(src));
    }
    const seen = words(draw(text));
    if (text.includes("<script>alert")) assert.ok(seen.includes("<script>alert(1)"), seen);
  });
}

const K = 16 * 1024;
const BOMBS: Record<string, string> = {
  brackets: "[".repeat(K),
  "brackets closed": "[".repeat(K / 2) + "](a)".repeat(K / 8),
  "links in links": "[a](".repeat(K / 4),
  pictures: "![".repeat(K / 2),
  emphasis: "**a*".repeat(K / 4),
  underscores: "_a_".repeat(K / 3),
  "underscores and spaces": "_a_ _b ".repeat(K / 7),
  quotes: ">".repeat(K),
  "quotes and spaces": "> ".repeat(K / 2),
  lists: "- ".repeat(K / 2),
  numbers: "1. ".repeat(K / 3),
  ladder: Array.from({ length: 170 }, (_, n) => `${" ".repeat(n)}- a`).join("\n"),
  ticks: "`a``".repeat(K / 4),
  tags: "<a ".repeat(K / 3),
  comments: "<!--".repeat(K / 4),
  mail: `${"a.".repeat(K / 2)}@`,
  mails: "a@".repeat(K / 2),
  pipes: `|${"a|".repeat(K / 4)}\n|${"-|".repeat(K / 4)}`,
  definitions: "[a]: b\n".repeat(K / 7),
  backslashes: "\\".repeat(K),
  references: "&amp".repeat(K / 4),
  "one word": "x".repeat(K),
};

for (const [name, text] of Object.entries(BOMBS)) {
  test(`a bomb goes off without harm: ${name}`, () => {
    const drawn = draw(text);
    let deepest = 0;
    const measure = (child: unknown, depth: number): void => {
      deepest = Math.max(deepest, depth);
      if (Array.isArray(child)) for (const one of child) measure(one, depth);
      else if (child && typeof child === "object" && "props" in child) {
        measure((child.props as { children?: unknown }).children, depth + 1);
      }
    };
    measure(drawn, 0);
    assert.ok(deepest < 120, `${deepest} deep`);
  });
}

test("two megabytes: only the pages that are asked for are cut, and together they are the text", () => {
  const line = "x".repeat(2 * 1024 * 1024);
  assert.equal(splitPages(line, 2).pages.length, 2);
  assert.equal(splitPages(line, 9999).pages.join(""), line);
  const prose = "The **quick** brown fox.\nOver the dog.\n\n".repeat(50_000);
  const { pages, used } = splitPages(prose, 9999);
  assert.equal(used, prose.length);
  assert.equal(pages.join(""), prose);
  assert.ok(pages.every((page) => page.startsWith("The") && page.endsWith("\n\n")));
  const faces = "😀".repeat(100_000);
  assert.ok(splitPages(faces, 9999).pages.every((page) => page.isWellFormed()));
});

test("a page ends neither in a list nor in a fence, and a fence that is too long goes on", () => {
  const list = `${"- point\n\n".repeat(800)}\nAfter.\n`;
  const cut = splitPages(list, 99).pages;
  assert.ok(cut.length > 1 && cut.slice(1, -1).every((page) => page.startsWith("- point")));
  const code = `\`\`\`\`py\n${"x = 1\n\n```\n".repeat(4000)}\`\`\`\`\n\nAfter.\n`;
  const drawn = splitPages(code, 99).pages.map((page) => draw(page));
  for (const page of drawn.slice(0, -1)) assert.deepEqual([...nodes(page)].map((node) => node.type), ["pre"]); // biome-ignore format: one line
  assert.equal(words(drawn.at(-1) ?? []).endsWith("After."), true);
});

test("references are read as a browser does", () => {
  assert.equal(decodeReferences("&#0;&#xD800;&#x110000;&#128512;"), "\ufffd\ufffd\ufffd😀");
  assert.equal(decodeReferences("&constructor;&__proto__;"), "&constructor;&__proto__;");
});

test("only pictures and sounds are shown from data", () => {
  assert.equal(mediaAddress("image/png; x=1", "AA-_ \n")?.src, "data:image/png;base64,AA+/");
  assert.equal(mediaAddress("audio/wav", "AAAA")?.kind, "audio");
  assert.equal(mediaAddress("text/html", "AAAA"), null);
  assert.equal(mediaAddress("image/png,<script>", "AAAA"), null);
  assert.equal(mediaAddress("image/png", '"><script>'), null);
  assert.equal(mediaAddress("application/pdf", "AAAA"), null);
});
