// A new secret, which the gateway shows this once.
import { useRef, useState } from "preact/hooks";
import { Dialog } from "./Dialog.tsx";

export function SecretBox({ name, secret, onClose }: { name: string; secret: string; onClose: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  const [status, setStatus] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(secret);
      setStatus("Copied.");
    } catch {
      field.current?.select(); // without TLS a page may not write to the clipboard
      setStatus("Press Ctrl+C to copy it.");
    }
  };
  return (
    <Dialog title={`The secret of ${name}`} onClose={onClose}>
      <p>It is shown this once. Copy it now, and give it to the person or program that will use it.</p>
      <div class="secret-line">
        <input ref={field} class="mono" readOnly value={secret} aria-label="Secret" />
        <button type="button" class="main" onClick={copy}>
          Copy
        </button>
      </div>
      <p role="status" class="soft">
        {status}
      </p>
      <div class="dialog-buttons">
        <button type="button" onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
