// The form of a custom provider: what it sends, and what it warns of.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { ProviderRow } from "../src/admin/api.ts";
import {
  customProviderBody,
  customProviderDraft,
  EXPOSURE_WARNING,
  isExposed,
  sameOrigin,
} from "../src/admin/customProvider.ts";

const ROW = {
  name: "lab",
  title: "The Lab",
  base_url: "http://127.0.0.1:8000/v1",
  like: "vllm",
  models: ["a", "b/c"],
} as unknown as ProviderRow;

test("what is there is sent again as it is", () => {
  const { title, base_url, like, models } = ROW;
  assert.deepEqual(customProviderBody(customProviderDraft(ROW), false, true), {
    title,
    base_url,
    like,
    models,
    key: "",
    check: true,
  });
});

test("a title that is the name is no title", () => {
  assert.equal(customProviderDraft({ ...ROW, title: "lab" }).title, "");
});

test("a new server has a name, and one model for each line", () => {
  const draft = { ...customProviderDraft(null), name: " lab ", base_url: "http://x/v1", models: " a\r\n\n  b/c \n" };
  assert.deepEqual(customProviderBody(draft, true, false), {
    name: "lab",
    base_url: "http://x/v1",
    like: "openai-compatible",
    title: "",
    key: "",
    models: ["a", "b/c"],
    check: false,
  });
});

test("a key is for scheme, host and port", () => {
  const address = "http://127.0.0.1:8000/v1";
  assert.equal(sameOrigin(address, " http://127.0.0.1:8000/other "), true);
  assert.equal(sameOrigin("https://h/v1", "https://h:443/v2"), true);
  for (const other of ["https://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1", "http://localhost:8000/v1", "", "x"]) {
    assert.equal(sameOrigin(other, address), false, other);
  }
});

test("the form warns of the same addresses as the gateway", () => {
  const file = new URL("../../tests/gateway/inspector/exposed_addresses.json", import.meta.url);
  const cases = JSON.parse(readFileSync(file, "utf8")) as { warning: string; exposed: string[]; private: string[] };
  assert.equal(EXPOSURE_WARNING, cases.warning);
  for (const address of cases.exposed) assert.equal(isExposed(address), true, address);
  for (const address of cases.private) assert.equal(isExposed(address), false, address);
});

test("a half-typed address is not exposed", () => {
  for (const address of ["", "http://", "http:", "ftp://x.example"]) assert.equal(isExposed(address), false, address);
});
