// The questions before a key gets a new secret or is revoked.
import { useState } from "preact/hooks";
import { askAdmin, type KeyRow, keyPath, type NewKey } from "./api.ts";
import { Question } from "./Question.tsx";

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
