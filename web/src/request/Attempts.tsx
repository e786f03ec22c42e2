// Every try of a turn: where it went, what came back, what was decided, and how long each phase took.
import { useState } from "preact/hooks";
import type { Row } from "../api/types.ts";
import { CopyButton } from "../message/CodeBlock.tsx";
import { JsonView } from "../ui/JsonView.tsx";
import { describeNoStatus, describeUnsent, explainUnsent } from "./attemptOutcome.ts";
import { describeTiming, lengthOf, phasesOf } from "./timing.ts";
import type { Attempt, Decision, RequestView } from "./types.ts";

interface Props {
  view: RequestView;
  row: Row | null;
  /** Whether the turn is over. */
  done: boolean;
  /** Shows the request of a try; absent: there is no such view. */
  onShow?: (number: number) => void;
}

export function Attempts({ view, row, done, onShow }: Props) {
  const attempts = view.attempts.map(({ attempt }) => attempt);
  if (!attempts.length) {
    return <p class="hint">{describeUnsent(done, row)}</p>;
  }
  const whole = Math.max(...attempts.map(({ timing }) => timing.start + lengthOf(timing)), 0.001);
  return (
    <ol class="attempts">
      {attempts.map((attempt, number) => (
        <Try
          key={number}
          attempt={attempt}
          number={number}
          whole={whole}
          onShow={onShow && attempt.sent ? () => onShow(number) : undefined}
        />
      ))}
    </ol>
  );
}

interface TryProps {
  attempt: Attempt;
  number: number;
  whole: number;
  onShow: (() => void) | undefined;
}

function Try({ attempt, number, whole, onShow }: TryProps) {
  const { provider, model, sent, method, url, error, message, error_body, reasons, decisions } = attempt;
  return (
    <li class={error ? "attempt failed" : "attempt"} aria-label={`Try ${number + 1}`}>
      <header class="attempt-head">
        <b>{`Try ${number + 1}`}</b>
        <span>{`${provider} · ${model}`}</span>
        <Outcome attempt={attempt} />
        {onShow && (
          <button type="button" onClick={onShow}>
            Show its request
          </button>
        )}
      </header>
      {sent ? <p class="mono attempt-url">{`${method} ${url}`}</p> : <p class="soft">{explainUnsent(attempt)}</p>}
      <TimingBar attempt={attempt} whole={whole} />
      <Decisions lead="Why it was tried" decisions={reasons ?? []} />
      {error && message && <p class="attempt-error">{`${error}: ${message}`}</p>}
      {error_body && <ErrorBody text={error_body} number={number} />}
      <Decisions lead="What was decided then" decisions={decisions ?? []} />
      <Headers label="Response headers" headers={attempt.response_headers ?? {}} />
    </li>
  );
}

function Outcome({ attempt }: { attempt: Attempt }) {
  const { status, error } = attempt;
  const words = status ? `status ${status}` : describeNoStatus(attempt);
  return <span class={error ? "badge badge-bad" : "badge"}>{words}</span>;
}

function TimingBar({ attempt: { timing, error }, whole }: { attempt: Attempt; whole: number }) {
  return (
    <div class="timing">
      <div class="timing-bar" aria-hidden="true">
        <span style={{ width: `${(timing.start / whole) * 100}%` }} />
        {phasesOf(timing).map(({ name, seconds }) => (
          <span key={name} class={`phase-${name}`} style={{ width: `${(seconds / whole) * 100}%` }} />
        ))}
      </div>
      <p class="soft">{describeTiming(timing, Boolean(error))}</p>
    </div>
  );
}

function ErrorBody({ text, number }: { text: string; number: number }) {
  return (
    <section class="error-body" aria-label={`What the provider answered to try ${number + 1}`}>
      <p class="card-label">
        <span>What the provider answered</span>
        <CopyButton text={text} what="the provider's answer" />
      </p>
      <JsonView text={text} />
    </section>
  );
}

function Decisions({ lead, decisions }: { lead: string; decisions: Decision[] }) {
  if (!decisions.length) return null;
  return (
    <section aria-label={lead}>
      <p class="soft">{`${lead}:`}</p>
      <ul class="decisions">
        {decisions.map(({ what, why }, index) => (
          <li key={index}>
            <b>{what}</b> {why}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Headers, folded: there are many, and few are interesting. */
export function Headers({
  label,
  headers,
  open = false,
}: {
  label: string;
  headers: Record<string, string>;
  open?: boolean;
}) {
  const [shown, setShown] = useState(open);
  const rows = Object.entries(headers);
  if (!rows.length) return null;
  return (
    <section class="headers" aria-label={label}>
      <button type="button" class="link" aria-expanded={shown} onClick={() => setShown(!shown)}>
        {`${shown ? "Hide" : "Show"} ${label.toLowerCase()} (${rows.length})`}
      </button>
      {shown && (
        <dl class="about">
          {rows.map(([name, value]) => (
            <div key={name}>
              <dt class="mono">{name}</dt>
              <dd class="mono">{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}
