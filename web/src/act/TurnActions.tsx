// What can be done with a turn: copy its request, send it again, talk on in Try it, compare it.
import "./act.css";
import { useState } from "preact/hooks";
import type { Trace } from "../api/types.ts";
import { chooseFirst } from "../compare/marking.ts";
import { formatRoute } from "../router.ts";
import { CopyDialog } from "./CopyDialog.tsx";

export function TurnActions({ id, trace }: { id: string; trace: Trace }) {
  const [copying, setCopying] = useState(false);
  const { request, row } = trace;
  const talks = row !== null && ["", "chat", "responses"].includes(row.operation);
  return (
    <>
      {request && (
        <>
          <button type="button" onClick={() => setCopying(true)}>
            Copy as…
          </button>
          <a class="button" href={formatRoute("send", id)}>
            Send again
          </a>
          {talks && (
            <a class="button" href={formatRoute("try", "", { turn: id })}>
              Open in Try it
            </a>
          )}
        </>
      )}
      <button type="button" onClick={() => chooseFirst(id, row?.asked || row?.model || "this turn")}>
        Compare with…
      </button>
      {copying && <CopyDialog id={id} onClose={() => setCopying(false)} />}
    </>
  );
}
