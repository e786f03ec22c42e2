// What the turn is, how it went, and for whom it is shown.
import type { ComponentChildren } from "preact";
import type { Row, Trace } from "../api/types.ts";
import { StateSign } from "../streams/StateSign.tsx";
import { formatCost, formatCount, formatDuration, formatRate, NOTHING } from "../ui/format.ts";

interface Props {
  trace: Trace;
  onConsumer?: ((consumer: string) => void) | undefined;
  children?: ComponentChildren;
}

export function TurnHead({ trace, onConsumer, children }: Props) {
  const { row } = trace;
  return (
    <header class="turn-head">
      <div class="turn-name">
        <h1 class="cut">{row?.asked || row?.model || trace.title || "Turn"}</h1>
        {row && <StateSign row={row} />}
      </div>
      <p class="turn-way">
        <span class="protocol">{trace.protocol}</span>
        <span aria-hidden="true">→</span>
        <span class="unseen">to</span>
        {onConsumer ? (
          <Consumers trace={trace} onConsumer={onConsumer} />
        ) : (
          <span class="protocol">{trace.consumer}</span>
        )}
      </p>
      {row && <Facts row={row} />}
      <div class="turn-actions">{children}</div>
    </header>
  );
}

function Consumers({ trace, onConsumer }: { trace: Trace; onConsumer: (consumer: string) => void }) {
  const own = trace.row?.protocol;
  return (
    <label class="consumers">
      <span class="unseen">As a client of this protocol gets it</span>
      <select value={trace.consumer} onChange={(event) => onConsumer(event.currentTarget.value)}>
        {trace.consumers.map((consumer) => (
          <option key={consumer} value={consumer}>
            {consumer === own ? `${consumer} (its client)` : consumer}
          </option>
        ))}
      </select>
    </label>
  );
}

function Facts({ row }: { row: Row }) {
  const facts: [string, string][] = [
    ["time to first token", formatDuration(row.ttft)],
    ["took", formatDuration(row.duration)],
    ["tokens/s", formatRate(row.rate)],
    ["in", formatCount(row.input)],
    ["out", formatCount(row.output)],
    ["cost", formatCost(row.cost)],
  ];
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value !== NOTHING)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
