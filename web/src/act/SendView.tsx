// "Send again": the request of a turn in an editor, for another model or protocol.
import "./act.css";
import { useEffect } from "preact/hooks";
import { about } from "../api/about.ts";
import { formatRoute, go } from "../router.ts";
import { ModelChoice } from "../try/ModelChoice.tsx";
import { useKeys } from "../ui/keys.ts";
import { useSubject } from "../ui/title.ts";
import { JsonEditor, loadEditor } from "./JsonEditor.tsx";
import { PROTOCOLS } from "./protocols.ts";
import { SCHEMAS } from "./schemas.ts";
import {
  chooseModel,
  chooseProtocol,
  type Draft,
  draft,
  draftError,
  draftHeaders,
  editText,
  holdsMark,
  openDraft,
  restoreOriginal,
  sendDraft,
} from "./sending.ts";

export function SendView({ id }: { id: string }) {
  useEffect(() => {
    loadEditor().catch(() => {}); // the editor itself says that it could not be loaded
    void openDraft(id);
  }, [id]);
  useKeys("Send again", [{ keys: ["Escape"], label: "Back to the turn", run: () => go("turn", id) }]);
  const now = draft.value;
  useSubject(now?.id === id ? now.row.asked : "");
  if (now?.id !== id) {
    return (
      <div class="notice">
        <h1>{draftError.value ? "This request cannot be sent again" : "Loading the request …"}</h1>
        {draftError.value && <p>{draftError.value}</p>}
        <p>
          <a href={formatRoute("turn", id)}>Back to the turn</a>
        </p>
      </div>
    );
  }
  return <DraftForm now={now} />;
}

function DraftForm({ now }: { now: Draft }) {
  const busy = now.state !== "editing";
  const changed = now.text !== now.original.text || now.protocol !== now.original.protocol;
  return (
    <section class="send-again" aria-labelledby="send-title">
      <header class="send-head">
        <h1 id="send-title">Send again</h1>
        <ModelChoice models={about.value?.models ?? []} chosen={now.model} onChoose={chooseModel} />
        <ProtocolChoice now={now} />
        <div class="send-actions">
          <button type="button" disabled={!changed || busy} onClick={restoreOriginal}>
            Undo all changes
          </button>
          <a class="button" href={formatRoute("turn", now.id)}>
            Back
          </a>
          <button type="button" class="main" disabled={busy || !now.text.trim()} onClick={() => void sendDraft()}>
            {now.state === "sending" ? "Sending …" : "Send"}
          </button>
        </div>
      </header>
      <Said now={now} />
      <JsonEditor
        text={now.text}
        label="The request's body"
        schema={SCHEMAS[now.protocol] ?? null}
        onChange={editText}
      />
    </section>
  );
}

function ProtocolChoice({ now }: { now: Draft }) {
  const known = PROTOCOLS.some(({ id }) => id === now.protocol);
  return (
    <label class="send-protocol">
      <span>Protocol</span>
      <select
        value={now.protocol}
        disabled={now.state !== "editing"}
        onChange={(event) => void chooseProtocol(event.currentTarget.value)}
      >
        {!known && <option value={now.protocol}>{now.protocol}</option>}
        {PROTOCOLS.map(({ id, label }) => (
          <option key={id} value={id}>
            {id === now.original.protocol ? `${label} (as it was sent)` : label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What went wrong, what the other protocol cannot express, and which secrets and headers are missing. */
function Said({ now }: { now: Draft }) {
  const { leftOut } = draftHeaders(now);
  return (
    <div class="send-said" role="status">
      {now.error && (
        <p class="send-error">
          {now.error} {now.refused && <a href={formatRoute("turn", now.refused)}>See this turn</a>}
        </p>
      )}
      {holdsMark(now.text) && <p>[secret] stands where a secret was removed: write it again, or leave it out.</p>}
      {leftOut.length > 0 && <p>{`Headers of the original that are not sent: ${leftOut.join(", ")}.`}</p>}
      {now.notes.length > 0 && (
        <details open={now.notes.length < 4}>
          <summary>{`Changed or lost on the way to ${now.protocol}: ${now.notes.length}`}</summary>
          <ul>
            {now.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}
