// The turns of a session one after the other, with what ran between them. A bar is as long as it took.
import { formatRoute } from "../router.ts";
import { StateSign } from "../streams/StateSign.tsx";
import { formatCost, formatCount, formatDuration } from "../ui/format.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { visibleText } from "../ui/visibleText.ts";
import {
  atLeast,
  barScale,
  describeGap,
  type Finding,
  LINK_WORDS,
  type Report,
  runningTotals,
  type Step,
  share,
  type Total,
  toolNames,
  turnParts,
} from "./sessions.ts";

const HEADS = ["Took", "Context", "Cached", "Out", "Cost", "Total cost"];
const MINOR = new Set(["Cached", "Out", "Cost"]); // where there is no room

export function StepTable({ report, now }: { report: Report; now: number }) {
  const scale = barScale(report, now);
  const totals = runningTotals(report.steps);
  return (
    <Sheet caption="Turns of the session">
      <thead>
        <tr>
          <th scope="col">Turn</th>
          <th scope="col">Time</th>
          {HEADS.map((head) => (
            <th key={head} scope="col" class={MINOR.has(head) ? "figure minor" : "figure"}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      {report.steps.map((step, place) => (
        <tbody key={step.row.id} class="run-step">
          {step.gap && <GapLine step={step} scale={scale} findings={report.findings} />}
          <TurnLine
            step={step}
            number={place + 1}
            scale={scale}
            now={now}
            total={totals[place]}
            findings={report.findings.filter(({ where, turns }) => where !== "gap" && turns.includes(step.row.id))}
          />
        </tbody>
      ))}
    </Sheet>
  );
}

interface GapProps {
  step: Step;
  scale: number;
  findings: Finding[];
}

function GapLine({ step, scale, findings }: GapProps) {
  const { gap } = step;
  if (!gap) return null;
  const stalled = findings.some(({ where, turn }) => where === "gap" && turn === step.row.id);
  return (
    <tr class={stalled ? "gap-line stalled" : "gap-line"}>
      <td />
      <td colSpan={7}>
        <span class="bars" aria-hidden="true">
          {gap.kind !== "user" && <Bar kind={gap.kind} seconds={gap.seconds} scale={scale} />}
        </span>
        <span title={visibleText(gap.calls.map(({ name, preview }) => `${name} ${preview}`).join("\n"))}>
          {describeGap(gap)}
          {gap.calls.some(({ failed }) => failed) && " (failed)"}
        </span>
        {stalled && <span class="run-tag warn">stall</span>}
      </td>
    </tr>
  );
}

interface TurnProps {
  step: Step;
  number: number;
  scale: number;
  now: number;
  total: Total | undefined;
  findings: Finding[];
}

function TurnLine({ step, number, scale, now, total, findings }: TurnProps) {
  const { row, calls, link } = step;
  const { waiting, streaming } = turnParts(row, now);
  const kinds = new Set(findings.map(({ kind }) => kind));
  return (
    <tr class={[...kinds].join(" ")}>
      <th scope="row">
        <a href={formatRoute("turn", row.id)}>{number}</a>
      </th>
      <td class="step-time">
        <span class="bars" aria-hidden="true">
          <Bar kind="waiting" seconds={waiting} scale={scale} />
          <Bar kind="streaming" seconds={streaming} scale={scale} taken={waiting / scale} />
        </span>
        <span class="step-words">
          <StateSign row={row} />
          {calls.length > 0 && <span class="step-calls">{toolNames(calls)}</span>}
          {LINK_WORDS[link] && <span class="run-tag">{LINK_WORDS[link]}</span>}
          {kinds.has("loop") && <span class="run-tag bad">loop</span>}
          {kinds.has("stall") && <span class="run-tag warn">stall</span>}
        </span>
      </td>
      <td class="figure step-took">{formatDuration(row.duration ?? Math.max(0, now - row.time))}</td>
      <td class="figure">{formatCount(row.input)}</td>
      <td class="figure minor">{share(row.cached, row.input)}</td>
      <td class="figure minor">{formatCount(row.output)}</td>
      <td class="figure minor">{formatCost(row.cost)}</td>
      <td class="figure">{total && atLeast(formatCost(total.cost), total.cost !== null, total.unpriced)}</td>
    </tr>
  );
}

const BAR_WORDS = {
  waiting: "until the first token",
  streaming: "streaming",
  tools: "running tools",
  client: "waiting for the client",
};

interface BarProps {
  kind: "waiting" | "streaming" | "tools" | "client";
  seconds: number;
  scale: number;
  /** How much of the width is taken, from 0 to 1. */
  taken?: number;
}

function Bar({ kind, seconds, scale, taken = 0 }: BarProps) {
  const wanted = seconds / scale;
  const room = Math.max(1 - taken, 0);
  return (
    <span
      class={`bar-part part-${kind}${wanted > room + 0.001 ? " long" : ""}`}
      title={`${BAR_WORDS[kind]} ${formatDuration(seconds)}`}
      style={{ width: `${Math.max(Math.min(wanted, room) * 100, 0.3)}%` }}
    />
  );
}
