// Deletes the content of one turn: asked twice, because it cannot be undone.
import { useState } from "preact/hooks";
import { deleteTurns, keepingError } from "./keeping.ts";

export function DeleteTurn({ id, onDone }: { id: string; onDone: () => void }) {
  const [asked, setAsked] = useState(false);
  const run = async () => {
    if (!asked) return setAsked(true);
    await deleteTurns(id);
    if (!keepingError.value) onDone();
    setAsked(false);
  };
  return (
    <button
      type="button"
      class={asked ? "danger" : ""}
      title="Deletes the prompt, the answer and the frames; the row stays"
      onClick={run}
      onBlur={() => setAsked(false)}
    >
      {asked ? "Delete now" : "Delete"}
    </button>
  );
}
