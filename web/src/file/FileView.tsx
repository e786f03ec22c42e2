// A file dropped, chosen, pasted or recorded, and what it holds.
import "./file.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import { go, route } from "../router.ts";
import { ShareButton } from "../turn/ShareButton.tsx";
import { TurnView } from "../turn/TurnView.tsx";
import {
  chooseConsumer,
  chooseProtocol,
  close,
  exported,
  type Opened,
  opened,
  openFile,
  openRecording,
  openText,
  promptBreakdown,
  wholeText,
} from "./opening.ts";
import { Recordings } from "./Recordings.tsx";
import { sampleStream } from "./sample.ts";

export function FileView() {
  const { id } = route.value;
  const now = opened.value;
  const recording = now?.source.kind === "recording" ? now.source.name : "";
  useEffect(() => {
    if (id && id !== recording) void openRecording(id);
  }, [id]);
  if (now?.trace) return <Shown now={now} />;
  return <Start now={now} />;
}

function leave(): void {
  close();
  go("file");
}

function Shown({ now }: { now: Opened }) {
  const { trace, source, error, busy } = now;
  if (!trace) return null;
  return (
    <TurnView
      key={source.name}
      trace={trace}
      onConsumer={(consumer) => void chooseConsumer(consumer)}
      whole={(kind, place) => wholeText(now, kind, place)}
      breakdown={() => promptBreakdown(now)}
    >
      <ProtocolChoice now={now} />
      <ShareButton make={() => exported(now)} name={source.name} />
      <button type="button" onClick={leave}>
        Close
      </button>
      <span class="file-said" role="status">
        {busy ? "Reading…" : error}
      </span>
    </TurnView>
  );
}

/** Which protocol the bytes are read as: the guess, or any other. */
function ProtocolChoice({ now }: { now: Opened }) {
  const protocols = about.value?.protocols ?? [];
  const guessed = now.protocol === "" ? (now.trace?.protocol ?? "") : "";
  return (
    <label class="file-protocol">
      <span class="soft">Read as</span>
      <select value={now.protocol} onChange={(event) => void chooseProtocol(event.currentTarget.value)}>
        <option value="">{guessed ? `${guessed} (guessed)` : "guess"}</option>
        {protocols.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Start({ now }: { now: Opened | null }) {
  return (
    <div class="scrolling">
      <div class="file-start">
        <h1>See what a stream holds</h1>
        <DropZone />
        {now?.busy && <p role="status">Reading…</p>}
        {now?.error && <Failed now={now} />}
        <Paste />
        {about.value?.live !== false && <Recordings />}
      </div>
    </div>
  );
}

function Failed({ now }: { now: Opened }) {
  return (
    <div class="file-failed" role="alert">
      <p>
        <strong>{`${now.source.name} cannot be shown.`}</strong> {now.error}
      </p>
      {now.source.kind === "bytes" && <ProtocolChoice now={now} />}
    </div>
  );
}

function DropZone() {
  const input = useRef<HTMLInputElement>(null);
  const chosen = (event: Event & { currentTarget: HTMLInputElement }) => {
    const [file] = event.currentTarget.files ?? [];
    if (file) void openFile(file);
    event.currentTarget.value = "";
  };
  return (
    <div class="drop-zone">
      <p>
        Drop a recorded stream anywhere on this page: <code>.sse</code>, <code>.ndjson</code>, <code>.json</code>, AWS
        event stream, or a recording of penstock. Its protocol is guessed. It goes to your gateway and nowhere else.
      </p>
      <p class="drop-actions">
        <button type="button" class="main" onClick={() => input.current?.click()}>
          Choose a file
        </button>
        <button type="button" onClick={() => void openText(sampleStream())}>
          Show an example
        </button>
        <input ref={input} type="file" class="unseen" tabIndex={-1} aria-label="A recorded stream" onChange={chosen} />
      </p>
    </div>
  );
}

function Paste() {
  const [text, setText] = useState("");
  const show = (event: SubmitEvent) => {
    event.preventDefault();
    if (text.trim()) void openText(text);
  };
  return (
    <form class="file-paste" onSubmit={show}>
      <label>
        <span>Or paste it</span>
        <textarea
          rows={5}
          spellcheck={false}
          class="mono"
          placeholder={'data: {"choices":[{"delta":{"content":"Hello"}}]}'}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={!text.trim()}>
        Show it
      </button>
    </form>
  );
}
