// Deletes the content of one turn: asked twice, because it cannot be undone. Why it failed stays on the page, also when
// the turn is gone from memory and there is nothing left to delete here.
import { useState } from "preact/hooks";
import { deleteTurns } from "./keeping.ts";

interface Props {
  id: string;
  /** The content is kept, and the turn is over. */
  possible: boolean;
  onDone: () => void;
}

export function DeleteTurn({ id, possible, onDone }: Props) {
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
      {possible && (
        <button
          type="button"
          class={asked ? "danger" : ""}
          title="Deletes the prompt, the answer and the frames; the row stays"
          onClick={run}
          onBlur={() => setAsked(false)}
        >
          {asked ? "Delete now" : "Delete"}
        </button>
      )}
    </>
  );
}
