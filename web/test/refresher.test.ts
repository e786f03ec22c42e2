// Questions that are asked again when something has changed: one at a time, and none of them is lost.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Refresher } from "../src/runs/refresher.ts";

const PAUSE = 700;
const settle = () => new Promise((resolve) => setImmediate(resolve));

test("a question waits for the answer before it, and is asked if that answer is stale", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let [asked, state, paused] = [0, "a", false];
  let answer = () => {};
  const ask = () => {
    asked += 1;
    return new Promise<void>((resolve) => {
      answer = resolve;
    });
  };
  const refresher = new Refresher({ ask, signature: () => state, isPaused: () => paused });
  void refresher.refresh();
  state = "b";
  refresher.check();
  void refresher.refresh();
  mock.timers.tick(PAUSE * 3);
  assert.equal(asked, 1);
  answer();
  await settle();
  mock.timers.tick(PAUSE);
  assert.equal(asked, 2);
  answer();
  await settle();
  refresher.check(); // nothing has changed
  mock.timers.tick(PAUSE);
  assert.equal(asked, 2);
  paused = true;
  state = "c";
  refresher.check();
  mock.timers.tick(PAUSE);
  assert.equal(asked, 2);
  paused = false;
  void refresher.refresh();
  assert.equal(asked, 3);
  refresher.stop();
  answer();
  state = "d";
  await settle();
  mock.timers.tick(PAUSE);
  assert.equal(asked, 3);
  mock.timers.reset();
});
