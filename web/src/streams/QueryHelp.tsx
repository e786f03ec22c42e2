// How to search: the fields and signs of the query language, with examples.
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../ui/Icon.tsx";

const SIGNS: [string, string][] = [
  ["overloaded", "a word in any name, or in the prompt or answer of a turn that is kept"],
  ['"not found"', "these words in this order"],
  ['"ls -la"', "the same; without quotes -la leaves out requests with the word la"],
  ["model:opus", "a part of a name"],
  ["model=anthropic/claude-opus-4-5", "the whole name"],
  ["state:fault,refused", "one of several"],
  ["-client:curl", "all but these"],
  ["cost>0.1  input>=10k", "more, less, at least, at most: >  <  >=  <="],
  ["ttft>2s  duration>1m", "times, also 500ms"],
  ["since:1h  until:2026-11-17", "a span before now, or a date"],
  ["has:notes  -has:cost", "notes, tools, fault, cost, usage, retries, estimate"],
  ["http:429  http>=500", "the HTTP status that the client got"],
  ["tool:bash", "a tool that the model called"],
];
const STATES: [string, string][] = [
  ["state:running", "waiting for the answer, or streaming"],
  ["state:finish", "ended well"],
  ["state:warning", "cut (length), refused by the model, filtered, or with malformed frames"],
  ["state:fault", "broke off in the answer"],
  ["state:refused", "got no answer: an error of the gateway or of the provider"],
  ["state:cancelled", "the client left"],
  ["state:broken", "fault or refused"],
  ["state:length", "as the list shows it: also stop, calls, pause, other, refusal, filter, malformed, failed"],
];
const FIELDS =
  "model provider client key route engine protocol operation fault finish tool id · http cost ttft duration input output cached reasoning notes tries bytes · state since until has";

export function QueryHelp({ onClose, onTry }: { onClose: () => void; onTry: (q: string) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      class="help query-help"
      aria-labelledby="query-help-title"
      onClose={onClose}
      onKeyDown={(event) => event.stopPropagation()} // the page behind does not listen meanwhile
    >
      <div class="help-head">
        <h2 id="query-help-title">How to search</h2>
        <button type="button" class="plain" onClick={onClose} aria-label="Close">
          <Icon name="close" />
        </button>
      </div>
      <div class="query-help-body">
        <p>A request must match all terms. Press an example to search for it.</p>
        <Examples rows={SIGNS} onTry={onTry} />
        <h3>Words</h3>
        <p>
          Names are searched for any part, prompts and answers for whole words. AND, OR and NOT are words like others,
          and * is not a wildcard. Signs are searched for in names only. Data, such as an image, is not searched. The
          answer of a running request is searched once it is complete.
        </p>
        <h3>States</h3>
        <Examples rows={STATES} onTry={onTry} />
        <h3>Fields</h3>
        <p class="query-fields">{FIELDS}</p>
      </div>
    </dialog>
  );
}

function Examples({ rows, onTry }: { rows: [string, string][]; onTry: (q: string) => void }) {
  return (
    <table class="query-examples">
      <tbody>
        {rows.map(([example, about]) => (
          <tr key={example}>
            <th scope="row">
              <button type="button" class="plain" onClick={() => onTry(example.replace(/ {2}/g, " "))}>
                <code>{example}</code>
              </button>
            </th>
            <td>{about}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
