// The whole session on one line. What each part is, the table below says too.
import { useMemo } from "preact/hooks";
import { go } from "../router.ts";
import { formatMany } from "../ui/format.ts";
import { overview, type Report, type Segment } from "./sessions.ts";

const LABELS = {
  waiting: "waiting for the first token",
  streaming: "streaming",
  tools: "running tools",
  client: "waiting for the client",
  user: "waiting for the user, shortened",
};

export function Overview({ report, now }: { report: Report; now: number }) {
  const segments = useMemo(() => overview(report, now), [report, report.session.running ? now : 0]);
  const marked = new Map(
    report.findings.flatMap(({ kind, where, turns }) =>
      turns.map((turn) => [`${where === "gap" ? "gap" : "turn"} ${turn}`, kind] as const),
    ),
  );
  const markOf = ({ kind, turn }: Segment) =>
    marked.get(`${kind === "waiting" || kind === "streaming" ? "turn" : "gap"} ${turn}`);
  const numbers = new Map(report.steps.map(({ row }, place) => [row.id, place + 1]));
  const shown = new Set<string>(segments.map(({ kind }) => kind));
  const label = `${formatMany(report.steps.length, "turn")} over time; the table below says the same`;
  return (
    <>
      <div class="overview">
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: the table below has the same turns as links */}
        <svg viewBox="0 0 1000 40" preserveAspectRatio="none" role="img" aria-label={label} onClick={open}>
          <defs>
            <Stripes kind="client" width={8} />
            <Stripes kind="user" width={4} />
          </defs>
          {segments.map((segment) => {
            const { kind, start, seconds, turn } = segment;
            const mark = markOf(segment);
            return (
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
                {mark && (
                  <rect class={`mark-${mark}`} x={start * 1000} y={0} width={Math.max(seconds * 1000, 1)} height={5} />
                )}
              </g>
            );
          })}
        </svg>
      </div>
      <ul class="overview-legend">
        {Object.entries(LABELS)
          .filter(([kind]) => shown.has(kind))
          .map(([kind, label]) => (
            <li key={kind}>
              <span class={`part-${kind}`} aria-hidden="true" /> {label}
            </li>
          ))}
      </ul>
    </>
  );
}

/** The two kinds of waiting have stripes, so that they are not told apart by their colour alone. */
function Stripes({ kind, width }: { kind: "client" | "user"; width: number }) {
  return (
    <pattern id={`stripes-${kind}`} width={width} height={width} patternUnits="userSpaceOnUse">
      <rect class={`stripe-${kind}`} width={width / 2} height={width} />
    </pattern>
  );
}

function open(event: MouseEvent): void {
  const turn = (event.target as Element).closest("[data-turn]")?.getAttribute("data-turn");
  if (turn) go("turn", turn);
}
