// Above the list: that two turns are chosen to be compared.
import "./compare.css";
import { choosing, first, startChoosing, stopChoosing } from "./marking.ts";

export function CompareButton() {
  return (
    <button type="button" aria-pressed={choosing.value} onClick={choosing.value ? stopChoosing : startChoosing}>
      Compare
    </button>
  );
}

export function MarkBar() {
  if (!choosing.value) return null;
  const marked = first.value;
  return (
    <div class="mark-bar" role="status">
      {marked ? (
        <p>
          {"Choose the turn to compare with "}
          <strong>{marked.label}</strong>.
        </p>
      ) : (
        <p>Choose the first of two turns.</p>
      )}
      <button type="button" onClick={stopChoosing}>
        Cancel
      </button>
    </div>
  );
}
