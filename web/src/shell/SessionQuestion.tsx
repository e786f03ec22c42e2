// Says what to do where a gateway without keys has not been sent its session token.
import { useEffect, useRef, useState } from "preact/hooks";
import { keepSession, session } from "../api/key.ts";

export function SessionQuestion() {
  const [text, setText] = useState("");
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    const token = text.trim().replace(/^.*#session=/, "");
    if (token) keepSession(token);
  };
  return (
    <form class="key-question" onSubmit={send}>
      <h1>Open the link that penstock serve printed</h1>
      <p>
        {session.value ? "The token in your link is not this gateway's. " : ""}
        It looks like <code>{`${location.origin}/#session=…`}</code>. The token in it keeps other users of this machine
        from reading your prompts. It stays in this tab. You can also paste the link here.
      </p>
      <label>
        <span class="unseen">Link or token</span>
        <input
          ref={input}
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={text}
          placeholder="link or token"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Open
      </button>
      <p class="hint">
        The token is also in the file <code>inspector-session</code> in penstock's data folder, which only you can read.
      </p>
    </form>
  );
}
