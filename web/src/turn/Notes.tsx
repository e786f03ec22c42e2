// Diagnostics, losses and faults of a turn.
import type { Mark } from "../api/types.ts";
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

export function Notes({ model }: { model: TurnModel }) {
  const { marks } = model.trace.value;
  if (!marks.length) return <p class="hint">Nothing was lost, and nothing was odd.</p>;
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
