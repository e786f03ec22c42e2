// Citations: marks in Markdown where they belong, drawn as numbers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { h } from "preact";
import { markedText } from "../src/message/citing.ts";
import { drawMarkdown } from "../src/message/draw.ts";
import type { Cited, TextPart } from "../src/message/parts.ts";
import { markup, nodes, words } from "./tree.ts";

function part(index: number, text: string): TextPart {
  return { kind: "text", index, choice: 0, item: "", text, open: false };
}

function cited(number: number, of: number, span: [number, number] | null): Cited {
  return { number, url: "", title: "", quote: "", of, span };
}

function drawn(parts: TextPart[], sources: Cited[]) {
  const { text, marked } = markedText(parts, sources);
  const cite = (number: number) => h("sup", null, `[${number}]`);
  return drawMarkdown(text, { marked, pictures: [], code: (code) => h("pre", null, code), cite });
}

const CASES: [string, [number, number] | null, string][] = [
  ["The moon is far.", [0, 15], "<p><span>The moon is far</span><sup>[1]</sup>.</p>"],
  ["The moon.", null, "<p>The moon.<sup>[1]</sup></p>"],
  ["- one\n- two", [0, 5], "<ul><li><span>one</span><sup>[1]</sup></li><li>two</li></ul>"],
  ["# Head\n\ntext", [0, 6], "<h3><span>Head</span><sup>[1]</sup></h3><p>text</p>"],
  ["so **it is.** Yes", [0, 13], "<p><span>so </span><strong><span>it is.</span></strong><sup>[1]</sup> Yes</p>"],
  ["😀😀 far off", [0, 6], "<p><span>😀😀 far</span><sup>[1]</sup> off</p>"],
  [
    "see https://a.example/x now",
    [0, 23],
    "<p><span>see </span><a><span>https://a.example/x</span></a><sup>[1]</sup> now</p>",
  ],
  ["short", [0, 900], "<p><span>short</span><sup>[1]</sup></p>"],
  ["`code` x", [0, 4], "<p><code>code</code><sup>[1]</sup> x</p>"],
  ["a\n\n```\nx = 1\n```\n", [5, 9], "<p>a</p><pre>x = 1</pre>"],
];

for (const [text, span, shape] of CASES) {
  test(`${JSON.stringify(text)} ${span}`, () => {
    assert.equal(markup(drawn([part(0, text)], [cited(1, 0, span)])), shape);
  });
}

test("parts that are read as one are one text, and each citation stays where its part was", () => {
  const parts = [part(0, "High water is "), part(2, "at 06:12"), part(4, ", they say.")];
  const shape = "<p>High water is <span>at 06:12</span><sup>[1]</sup>, they say.</p>";
  assert.equal(markup(drawn(parts, [cited(1, 2, null)])), shape);
});

test("a citation of another part changes nothing, and overlaps nest", () => {
  assert.equal(markup(drawn([part(0, "a b c")], [cited(1, 9, [0, 1])])), "<p>a b c</p>");
  const both = drawn([part(0, "a b c")], [cited(1, 0, [0, 3]), cited(2, 0, [2, 5])]);
  assert.equal(words(both), "a b[1] c[2]");
  const names = [...nodes(both)].map((node) => node.props["data-cited"]).filter((name) => name !== undefined);
  assert.deepEqual(names, ["1", "1 2", "2"]);
});

test("a model that writes the marks itself is not believed", () => {
  const said = "so ⸢1⸣ and ⸨2⸩";
  assert.equal(words(drawn([part(0, said)], [cited(1, 0, [0, 2])])), said);
});

test("ten thousand citations cost nothing that one would feel", () => {
  const sources = Array.from({ length: 10_000 }, (_, n) => cited(n, 0, [n, n + 5]));
  assert.equal(markedText([part(0, "word ".repeat(20_000))], sources).marked, false);
});
