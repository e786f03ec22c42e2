// A gateway for tests: each request waits until the test answers it.
import { mock } from "node:test";

export interface FakeRequest {
  path: string;
  answer: (body: unknown, status?: number) => Promise<void>;
}

/** Replaces `fetch`; `requests` has those that wait, in their order. */
export function fakeGateway(): { requests: FakeRequest[]; close: () => void } {
  const requests: FakeRequest[] = [];
  const fetching = mock.method(globalThis, "fetch", (input: unknown, options?: RequestInit) => {
    return new Promise<Response>((resolve, reject) => {
      const signal = options?.signal;
      signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
      const answer = (body: unknown, status = 200) => {
        resolve(new Response(typeof body === "string" ? body : JSON.stringify(body), { status }));
        return settle();
      };
      requests.push({ path: String(input), answer });
    });
  });
  return { requests, close: () => fetching.mock.restore() };
}

/** Waits until all that can go on has gone on. */
export async function settle(): Promise<void> {
  for (let count = 0; count < 20; count++) await new Promise((resolve) => setImmediate(resolve));
}
