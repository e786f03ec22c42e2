import assert from "node:assert/strict";
import { test } from "node:test";
import { liftTexts } from "../src/message/argumentTexts.ts";

test("code among arguments is shown in lines", () => {
  const json = JSON.stringify({ path: "a.py", code: "def f():\r\n    return 1\r\n", limit: 3 }).replace(
    "3}",
    '3.0, "big": 12345678901234567890}',
  );
  assert.deepEqual(liftTexts(json), {
    rest: '{"path":"a.py","limit":3.0,"big":12345678901234567890}',
    texts: [["code", "def f():\n    return 1\n"]],
  });
  assert.deepEqual(liftTexts('{"code":"a\\nb"}'), { rest: "", texts: [["code", "a\nb"]] });
});

test("other arguments stay as they were written", () => {
  for (const json of ['{"a": 1.0}', '{"a":"x\\ny', "[1]", '"a\\nb"', '{"a":{"b":"x\\ny"}}', ""]) {
    assert.deepEqual(liftTexts(json), { rest: json, texts: [] });
  }
});
