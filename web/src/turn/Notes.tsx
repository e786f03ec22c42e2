// What the request lost, and the diagnostics, losses and faults of the answer.
import type { Mark, Row } from "../api/types.ts";
import { describeUnsent } from "../request/attemptOutcome.ts";
import { Losses } from "../request/Losses.tsx";
import type { Loaded } from "../request/useRequest.ts";
import { Icon } from "../ui/Icon.tsx";
import { placeOf, type TurnModel } from "./model.ts";

export function Note({ mark, onGo }: { mark: Mark; onGo?: (() => void) | undefined }) {
  return (
    <div class={`note ${mark.level}`}>
      <span class={`sign ${mark.level}`} role="img" aria-label={mark.level}>
        <Icon name={mark.level === "info" ? "info" : "warn"} />
      </span>
      <p>
        <code>{mark.code}</code> {mark.message}
      </p>
      {onGo && (
        <button type="button" class="link" onClick={onGo}>
          show
        </button>
      )}
    </div>
  );
}

/** How many losses of the request are known: those of the last try. */
export function lossesOf(request: Loaded | undefined) {
  const view = request?.view;
  return view ? view.losses.filter((loss) => loss.attempt === view.attempts.length - 1) : [];
}

export function Notes({ model, request }: { model: TurnModel; request?: Loaded | undefined }) {
  const { done, row } = model.trace.value;
  return (
    <>
      <h3 class="about-head">The request</h3>
      <RequestNotes request={request} done={done} row={row} />
      <h3 class="about-head">The answer</h3>
      <AnswerNotes model={model} />
    </>
  );
}

function RequestNotes({ request, done, row }: { request: Loaded | undefined; done: boolean; row: Row | null }) {
  const losses = lossesOf(request);
  if (losses.length) return <Losses losses={losses} />;
  if (request && !request.view && !request.unknown) return <p class="hint">{request.error || "Asking …"}</p>;
  if (!request?.view) {
    const why = request?.error || "there is no request here";
    return <p class="hint">{`Whether the request lost something is not known: ${why}.`}</p>;
  }
  if (!request.view.attempts.length) return <p class="hint">{describeUnsent(done, row)}</p>;
  return <p class="hint">Nothing of the request was lost or repaired.</p>;
}

function AnswerNotes({ model }: { model: TurnModel }) {
  const { marks, frames, lost } = model.trace.value;
  if (!marks.length) {
    const known = frames.length > 0 && !lost;
    return <p class="hint">{known ? "Nothing of the answer was lost, and nothing was odd." : "Nothing is known."}</p>;
  }
  return (
    <div class="notes">
      {marks.slice(0, 500).map((mark, index) => {
        const place = placeOf(mark);
        return <Note key={index} mark={mark} onGo={place ? () => model.choose(place) : undefined} />;
      })}
      {marks.length > 500 && <p class="hint">{`and ${marks.length - 500} more`}</p>}
    </div>
  );
}
