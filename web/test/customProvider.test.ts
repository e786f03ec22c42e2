// The form of a server of one's own: what it sends, and what it points out.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProviderRow } from "../src/admin/api.ts";
import { isExposed, sameOrigin, serverBody, serverDraftOf } from "../src/admin/customProvider.ts";

const ROW = {
  name: "lab",
  title: "The Lab",
  base_url: "http://127.0.0.1:8000/v1",
  like: "vllm",
  models: ["a", "b/c"],
} as unknown as ProviderRow;

test("what is there is sent again as it is", () => {
  const { title, base_url, like, models } = ROW;
  assert.deepEqual(serverBody(serverDraftOf(ROW), false, true), {
    title,
    base_url,
    like,
    models,
    key: "",
    check: true,
  });
});

test("a title that is the name is no title", () => {
  assert.equal(serverDraftOf({ ...ROW, title: "lab" }).title, "");
});

test("a new server has a name, and one model for each line", () => {
  const draft = { ...serverDraftOf(null), name: " lab ", base_url: "http://x/v1", models: " a\r\n\n  b/c \n" };
  assert.deepEqual(serverBody(draft, true, false), {
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

test("a way through the internet without encryption is pointed out", () => {
  for (const address of ["http://8.8.8.8/v1", "http://llm.example.com", "HTTP://172.32.0.1"]) {
    assert.equal(isExposed(address), true, address);
  }
  for (const address of [
    "https://llm.example.com",
    "http://127.0.0.1:1",
    "http://[::1]:8000",
    "http://10.0.0.1",
    "http://172.16.3.4",
    "http://192.168.1.1",
    "http://gpu-box:8000",
    "http://gpu.local",
    "http://a.localhost",
    "",
    "http://",
    "ftp://x.example",
  ]) {
    assert.equal(isExposed(address), false, address);
  }
});
