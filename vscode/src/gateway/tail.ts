// New lines of a log that another process writes, handed on as they come.

import * as fs from "node:fs";
import { StringDecoder } from "node:string_decoder";

const MOST = 256 * 1024; // of a log that was there before us, so much of its end is shown

export class Tail {
  readonly #path: string;
  readonly #say: (text: string) => void;
  #decoder = new StringDecoder("utf8");
  #at = -1;

  constructor(path: string, say: (text: string) => void) {
    this.#path = path;
    this.#say = say;
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
      if (size > this.#at) this.#read(size);
    } catch {
      // There is no log yet.
    }
  }

  #read(size: number): void {
    const file = fs.openSync(this.#path, "r");
    try {
      const chunk = Buffer.alloc(Math.min(size - this.#at, MOST));
      const read = fs.readSync(file, chunk, 0, chunk.length, this.#at);
      this.#at += read;
      this.#say(this.#decoder.write(chunk.subarray(0, read)));
    } finally {
      fs.closeSync(file);
    }
  }
}
