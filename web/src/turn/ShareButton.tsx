// Saves a turn as one HTML file that shows it anywhere.
import { useState } from "preact/hooks";
import { explain } from "../api/client.ts";
import { pageName, save } from "../file/saving.ts";

export function ShareButton({ make, name }: { make: () => Promise<Blob>; name: string }) {
  const [said, setSaid] = useState("");
  const share = async () => {
    setSaid("Packing…");
    try {
      save(await make(), pageName(name));
      setSaid("Saved, secrets removed");
    } catch (error) {
      setSaid(explain(error));
    }
  };
  return (
    <>
      <span class="hint" role="status">
        {said}
      </span>
      <button type="button" onClick={share} title="One HTML file that shows this anywhere, with secrets removed">
        Share
      </button>
    </>
  );
}
