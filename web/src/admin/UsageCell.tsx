// What is used of limits: one line each, with a bar.
import type { LimitUsage } from "./api.ts";
import { describeUsage, share } from "./limits.ts";

export function UsageCell({ limits }: { limits: LimitUsage[] }) {
  if (limits.length === 0) return <span class="faint">no limits</span>;
  return (
    <ul class="limit-list">
      {limits.map((one) => (
        <li key={`${one.kind} ${one.window}`} class={share(one) >= 0.9 ? "nearly" : undefined}>
          <meter min={0} max={1} high={0.9} value={share(one)} aria-label={describeUsage(one)} />
          <span>{describeUsage(one)}</span>
        </li>
      ))}
    </ul>
  );
}
