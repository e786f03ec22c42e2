// The whole session on one line. What each part is, the table below says too.
import { useMemo } from "preact/hooks";
import { go } from "../router.ts";
import { overview, type Report } from "./sessions.ts";

const LABELS = { waiting: "waiting for the first token", streaming: "streaming", tools: "tools", pause: "the user" };

export function Overview({ report, now }: { report: Report; now: number }) {
  const segments = useMemo(() => overview(report, now), [report]);
  const marked = new Map(report.findings.flatMap((one) => one.turns.map((turn) => [turn, one.kind] as const)));
  const numbers = new Map(report.steps.map(({ row }, place) => [row.id, place + 1]));
  const label = `${report.steps.length} turns over time; the table below says the same`;
  return (
    <>
      <div class="overview">
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: the table below has the same turns as links */}
        <svg viewBox="0 0 1000 40" preserveAspectRatio="none" role="img" aria-label={label} onClick={open}>
          {segments.map(({ kind, start, seconds, turn }) => (
            <g key={`${turn} ${kind}`} data-turn={turn}>
              <rect
                class={`part-${kind}`}
                x={start * 1000}
                y={8}
                width={Math.max(seconds * 1000 - 0.6, 0.6)}
                height={24}
              >
                <title>{`turn ${numbers.get(turn)}: ${LABELS[kind]}`}</title>
              </rect>
              {kind === "streaming" && marked.has(turn) && (
                <rect
                  class={`mark-${marked.get(turn)}`}
                  x={start * 1000}
                  y={0}
                  width={Math.max(seconds * 1000, 3)}
                  height={5}
                />
              )}
            </g>
          ))}
        </svg>
      </div>
      <ul class="overview-legend">
        {Object.entries(LABELS).map(([kind, label]) => (
          <li key={kind}>
            <span class={`part-${kind}`} aria-hidden="true" /> {label}
          </li>
        ))}
      </ul>
    </>
  );
}

function open(event: MouseEvent): void {
  const turn = (event.target as Element).closest("[data-turn]")?.getAttribute("data-turn");
  if (turn) go("turn", turn);
}
