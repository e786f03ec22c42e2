// How a turn ended, and what it used.
import { formatMany } from "../ui/format.ts";
import { describeFault, describeFinish, faultFacts, formatUsage, type Party } from "./outcomes.ts";
import type { Message } from "./parts.ts";

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
          <strong>{describeFault(fault.kind, fault.inStream && faultBy ? "provider" : faultBy, fault.code)}</strong>
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
            {describeFinish(finish.reason, finish.raw)}
          </span>
        )}
        {!finish && !fault && <span class={live ? "ending-live" : undefined}>{live ? "Streaming" : "Up to here"}</span>}
        {usage && <span class="ending-usage">{formatUsage(usage)}</span>}
        {unknown > 0 && <span>{formatMany(unknown, "unknown payload")}</span>}
      </p>
    </footer>
  );
}
