// The row of a turn in full: who asked, who answered, what was decided on the way, what was spent.
import type { Row } from "../api/types.ts";
import { formatCost, formatCount, formatDuration } from "../ui/format.ts";
import { visibleText } from "../ui/visibleText.ts";

type Fact = [name: string, value: string];

/** The HTTP status that the client got; "" while it has none. */
function statusOf({ http, state }: Row): string {
  return http && state !== "open" ? String(http) : "";
}

function facts(row: Row): Fact[] {
  const bounds = `${row.low ?? "?"} to ${row.high ?? "?"}${row.method ? `, ${row.method}` : ""}`;
  const estimate = row.estimate === null ? "" : `${formatCount(row.estimate)} (${bounds})`;
  const all: Fact[] = [
    ["id", row.id],
    ["began", new Date(row.time * 1000).toLocaleString("en-GB")],
    ["client", row.client],
    ["key", row.key],
    ["route", `${row.route}${row.stream ? " (streamed)" : ""}`],
    ["asked for", row.asked],
    ["model", row.model],
    ["provider", row.provider],
    ["engine", row.engine],
    [
      "protocols",
      row.upstream ? `${row.upstream} → ${row.protocol}${row.tee ? ", passed through unchanged" : ""}` : "",
    ],
    ["time to first token", row.ttft === null ? "" : formatDuration(row.ttft)],
    ["took", row.duration === null ? "" : formatDuration(row.duration)],
    ["status", statusOf(row)],
    ["finish", row.finish],
    ["input", count(row.input, row.cached, "cached")],
    ["estimated", estimate],
    ["output", count(row.output, row.reasoning, "reasoning")],
    ["cost", row.cost === null ? "" : formatCost(row.cost)],
    ["fault", [row.fault, row.message].filter(Boolean).join(": ")],
  ];
  return all.filter(([, value]) => value !== "").map(([name, value]) => [name, visibleText(value)]);
}

function count(whole: number | null, part: number | null, word: string): string {
  if (whole === null) return "";
  return part ? `${formatCount(whole)}, ${formatCount(part)} of it ${word}` : formatCount(whole);
}

export function About({ row }: { row: Row }) {
  return (
    <>
      <dl class="about">
        {facts(row).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {row.decisions.length > 0 && (
        <>
          <h3 class="about-head">Decisions</h3>
          <ol class="decisions">
            {row.decisions.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ol>
        </>
      )}
    </>
  );
}
