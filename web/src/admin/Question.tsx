// A question before something is changed: it runs, closes, or says what is wrong.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { describe } from "./api.ts";
import { Dialog } from "./Dialog.tsx";

interface QuestionProps<T> {
  title: string;
  button: string;
  onClose: () => void;
  run: () => Promise<T>;
  onDone: (done: T) => void;
  children: ComponentChildren;
}

export function Question<T>({ title, button, onClose, run, onDone, children }: QuestionProps<T>) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      onDone(await run());
    } catch (error) {
      setProblem(describe(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={send}>
        {problem && (
          <p class="admin-error" role="alert">
            {problem}
          </p>
        )}
        {children}
        <div class="dialog-buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="main" disabled={busy}>
            {button}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
