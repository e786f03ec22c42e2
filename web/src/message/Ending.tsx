// How a turn ended, and what it used.
import { formatMany } from "../ui/format.ts";
import type { Message } from "./parts.ts";
import { faultFacts, faultWords, finishWords, type Party, usageWords } from "./words.ts";

interface Props {
  message: Message;
  live: boolean;
  /** Who made the error that ended the turn. */
  faultBy: Party;
}

export function Ending({ message, live, faultBy }: Props) {
  const { finish, fault, usage, unknown } = message;
  return (
    <footer class="ending">
      {fault && (
        <div class="fault kind-fault" role="alert">
          <strong>{faultWords(fault.kind, fault.inStream && faultBy ? "provider" : faultBy, fault.code)}</strong>
          {fault.message && <p>{fault.message.slice(0, 4000)}</p>}
          <p class="fault-facts mono">{faultFacts(fault).join(" · ")}</p>
        </div>
      )}
      <p class="ending-line">
        {finish && (
          <span
            class={`ending-finish finish-${finish.reason}`}
            title={finish.raw && `The provider said: ${finish.raw}`}
          >
            {finishWords(finish.reason, finish.raw)}
          </span>
        )}
        {!finish && !fault && <span class={live ? "ending-live" : undefined}>{live ? "Streaming" : "Up to here"}</span>}
        {usage && <span class="ending-usage">{usageWords(usage)}</span>}
        {unknown > 0 && <span>{formatMany(unknown, "unknown payload")}</span>}
      </p>
    </footer>
  );
}
