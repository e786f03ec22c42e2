// Two turns side by side: figures, request, answer, calls.
import "./compare.css";
import { useMemo } from "preact/hooks";
import type { Trace } from "../api/types.ts";
import { MessageView } from "../message/MessageView.tsx";
import { formatRoute, go } from "../router.ts";
import { StateSign } from "../streams/StateSign.tsx";
import { formatTurnName } from "../turn/turnName.ts";
import { DiffView } from "../ui/DiffView.tsx";
import { formatTime } from "../ui/format.ts";
import { linesOfJson } from "../ui/jsonText.ts";
import { useKeys } from "../ui/keys.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { useSubject } from "../ui/title.ts";
import { visibleText } from "../ui/visibleText.ts";
import { compareAddress, comparedTurns } from "./address.ts";
import { type Answer, missingAnswer, readAnswer } from "./answers.ts";
import { compareFigures } from "./figures.ts";
import { type LoadedTrace, useTrace } from "./useTrace.ts";

export function CompareView({ id }: { id: string }) {
  const [one, two] = comparedTurns(id);
  const first = useTrace(one);
  const second = useTrace(two);
  useSubject(first.trace && second.trace ? `${formatTurnName(first.trace)}, ${formatTurnName(second.trace)}` : "");
  useKeys("Compare", [{ keys: ["Escape"], label: "Back to the list", run: () => go("streams") }]);
  return (
    <div class="scrolling">
      <div class="compare">
        <header class="compare-head">
          <h1>Two turns compared</h1>
          {two && (
            <a class="button" href={compareAddress(two, one)}>
              Swap
            </a>
          )}
          <a class="button" href={formatRoute("streams")}>
            Streams
          </a>
        </header>
        <div class="compare-pair">
          <TurnName id={one} loaded={first} letter="A" />
          {two ? <TurnName id={two} loaded={second} letter="B" /> : <NoSecond />}
        </div>
        {first.trace && second.trace && <Compared first={first.trace} second={second.trace} />}
      </div>
    </div>
  );
}

function TurnName({ id, loaded, letter }: { id: string; loaded: LoadedTrace; letter: string }) {
  const { trace, error } = loaded;
  return (
    <div class="compare-turn">
      <h2>
        <span class="compare-letter">{letter}</span>{" "}
        <a href={formatRoute("turn", id)}>{visibleText(trace ? formatTurnName(trace) : id || "?")}</a>
      </h2>
      {trace?.row && (
        <p class="soft">
          <StateSign row={trace.row} /> {formatTime(trace.row.time)}
        </p>
      )}
      {error && <p class="send-error">{error}</p>}
      {!trace && !error && <p class="soft">Loading …</p>}
    </div>
  );
}

/** The address names one turn only. */
function NoSecond() {
  return (
    <div class="compare-turn">
      <h2>
        <span class="compare-letter">B</span> No second turn
      </h2>
      <p class="soft">
        {"Choose it in the list: "}
        <a href={formatRoute("streams")}>Streams</a>
        {", Compare, then two rows."}
      </p>
    </div>
  );
}

function Compared({ first, second }: { first: Trace; second: Trace }) {
  return (
    <>
      <Figures first={first} second={second} />
      <Answers first={first} second={second} />
      <Requests first={first} second={second} />
    </>
  );
}

function Figures({ first, second }: { first: Trace; second: Trace }) {
  if (!first.row || !second.row) return null;
  return (
    <section aria-labelledby="compare-figures">
      <h2 id="compare-figures">Figures</h2>
      <Sheet caption="Figures of both turns">
        <thead>
          <tr>
            <th scope="col">Figure</th>
            <th scope="col">A</th>
            <th scope="col">B</th>
            <th scope="col">B compared with A</th>
          </tr>
        </thead>
        <tbody>
          {compareFigures(first.row, second.row).map((figure) => (
            <tr key={figure.name} class={figure.difference ? "differs" : ""}>
              <th scope="row">{figure.name}</th>
              <td>{figure.first}</td>
              <td>{figure.second}</td>
              <td>{figure.difference}</td>
            </tr>
          ))}
        </tbody>
      </Sheet>
    </section>
  );
}

function Requests({ first, second }: { first: Trace; second: Trace }) {
  const before = useMemo(() => linesOfJson(first.request), [first.request]);
  const after = useMemo(() => linesOfJson(second.request), [second.request]);
  const missing = [first, second].map(({ request, request_lost = "" }) => (request ? "" : request_lost || "not known"));
  return (
    <section aria-labelledby="compare-requests">
      <h2 id="compare-requests">Request</h2>
      {missing.some(Boolean) ? (
        <Missing what="request" reasons={missing} />
      ) : (
        <DiffView
          before={before}
          after={after}
          label="Differences of the requests"
          same="Both requests are the same."
        />
      )}
    </section>
  );
}

/** Why there is nothing to compare. `reasons`: of A and of B; "" for one that is here. */
function Missing({ what, reasons }: { what: string; reasons: string[] }) {
  return (
    <>
      {reasons.map((why, index) => {
        const name = index ? "B" : "A";
        return why && <p key={name} class="hint">{`The ${what} of ${name} is not here: ${why}.`}</p>;
      })}
    </>
  );
}

function Answers({ first, second }: { first: Trace; second: Trace }) {
  const before = useMemo(() => readAnswer(first.events), [first.events, first.events.length]);
  const after = useMemo(() => readAnswer(second.events), [second.events, second.events.length]);
  const missing = [missingAnswer(first, before), missingAnswer(second, after)];
  return (
    <section aria-labelledby="compare-answers">
      <h2 id="compare-answers">Answer</h2>
      <div class="compare-pair">
        <Message trace={first} label="Answer of A" />
        <Message trace={second} label="Answer of B" />
      </div>
      {missing.some(Boolean) ? <Missing what="answer" reasons={missing} /> : <AnswerDiffs {...{ before, after }} />}
    </section>
  );
}

function AnswerDiffs({ before, after }: { before: Answer; after: Answer }) {
  return (
    <>
      <h3>Text</h3>
      <DiffView
        before={before.text}
        after={after.text}
        label="Differences of the texts"
        same="Both texts are the same."
      />
      {before.reasoning.length + after.reasoning.length > 0 && (
        <>
          <h3>Reasoning</h3>
          <DiffView
            before={before.reasoning}
            after={after.reasoning}
            label="Differences of the reasoning"
            same="Both have the same reasoning."
          />
        </>
      )}
      {before.calls.length + after.calls.length > 0 && (
        <>
          <h3>Tool calls</h3>
          <DiffView
            before={before.calls}
            after={after.calls}
            label="Differences of the calls"
            same="Both call the same."
          />
        </>
      )}
    </>
  );
}

function Message({ trace, label }: { trace: Trace; label: string }) {
  const { events, done, lost } = trace;
  return (
    // biome-ignore-start lint/a11y: a box that scrolls must be reachable by keys; it is not a landmark
    <div class="compare-message" tabIndex={0} role="group" aria-label={label}>
      {events.length > 0 ? (
        <MessageView events={events} upto={events.length} live={!done} faultBy={trace.fault_by} />
      ) : (
        <p class="hint">{lost}</p>
      )}
    </div>
    // biome-ignore-end lint/a11y: .
  );
}
