// What the turn is, how it went, and for whom it is shown.
import type { ComponentChildren } from "preact";
import type { Row, Trace } from "../api/types.ts";
import { StateSign } from "../streams/StateSign.tsx";
import { formatCost, formatCount, formatDuration, formatRate, NOTHING } from "../ui/format.ts";
import { visibleText } from "../ui/visibleText.ts";
import { formatTurnName } from "./turnName.ts";

interface Props {
  trace: Trace;
  onConsumer?: ((consumer: string) => void) | undefined;
  /** The provider's protocol in the view of the request, which goes from the client to the provider. */
  sentAs?: string | undefined;
  children?: ComponentChildren;
}

export function TurnHead({ trace, onConsumer, sentAs, children }: Props) {
  const { row } = trace;
  return (
    <header class="turn-head">
      <div class="turn-name">
        <h1 class="cut">{visibleText(formatTurnName(trace))}</h1>
        {row && <StateSign row={row} />}
      </div>
      {sentAs === undefined ? (
        <p class="turn-way" title="The answer: from the provider to the client">
          <span class="protocol">{trace.protocol}</span>
          <Arrow />
          {onConsumer ? (
            <Consumers trace={trace} onConsumer={onConsumer} />
          ) : (
            <span class="protocol">{trace.consumer}</span>
          )}
        </p>
      ) : (
        <RequestWay from={row?.protocol || trace.consumer} to={sentAs} />
      )}
      {row && <Facts row={row} />}
      <div class="turn-actions">{children}</div>
    </header>
  );
}

function Arrow() {
  return (
    <>
      <span aria-hidden="true">→</span>
      <span class="unseen">to</span>
    </>
  );
}

/** From the client over the gateway to the provider, if it went so far. */
function RequestWay({ from, to }: { from: string; to: string }) {
  return (
    <p class="turn-way" title="The request: from the client over the gateway to the provider">
      <span>client</span>
      <span class="protocol">{from}</span>
      <Arrow />
      <span>gateway</span>
      {to && (
        <>
          <Arrow />
          <span>provider</span>
          <span class="protocol">{to}</span>
        </>
      )}
    </p>
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
