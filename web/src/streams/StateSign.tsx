// A turn's state in a colour and a word.
import type { Row, State } from "../api/types.ts";

const LOOKS: Record<State, { label: string; tone: string }> = {
  open: { label: "waiting", tone: "wait" },
  streaming: { label: "streaming", tone: "run" },
  finish: { label: "finished", tone: "good" },
  fault: { label: "fault", tone: "bad" },
  cancelled: { label: "cancelled", tone: "warn" },
  refused: { label: "refused", tone: "bad" },
};

export function StateSign({ row }: { row: Row }) {
  const look = LOOKS[row.state] ?? LOOKS.finish;
  const word = row.state === "finish" && row.finish ? row.finish : look.label;
  return (
    <span class={`state ${look.tone}`} title={row.state === "finish" ? `finished: ${row.finish}` : look.label}>
      <span class="state-dot" aria-hidden="true" />
      {word}
      {row.times > 1 && ` ×${row.times}`}
    </span>
  );
}
