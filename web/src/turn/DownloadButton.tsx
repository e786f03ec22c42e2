// Downloads a turn as one HTML file that shows it anywhere: as the client saw it that is shown now, and as others that
// are chosen.
import { useRef, useState } from "preact/hooks";
import { explain } from "../api/client.ts";
import type { Trace } from "../api/types.ts";
import { pageName, save } from "../file/saving.ts";

interface Props {
  trace: Trace;
  /** Makes the file, with the views of further clients. */
  make: (others: string[]) => Promise<Blob>;
  name: string;
}

export function DownloadButton({ trace, make, name }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [said, setSaid] = useState("");
  const [others, setOthers] = useState<string[]>([]);
  const download = async () => {
    dialog.current?.close();
    setSaid("Packing…");
    try {
      save(await make(others.filter((consumer) => consumer !== trace.consumer)), pageName(name));
      setSaid("Downloaded, secrets removed");
    } catch (error) {
      setSaid(explain(error));
    }
  };
  return (
    <>
      <span class="hint" role="status">
        {said}
      </span>
      <button type="button" onClick={() => dialog.current?.showModal()}>
        Download
      </button>
      <dialog ref={dialog} class="download" aria-label="Download" onKeyDown={(event) => event.stopPropagation()}>
        <h2>Download</h2>
        <p>One HTML file that shows this turn in any browser, without a gateway. Secrets are removed.</p>
        <Consumers trace={trace} others={others} choose={setOthers} />
        <div class="download-buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="button" class="main" onClick={download}>
            Download
          </button>
        </div>
      </dialog>
    </>
  );
}

interface ConsumersProps {
  trace: Trace;
  others: string[];
  choose: (others: string[]) => void;
}

function Consumers({ trace, others, choose }: ConsumersProps) {
  const flip = (consumer: string) =>
    choose(others.includes(consumer) ? others.filter((other) => other !== consumer) : [...others, consumer]);
  return (
    <fieldset>
      <legend>As these clients get it</legend>
      {trace.consumers.map((consumer) => {
        const shown = consumer === trace.consumer;
        return (
          <label key={consumer}>
            <input
              type="checkbox"
              checked={shown || others.includes(consumer)}
              disabled={shown}
              onChange={() => flip(consumer)}
            />
            {shown ? `${consumer} (shown now)` : consumer}
          </label>
        );
      })}
    </fieldset>
  );
}
