// Asks for a key with the role admin or viewer. It stays in this tab.
import { useEffect, useRef, useState } from "preact/hooks";
import { signIn, signInError } from "./api.ts";

export function SignIn() {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!text.trim() || busy) return;
    setBusy(true);
    await signIn(text.trim());
    setBusy(false);
  };
  return (
    <form class="key-question" onSubmit={send} aria-labelledby="sign-in-title">
      <h1 id="sign-in-title">Sign in to manage keys, teams and providers</h1>
      <p>
        With a gateway key that has the role viewer (to look) or admin (to change things too). It stays in this tab and
        is forgotten when you sign out or close the tab. The first one is made where the gateway runs:{" "}
        <code>penstock keys add NAME --admin</code>
      </p>
      {signInError.value && (
        <p class="admin-error" role="alert" id="sign-in-error">
          {signInError.value}
        </p>
      )}
      <label>
        Admin key
        <input
          ref={input}
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={text}
          aria-invalid={signInError.value !== ""}
          aria-describedby={signInError.value ? "sign-in-error" : undefined}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main" disabled={busy}>
        Sign in
      </button>
    </form>
  );
}
