import assert from "node:assert/strict";
import { test } from "node:test";
import { glance } from "../src/turn/glance.ts";
import { visibleText } from "../src/ui/visibleText.ts";

test("what hides or turns a text around is shown by its number", () => {
  assert.equal(visibleText("a\u202egpj.exe"), "a⟨U+202E⟩gpj.exe");
  assert.equal(visibleText("\u2066x\u2069\u200b\u200e\u061c"), "⟨U+2066⟩x⟨U+2069⟩⟨U+200B⟩⟨U+200E⟩⟨U+061C⟩");
  assert.equal(
    visibleText("\0\x1b[2J\x7f\x85\u2028\ufeff\r"),
    "⟨U+0000⟩⟨U+001B⟩[2J⟨U+007F⟩⟨U+0085⟩⟨U+2028⟩⟨U+FEFF⟩⟨U+000D⟩",
  );
  assert.equal(visibleText("a\u{e0041}b\ud800"), "a⟨U+E0041⟩b\ufffd");
});

test("languages, emoji, line ends and tabs stay", () => {
  const text = "naïve 漢字 עברית عربي می\u200cخواهم 👩\u200d👧 ⚠️\n\tnext";
  assert.equal(visibleText(text), text);
});

test("a line of the ledger shows them too, and is cut before they grow", () => {
  assert.equal(glance("a\r\nb\tc\u202ed"), "a⏎b⇥c⟨U+202E⟩d");
  assert.ok(glance("\u200b".repeat(100_000)).length <= 240 * 8);
});
