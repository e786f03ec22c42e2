// Gaps: where nothing came for long. Pure.

export interface Gap {
  /** The frame that ended it. */
  frame: number;
  /** Seconds. */
  wait: number;
}

/** Seconds that a reader would feel. */
const LONG = 1;
/** A wait is a gap if it is that many times longer than most: a model that is slow throughout has none. */
const TIMES = 4;

/** The gaps between frames, by their times; the wait for the first frame is one too. */
export function gapsOf(times: readonly number[]): Gap[] {
  const waits = times.map((time, frame) => time - (frame > 0 ? (times[frame - 1] ?? 0) : 0));
  const sorted = waits.filter((wait) => wait >= LONG).length ? [...waits].sort((a, b) => a - b) : [];
  const usual = sorted[sorted.length >> 1] ?? 0;
  const least = waits.length > 2 ? Math.max(LONG, usual * TIMES) : LONG;
  return waits.flatMap((wait, frame) => (wait >= least ? [{ frame, wait }] : []));
}
