// The time at which the rows of the list are true: it stands while the feed says nothing.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { about, aboutError } from "../src/api/about.ts";
import { keyWanted } from "../src/api/key.ts";
import { clockAhead, link, pause, rowTime, startLive } from "../src/streams/live.ts";
import { settle } from "./fakeGateway.ts";

const PAGE = { rows: [], total: 0, upto: 7, states: {}, requests: 0, hints: [], partial: 0 };
const START = Date.now();
const seconds = (after: number) => START / 1000 + after;

test("the time of the rows stands while the list is paused or the feed is not open", async () => {
  mock.timers.enable({ apis: ["Date"], now: START });
  let feed: ReadableStreamDefaultController<Uint8Array> | undefined;
  const fetching = mock.method(globalThis, "fetch", async (path: unknown) => {
    if (String(path).includes("/about")) return Response.json({ live: true });
    if (!String(path).includes("/live")) return Response.json(PAGE);
    return new Response(
      new ReadableStream<Uint8Array>({
        start: (controller) => {
          feed = controller;
        },
      }),
    );
  });
  const say = (event: string, body: object) => {
    feed?.enqueue(new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(body)}\n\n`));
    return settle();
  };
  const pass = (time: number) => mock.timers.tick(time * 1000);
  aboutError.value = "not asked";
  startLive();
  await settle();
  assert.equal(link.value, "connecting");
  pass(1);
  assert.equal(rowTime(), seconds(1)); // nothing is known yet
  await say("turns", { rows: [], updates: [], gone: [], now: seconds(1) });
  assert.equal(link.value, "open");
  pass(5);
  assert.equal(rowTime(), seconds(6));
  pause();
  pass(5);
  await say("progress", { now: seconds(11), turns: {} });
  assert.equal(rowTime(), seconds(6));
  pause();
  assert.equal(rowTime(), seconds(11));
  link.value = "connecting";
  pass(9);
  assert.equal(rowTime(), seconds(11));
  link.value = "lost";
  assert.equal(rowTime(), seconds(11));
  keyWanted.value = true; // stops the feed
  feed?.close();
  await settle();
  fetching.mock.restore();
  about.value = null;
  aboutError.value = "";
  keyWanted.value = false;
  clockAhead.value = 0;
  mock.timers.reset();
});
