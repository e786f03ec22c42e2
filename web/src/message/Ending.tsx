// How a turn ended, and what it used.
import type { Message } from "./parts.ts";
import { faultFacts, faultWords, finishWords, usageWords } from "./words.ts";

export function Ending({ message, live }: { message: Message; live: boolean }) {
  const { finish, fault, usage, unknown } = message;
  return (
    <footer class="ending">
      {fault && (
        <div class="fault kind-fault" role="alert">
          <strong>{faultWords(fault.kind)}</strong>
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
        {unknown > 0 && <span>{`${unknown} unknown ${unknown === 1 ? "payload" : "payloads"}`}</span>}
      </p>
    </footer>
  );
}
