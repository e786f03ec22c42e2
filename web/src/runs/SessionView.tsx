// One session: its totals, what is odd in it, its turns as bars, and the growth of its context.
import { formatRoute, go } from "../router.ts";
import { formatCount, formatDuration, formatManyShort, formatTime } from "../ui/format.ts";
import { Icon } from "../ui/Icon.tsx";
import { useKeys } from "../ui/keys.ts";
import { visibleText } from "../ui/visibleText.ts";
import { Figure } from "../usage/Figures.tsx";
import { ContextPlot } from "./ContextPlot.tsx";
import { Overview } from "./Overview.tsx";
import { costOf, countOf, named } from "./RunsView.tsx";
import { StepTable } from "./StepTable.tsx";
import { describeContext, type Finding, type Report, share } from "./sessions.ts";
import { useFresh, useNow } from "./useSession.ts";

export function SessionView({ id }: { id: string }) {
  const { found, error } = useFresh<Report>(`/inspector/sessions/${encodeURIComponent(id)}`);
  const now = useNow(found?.session.running ?? false);
  useKeys("This session", [{ keys: ["Escape"], label: "Back to the sessions", run: () => go("runs") }]);
  if (!found) {
    return (
      <div class="notice">
        <h1>{error ? "This session cannot be shown" : "Asking for the session …"}</h1>
        {error && <p>{error}</p>}
        <p>
          <a href={formatRoute("runs")}>All sessions</a>
        </p>
      </div>
    );
  }
  const { session, steps, findings } = found;
  return (
    <>
      <header class="runs-head">
        <h1 class="runs-name">{visibleText(session.title) || "A session without words"}</h1>
        <p class="soft">
          {visibleText(session.client) || "a client without a name"}
          {named(session) && ` · ${session.key}`} · {visibleText(session.models.join(", "))} ·{" "}
          {formatTime(session.began)}
        </p>
        <a class="button" href={formatRoute("runs")}>
          <Icon name="left" /> Runs
        </a>
      </header>
      {error && (
        <p class="runs-error" role="alert">
          {error}
        </p>
      )}
      {session.forked_from && (
        <p>
          It branched off from <a href={formatRoute("runs", session.forked_from)}>another session</a>, which was busy
          with another turn at that time.
        </p>
      )}
      <dl class="figures">
        <Figure name="Turns" value={formatCount(session.turns)} note={session.running ? "one is running" : ""} />
        <Figure name="Took" value={formatDuration(session.ended - session.began)} />
        <Figure
          name="Tokens in"
          value={countOf(session, session.input)}
          note={`${share(session.cached, session.input)} cached`}
        />
        <Figure
          name="Tokens out"
          value={countOf(session, session.output)}
          note={unknownOf(session.uncounted, session.output)}
        />
        <Figure name="Cost" value={costOf(session)} note={unknownOf(session.unpriced, session.cost)} />
        <Figure name="Faults" value={formatCount(session.faults)} bad={session.faults > 0} />
      </dl>
      <Findings findings={findings} report={found} />
      <section class="plot-card" aria-label="Timeline">
        <h2>Timeline</h2>
        <Overview report={found} now={now} />
      </section>
      <section class="plot-card" aria-label="Context">
        <h2>
          Context <span>{describeContext(steps)}</span>
        </h2>
        <ContextPlot steps={steps} />
      </section>
      <StepTable report={found} now={now} />
    </>
  );
}

/** `sum`: what is known of the others. */
function unknownOf(turns: number, sum: number | null): string {
  const of = `not known of ${formatManyShort(turns, "turn")}`;
  return turns > 0 ? (sum === null ? of : `at least: ${of}`) : "";
}

function Findings({ findings, report }: { findings: Finding[]; report: Report }) {
  if (findings.length === 0) return null;
  const numbers = new Map(report.steps.map(({ row }, place) => [row.id, place + 1]));
  return (
    <ul class="runs-findings" aria-label="Stalls and loops">
      {findings.map((finding) => (
        <li key={`${finding.kind} ${finding.where} ${finding.turn}`} class={finding.kind}>
          <Icon name="warn" />
          <span>
            <strong>{finding.kind === "loop" ? "Loop" : "Stall"}</strong>{" "}
            <a href={formatRoute("turn", finding.turn)}>{describePlace(finding, numbers)}</a>: {finding.words}.
          </span>
        </li>
      ))}
    </ul>
  );
}

function describePlace({ where, turn, turns }: Finding, numbers: Map<string, number>): string {
  const number = numbers.get(turn) ?? 0;
  if (where === "gap") return `before turn ${number}`;
  const first = numbers.get(turns[0] ?? "") ?? number;
  return first < number ? `turns ${first} to ${number}` : `turn ${number}`;
}
