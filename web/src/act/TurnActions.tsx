// What can be done with a turn: copy its request, send it again, talk on in Try it, compare it.
import "./act.css";
import { useMemo, useState } from "preact/hooks";
import type { Trace } from "../api/types.ts";
import { chooseFirst } from "../compare/marking.ts";
import { formatRoute } from "../router.ts";
import { formatTurnName } from "../turn/turnName.ts";
import { formatSentence } from "../ui/format.ts";
import { CopyDialog } from "./CopyDialog.tsx";
import { explainUnsendable } from "./unsendable.ts";

export function TurnActions({ id, trace }: { id: string; trace: Trace }) {
  const [copying, setCopying] = useState(false);
  const { request, request_lost = "", row } = trace;
  const talks = row !== null && ["", "chat", "responses"].includes(row.operation);
  const obstacle = useMemo(
    () => explainUnsendable({ request, request_lost, row }),
    [request, request_lost, row === null],
  );
  return (
    <>
      <button
        type="button"
        disabled={request_lost !== "" || !request}
        title={formatSentence(request_lost)}
        onClick={() => setCopying(true)}
      >
        Copy as…
      </button>
      <ActionLink label="Send again" href={formatRoute("send", id)} obstacle={obstacle} />
      {talks && <ActionLink label="Open in Try it" href={formatRoute("try", "", { turn: id })} obstacle={obstacle} />}
      <button type="button" onClick={() => chooseFirst(id, formatTurnName(trace))}>
        Compare with…
      </button>
      {copying && <CopyDialog id={id} onClose={() => setCopying(false)} />}
    </>
  );
}

/** A link that looks like a button; a disabled button that says why, if there is an obstacle. */
function ActionLink({ label, href, obstacle }: { label: string; href: string; obstacle: string }) {
  if (obstacle) {
    return (
      <button type="button" disabled title={obstacle}>
        {label}
      </button>
    );
  }
  return (
    <a class="button" href={href}>
      {label}
    </a>
  );
}
