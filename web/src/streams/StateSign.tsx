// A turn's state in a colour and a word.
import type { Row } from "../api/types.ts";
import { lookOf } from "./states.ts";

export function StateSign({ row }: { row: Row }) {
  const { label, tone, about } = lookOf(row);
  return (
    <span class={`state ${tone}`} title={about}>
      <span class="state-dot" aria-hidden="true" />
      {label}
      {row.times > 1 && ` ×${row.times}`}
    </span>
  );
}
