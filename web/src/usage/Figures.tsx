// Totals as figures; each leads to its requests.
import { formatCost, formatCount, formatDuration, formatMany } from "../ui/format.ts";
import { listAddress, type Total } from "./figures.ts";

export function Figures({ total, period }: { total: Total; period: string }) {
  const { cost, unpriced, errors, faults, refused } = total;
  const share = errors > 0 ? `${percentOf(errors, total.requests)} of requests: ` : "";
  const kinds = errors > 0 ? `${share}${formatCount(refused)} refused, ${formatCount(faults)} broke off` : "none";
  const prices = unpriced > 0 ? `${formatMany(unpriced, "request")} without a known price` : "";
  return (
    <dl class="figures">
      <Figure name="Requests" value={formatCount(total.requests)} href={listAddress(period)} />
      <Figure name="Tokens in" value={formatCount(total.input)} href={listAddress("input>0", period)} />
      <Figure name="Tokens out" value={formatCount(total.output)} href={listAddress("output>0", period)} />
      <Figure
        name="Cost"
        value={cost === null ? "unknown" : formatCost(cost)}
        note={prices}
        href={unpriced > 0 ? listAddress("has:usage -has:cost", period) : listAddress("has:cost", period)}
      />
      <Figure
        name="Time to first token"
        value={formatDuration(total.ttft)}
        note={total.p95 === null ? "" : `95% within ${formatDuration(total.p95)}`}
        href={total.p95 === null ? "" : listAddress(`ttft>${total.p95}`, period)}
      />
      <Figure
        name="Errors"
        value={formatCount(errors)}
        note={kinds}
        bad={errors > 0}
        href={errors > 0 ? listAddress("state:broken", period) : ""}
      />
    </dl>
  );
}

function percentOf(part: number, whole: number): string {
  const share = (part / whole) * 100;
  return share < 1 ? "<1%" : `${Math.round(share)}%`;
}

interface Props {
  name: string;
  value: string;
  note?: string;
  bad?: boolean;
  /** Where its requests are. */
  href?: string;
}

export function Figure({ name, value, note = "", bad = false, href = "" }: Props) {
  return (
    <div class={bad ? "figure-box bad" : "figure-box"}>
      <dt>{name}</dt>
      <dd class="figure-value">{href ? <a href={href}>{value}</a> : value}</dd>
      {note && <dd class="figure-note">{note}</dd>}
    </div>
  );
}
