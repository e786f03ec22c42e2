// The files that all windows share: who runs the gateway, which windows want it, who is starting it just now.
// Every file is replaced whole; what cannot be read counts as absent.

import * as fs from "node:fs";
import { join } from "node:path";

export interface Running {
  readonly url: string;
  readonly key: string;
  readonly pid: number;
  readonly version: string;
  /** When its process was started, as the system tells it: the number may be another process's later. */
  readonly started?: string;
}

const STARTING = 5 * 60_000; // a start that takes longer has failed: the first one may download packages

export class SharedFiles {
  readonly folder: string;
  readonly #lease: string;

  constructor(folder: string, name = `${process.pid}-${Date.now()}`) {
    this.folder = folder;
    this.#lease = join(this.leases, name);
  }

  get leases(): string {
    return join(this.folder, "windows");
  }

  get log(): string {
    return join(this.folder, "gateway.log");
  }

  get #state(): string {
    return join(this.folder, "gateway.json");
  }

  get #lock(): string {
    return join(this.folder, "starting.lock");
  }

  /** This window wants the gateway; said again and again. */
  touch(): void {
    fs.mkdirSync(this.leases, { recursive: true, mode: 0o700 });
    fs.writeFileSync(this.#lease, "");
  }

  /** This window is closed. */
  release(): void {
    fs.rmSync(this.#lease, { force: true });
  }

  running(): Running | undefined {
    try {
      const row = JSON.parse(fs.readFileSync(this.#state, "utf8")) as Partial<Running>;
      return typeof row.url === "string" && typeof row.key === "string" ? (row as Running) : undefined;
    } catch {
      return undefined;
    }
  }

  /** The key is in there: nobody else may read it. */
  write(row: Running): void {
    const fresh = `${this.#state}.${process.pid}`;
    fs.writeFileSync(fresh, JSON.stringify(row), { mode: 0o600 });
    fs.renameSync(fresh, this.#state);
  }

  forget(): void {
    fs.rmSync(this.#state, { force: true });
  }

  /** Take the right to start the gateway; false if another window has it. A lock left by a dead window is taken over. */
  lock(now = Date.now()): boolean {
    fs.mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    for (const _ of [1, 2]) {
      try {
        fs.writeFileSync(this.#lock, JSON.stringify({ pid: process.pid, time: now }), { flag: "wx" });
        return true;
      } catch {
        if (!this.#abandoned(this.#lock, now) || !this.#removeAbandoned(now)) return false;
      }
    }
    return false;
  }

  /**
   * Removes a lock that was left. It is moved away first and looked at again: another window may have removed it meanwhile,
   * and have its own lock there. That one is put back.
   */
  #removeAbandoned(now: number): boolean {
    const taken = `${this.#lock}.${process.pid}`;
    try {
      fs.renameSync(this.#lock, taken);
      const abandoned = this.#abandoned(taken, now);
      if (!abandoned) fs.linkSync(taken, this.#lock);
      fs.rmSync(taken, { force: true });
      return abandoned;
    } catch {
      return false; // another window was faster
    }
  }

  unlock(): void {
    fs.rmSync(this.#lock, { force: true });
  }

  #abandoned(path: string, now: number): boolean {
    try {
      const { pid, time } = JSON.parse(fs.readFileSync(path, "utf8")) as { pid: number; time: number };
      return now - time > STARTING || !alive(pid);
    } catch {
      // Unreadable: it is being written just now, or its writer died over it.
      return age(path, now) > 5_000;
    }
  }
}

export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Milliseconds since a file was written; 0 where it is gone. */
function age(path: string, now: number): number {
  try {
    return now - fs.statSync(path).mtimeMs;
  } catch {
    return 0;
  }
}
