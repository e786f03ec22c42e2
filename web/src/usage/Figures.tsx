// Totals as figures.
import { formatCost, formatCount, formatDuration } from "../ui/format.ts";
import type { Total } from "./figures.ts";

export function Figures({ total }: { total: Total }) {
  const share = total.requests > 0 ? (total.faults / total.requests) * 100 : 0;
  const faults = total.faults > 0 ? `${share < 1 ? "<1" : Math.round(share)}% of turns` : "none broke off";
  return (
    <dl class="figures">
      <Figure name="Turns" value={formatCount(total.requests)} />
      <Figure name="Tokens in" value={formatCount(total.input)} />
      <Figure name="Tokens out" value={formatCount(total.output)} />
      <Figure name="Cost" value={formatCost(total.cost)} note="where prices are known" />
      <Figure name="First token" value={formatDuration(total.ttft)} note={`95% within ${formatDuration(total.p95)}`} />
      <Figure name="Faults" value={formatCount(total.faults)} note={faults} bad={total.faults > 0} />
    </dl>
  );
}

interface Props {
  name: string;
  value: string;
  note?: string;
  bad?: boolean;
}

export function Figure({ name, value, note = "", bad = false }: Props) {
  return (
    <div class={bad ? "figure-box bad" : "figure-box"}>
      <dt>{name}</dt>
      <dd class="figure-value">{value}</dd>
      {note && <dd class="figure-note">{note}</dd>}
    </div>
  );
}
