// Runs regular expressions in a worker, each for a limited time: one that takes for ever is stopped, and the page goes
// on. A saved page has the worker's script inside it.
import { compileRegex, type RegexAnswer, type RegexRequest } from "./regexMatch.ts";

/** Milliseconds that an expression may take. */
export const TIME_LIMIT = 1000;
/** Milliseconds until a worker has begun, at the most. */
const START_LIMIT = 10_000;

export class RegexError extends Error {}

let worker: Worker | null = null;
let stopLast: ((why: RegexError) => void) | null = null;
let last = 0;

/** What the texts hold. A newer search stops an older one. */
export async function searchRegex(
  pattern: string,
  matchCase: boolean,
  texts: string[],
  parts: string[],
): Promise<RegexAnswer> {
  compile(pattern, matchCase);
  stopLast?.(new RegexError(""));
  const id = ++last;
  return new Promise((resolve, reject) => {
    const fail = (why: RegexError) => {
      clearTimeout(timer);
      stopWorker();
      reject(why);
    };
    const tooLong = `The expression takes too long: it was stopped after ${TIME_LIMIT / 1000} s`;
    let timer = setTimeout(() => fail(new RegexError("The worker for expressions does not start")), START_LIMIT);
    stopLast = fail;
    worker ??= startWorker();
    worker.onerror = () => fail(new RegexError("Regular expressions cannot be used here"));
    worker.onmessage = ({ data }: MessageEvent<RegexAnswer | "begun">) => {
      clearTimeout(timer);
      if (data === "begun") timer = setTimeout(() => fail(new RegexError(tooLong)), TIME_LIMIT);
      else if (data.id === id) {
        stopLast = null;
        resolve(data);
      }
    };
    worker.postMessage({ id, pattern, matchCase, texts, parts } satisfies RegexRequest);
  });
}

function compile(pattern: string, matchCase: boolean): void {
  try {
    compileRegex(pattern, matchCase);
  } catch (error) {
    throw new RegexError(error instanceof Error ? error.message : String(error));
  }
}

function stopWorker(): void {
  worker?.terminate();
  worker = null;
  stopLast = null;
}

function startWorker(): Worker {
  const saved = document.getElementById("penstock-worker")?.textContent;
  if (saved) return new Worker(URL.createObjectURL(new Blob([saved], { type: "text/javascript" })));
  return new Worker(new URL("./regexWorker.ts", import.meta.url), { type: "module" });
}
