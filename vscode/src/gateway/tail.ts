// New lines of a log that another process writes, handed on as they come. Only what is new is read.

import * as fs from "node:fs";
import { basename, dirname } from "node:path";
import { StringDecoder } from "node:string_decoder";

const MOST = 256 * 1024; // of a log that was there before us, so much of its end is shown
const SELDOM = 5_000; // between two looks where the system does not report changes, as on some network drives

export class Tail {
  readonly #path: string;
  readonly #say: (text: string) => void;
  #decoder = new StringDecoder("utf8");
  #at: number;

  /** `from`: where to begin; without it, near the end. */
  constructor(path: string, say: (text: string) => void, from = -1) {
    this.#path = path;
    this.#say = say;
    this.#at = from;
  }

  /** Look once. */
  look(): void {
    try {
      const { size } = fs.statSync(this.#path);
      if (this.#at < 0) this.#at = Math.max(0, size - MOST);
      if (size < this.#at) {
        // It was begun anew.
        this.#at = 0;
        this.#decoder = new StringDecoder("utf8");
      }
      while (size > this.#at) if (!this.#read(size)) break;
    } catch {
      // There is no log yet.
    }
  }

  #read(size: number): number {
    const file = fs.openSync(this.#path, "r");
    try {
      const chunk = Buffer.alloc(Math.min(size - this.#at, MOST));
      const read = fs.readSync(file, chunk, 0, chunk.length, this.#at);
      this.#at += read;
      this.#say(this.#decoder.write(chunk.subarray(0, read)));
      return read;
    } finally {
      fs.closeSync(file);
    }
  }
}

/** Calls `look` when a file changes, as the system reports it, and now and then. */
export function watchFile(path: string, look: () => void, seldom = SELDOM): { dispose(): void } {
  let watcher: fs.FSWatcher | undefined;
  const watch = () => {
    if (watcher) return;
    try {
      const name = basename(path);
      // The folder is watched: the file itself may be replaced.
      watcher = fs.watch(dirname(path), { persistent: false }, (_, changed) => {
        if (changed === null || changed === name) look();
      });
      watcher.on("error", forget);
    } catch {
      // No folder yet, or no watcher left: it is looked at now and then.
    }
  };
  const forget = () => {
    watcher?.close();
    watcher = undefined;
  };
  watch();
  look();
  const timer = setInterval(() => {
    watch();
    look();
  }, seldom);
  return {
    dispose: () => {
      clearInterval(timer);
      forget();
    },
  };
}
