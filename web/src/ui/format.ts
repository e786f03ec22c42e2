// Numbers and times as people read them. Pure.

/** What is not known. */
export const NOTHING = "–";

export function formatBytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 1_000_000) return `${(count / 1000).toFixed(count < 10_000 ? 1 : 0)} kB`;
  return `${(count / 1_000_000).toFixed(1)} MB`;
}

/** `1 token`, `1,234 tokens`. */
export function formatMany(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** `1 token`, `1,234 tokens`, `12.3k tokens`: for large counts that need not be exact. */
export function formatManyShort(count: number | null, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** What the gateway says, as a sentence: with a capital and a full stop. */
export function formatSentence(text: string): string {
  return text && `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? "" : "."}`;
}

/** 1,234 and 12.3k and 1.2M. */
export function formatCount(count: number | null): string {
  if (count === null) return NOTHING;
  if (count < 10_000) return count.toLocaleString("en");
  return count < 1_000_000 ? `${(count / 1000).toFixed(1)}k` : `${(count / 1_000_000).toFixed(1)}M`;
}

export function formatDuration(seconds: number | null): string {
  if (seconds === null) return NOTHING;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

export function formatRate(rate: number | null): string {
  if (rate === null) return NOTHING;
  return rate < 10 ? rate.toFixed(1) : formatCount(Math.round(rate));
}

export function formatCost(dollars: number | null): string {
  if (dollars === null) return NOTHING;
  if (dollars === 0) return "$0";
  if (dollars < 0.0001) return "<$0.0001";
  return `$${dollars.toFixed(dollars < 0.1 ? 4 : 2)}`;
}

export function formatTime(seconds: number, now = Date.now() / 1000): string {
  const date = new Date(seconds * 1000);
  const clock = date.toLocaleTimeString("en-GB");
  return now - seconds < 20 * 3600 ? clock : `${date.toLocaleDateString("en-CA").slice(5)} ${clock.slice(0, 5)}`;
}
