// A page saved as one file: the traces lie inside it, one for each consumer, and nothing is asked of anybody.
import "../shell/shell.css";
import { useState } from "preact/hooks";
import type { Trace } from "../api/types.ts";
import { Help, HelpButton, helpOpen, toggleHelp } from "../shell/Help.tsx";
import { ThemeButton } from "../shell/ThemeButton.tsx";
import { EVERYWHERE, useKeys } from "../ui/keys.ts";
import { completed } from "./completing.ts";
import { TurnView } from "./TurnView.tsx";

type Traces = Record<string, Trace>;

/** The traces inside the page, which are compressed; null on the gateway's own page. */
export async function readSavedTraces(): Promise<Traces | null> {
  const packed = document.getElementById("penstock-trace")?.textContent;
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return completed(JSON.parse(await new Response(stream).text()).traces as Traces);
}

export function SavedPage({ traces }: { traces: Traces }) {
  const [consumer, setConsumer] = useState(Object.keys(traces)[0] ?? "");
  const trace = traces[consumer];
  useKeys(EVERYWHERE, [{ keys: ["?"], label: "Show or hide these keys", run: toggleHelp }]);
  return (
    <main class="shell">
      {trace && (
        <TurnView trace={{ ...trace, consumers: Object.keys(traces) }} onConsumer={setConsumer}>
          <ThemeButton />
          <HelpButton />
        </TurnView>
      )}
      {helpOpen.value && <Help />}
    </main>
  );
}
