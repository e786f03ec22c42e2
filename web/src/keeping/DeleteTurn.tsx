// Deletes the content of one turn: asked twice, because it cannot be undone.
import { useState } from "preact/hooks";
import { deleteTurns } from "./keeping.ts";

export function DeleteTurn({ id, onDone }: { id: string; onDone: () => void }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState("");
  const run = async () => {
    setProblem("");
    if (!asked) return setAsked(true);
    const failed = await deleteTurns(id);
    setAsked(false);
    if (failed) setProblem(failed);
    else onDone();
  };
  return (
    <>
      {problem && (
        <span class="error" role="alert">
          {problem}
        </span>
      )}
      <button
        type="button"
        class={asked ? "danger" : ""}
        title="Deletes the prompt, the answer and the frames; the row stays"
        onClick={run}
        onBlur={() => setAsked(false)}
      >
        {asked ? "Delete now" : "Delete"}
      </button>
    </>
  );
}
