// The questions before a key gets a new secret or is revoked.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { askAdmin, describe, type KeyRow, keyPath, type NewKey } from "./api.ts";
import { Dialog } from "./Dialog.tsx";

const OVERLAPS = [
  { seconds: 0, label: "The old secret ends at once" },
  { seconds: 3600, label: "The old secret works for one more hour" },
  { seconds: 86_400, label: "The old secret works for one more day" },
  { seconds: 604_800, label: "The old secret works for one more week" },
];

interface Props<T> {
  row: KeyRow;
  onClose: () => void;
  onDone: (done: T) => void;
}

export function RotateDialog({ row, onClose, onDone }: Props<NewKey>) {
  const [overlap, setOverlap] = useState(0);
  const rotate = () => askAdmin<NewKey>(`${keyPath(row.name)}/rotate`, "POST", { overlap }, row.etag);
  return (
    <Question title={`Rotate ${row.name}`} button="Rotate" onClose={onClose} run={rotate} onDone={onDone}>
      <label>
        Overlap
        <select value={overlap} onChange={(event) => setOverlap(Number(event.currentTarget.value))}>
          {OVERLAPS.map(({ seconds, label }) => (
            <option key={seconds} value={seconds}>
              {label}
            </option>
          ))}
        </select>
      </label>
    </Question>
  );
}

export function RevokeDialog({ row, onClose, onDone }: Props<void>) {
  const revoke = () => askAdmin<void>(keyPath(row.name), "DELETE", undefined, row.etag);
  return (
    <Question title={`Revoke ${row.name}`} button="Revoke" onClose={onClose} run={revoke} onDone={onDone}>
      <p>Nobody can use this key any more, and what it has running ends within a second. This cannot be undone.</p>
    </Question>
  );
}

interface QuestionProps<T> {
  title: string;
  button: string;
  onClose: () => void;
  run: () => Promise<T>;
  onDone: (done: T) => void;
  children: ComponentChildren;
}

function Question<T>({ title, button, onClose, run, onDone, children }: QuestionProps<T>) {
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
