// The tokens of a turn's prompt: the whole, its parts as a bar, and each part with its share and bounds.
import "./breakdown.css";
import { useEffect, useState } from "preact/hooks";
import { explain } from "../api/client.ts";
import type { Breakdown, BreakdownLine } from "../api/types.ts";
import { describeUncertain } from "../tokens/uncertain.ts";
import { formatMany } from "../ui/format.ts";
import { colourOf, describeBounds, describeTotal, formatShare, lineName, sumKinds } from "./breakdown.ts";

export type LoadBreakdown = () => Promise<Breakdown>;
const FIRST_LINES = 60;

/** `turn`: what the breakdown is of; another one is asked for when it changes. */
export function BreakdownPane({ load, turn }: { load: LoadBreakdown; turn: string }) {
  const [found, setFound] = useState<Breakdown | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let gone = false;
    load().then(
      (breakdown) => gone || setFound(breakdown),
      (why) => gone || setError(explain(why)),
    );
    return () => {
      gone = true;
    };
  }, [turn]);
  if (error) return <p class="error">{error}</p>;
  if (!found) return <p class="hint">Counting…</p>;
  return <BreakdownView found={found} />;
}

export function BreakdownView({ found }: { found: Breakdown }) {
  if (found.lost) {
    return (
      <div class="breakdown">
        <p class="bare-why">{`${found.lost}.`}</p>
        {found.actual !== null && <p>{`The provider counted ${formatMany(found.actual, "input token")} in all.`}</p>}
      </div>
    );
  }
  return (
    <div class="breakdown">
      <p class="breakdown-total">
        <b>{found.tokens.toLocaleString("en")}</b> {found.tokens === 1 ? "input token" : "input tokens"}
        <span>{` ${found.model || "any model"}, counted as ${found.family}`}</span>
      </p>
      <p class="soft">{describeTotal(found).join(" ")}</p>
      <Kinds lines={found.lines} />
      <Lines lines={found.lines} />
      <Guesses uncertain={found.uncertain} />
    </div>
  );
}

/** What kind of part has which share of the whole. */
function Kinds({ lines }: { lines: BreakdownLine[] }) {
  const sums = sumKinds(lines);
  return (
    <section aria-label="By kind">
      <div class="shares-bar" aria-hidden="true">
        {sums.map(({ kind, share }) => (
          <span key={kind} class={`swatch-${colourOf(kind)}`} style={{ width: `${share * 100}%` }} />
        ))}
      </div>
      <dl class="breakdown-kinds">
        {sums.map(({ kind, label, tokens, share }) => (
          <div key={kind}>
            <dt>
              <span class={`swatch swatch-${colourOf(kind)}`} aria-hidden="true" />
              {label}
            </dt>
            <dd>{`${tokens.toLocaleString("en")} (${formatShare(share)})`}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Lines({ lines }: { lines: BreakdownLine[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? lines : lines.slice(0, FIRST_LINES);
  const widest = lines.reduce((most, line) => Math.max(most, line.share), 0) || 1;
  return (
    <section aria-label="Part by part">
      <ol class="breakdown-lines">
        {shown.map((line) => (
          <li key={`${line.kind} ${line.message ?? line.what}`}>
            <p class="breakdown-line">
              <span class="cut" title={line.about}>
                <b>{lineName(line)}</b>
                {line.about && <span class="soft">{` ${line.about}`}</span>}
              </span>
              <span class="breakdown-number">{`${line.tokens.toLocaleString("en")} (${formatShare(line.share)})`}</span>
            </p>
            <div class="breakdown-bar" aria-hidden="true">
              <span class={`swatch-${colourOf(line.kind)}`} style={{ width: `${(line.share / widest) * 100}%` }} />
            </div>
            <p class="breakdown-bounds">{describeBounds(line)}</p>
          </li>
        ))}
      </ol>
      {shown.length < lines.length && (
        <button type="button" onClick={() => setAll(true)}>
          {`Show all ${lines.length.toLocaleString("en")} parts`}
        </button>
      )}
    </section>
  );
}

/** What of the request could only be guessed. */
function Guesses({ uncertain }: { uncertain: Record<string, number> }) {
  const known = Object.keys(uncertain).flatMap((kind) => describeUncertain(kind) ?? []);
  if (known.length === 0) return null;
  return (
    <section aria-label="What is guessed">
      <h3 class="about-head">What is guessed</h3>
      {known.map(({ have, why, help }) => (
        <p key={have} class="note">
          {`Requests like this one ${have}. ${why} ${help}`}
        </p>
      ))}
    </section>
  );
}
