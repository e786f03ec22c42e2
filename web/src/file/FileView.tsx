// A file dropped, chosen, pasted or recorded, and what it holds.
import "./file.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import { go, route } from "../router.ts";
import { DownloadButton } from "../turn/DownloadButton.tsx";
import { TurnView } from "../turn/TurnView.tsx";
import { formatSentence } from "../ui/format.ts";
import {
  chooseConsumer,
  chooseProtocol,
  chooseSource,
  close,
  exported,
  type Opened,
  opened,
  openFiles,
  openRecording,
  openText,
  promptBreakdown,
  restoreFiles,
  sources,
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
    else if (!id) void restoreFiles();
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
      key={`${source.name} ${sources.value.indexOf(source)}`}
      trace={trace}
      onConsumer={(consumer) => void chooseConsumer(consumer)}
      whole={(kind, place) => wholeText(now, kind, place)}
      breakdown={() => promptBreakdown(now)}
    >
      <FileChoice now={now} />
      <ProtocolChoice now={now} />
      <DownloadButton trace={trace} make={(others) => exported(now, others)} name={source.name} />
      <button type="button" onClick={leave}>
        Close
      </button>
      <span class="file-said" role="status">
        {busy ? "Reading…" : formatSentence(error)}
      </span>
    </TurnView>
  );
}

/** Which one of several files is shown. */
function FileChoice({ now }: { now: Opened }) {
  const all = sources.value;
  if (all.length < 2) return null;
  return (
    <label class="file-protocol">
      <span class="soft">{`File, of ${all.length}`}</span>
      <select
        value={String(all.indexOf(now.source))}
        onChange={(event) => void chooseSource(Number(event.currentTarget.value))}
      >
        {all.map((source, index) => (
          <option key={index} value={String(index)}>
            {source.name}
          </option>
        ))}
      </select>
    </label>
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
        {now?.error && <FileChoice now={now} />}
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
        <strong>{`${now.source.name} cannot be shown.`}</strong> {formatSentence(now.error)}
      </p>
      {now.source.kind === "bytes" && <ProtocolChoice now={now} />}
    </div>
  );
}

function DropZone() {
  const input = useRef<HTMLInputElement>(null);
  const chosen = (event: Event & { currentTarget: HTMLInputElement }) => {
    void openFiles([...(event.currentTarget.files ?? [])]);
    event.currentTarget.value = "";
  };
  return (
    <div class="drop-zone">
      <p>
        Drop recorded streams anywhere on this page: <code>.sse</code>, <code>.ndjson</code>, <code>.json</code>, AWS
        event streams, a browser's <code>.har</code>, or recordings of penstock. Their protocol is guessed. They go to
        your gateway and nowhere else.
      </p>
      <p class="drop-actions">
        <button type="button" class="main" onClick={() => input.current?.click()}>
          Choose files
        </button>
        <button type="button" onClick={() => void openText(sampleStream())}>
          Show an example
        </button>
        <input
          ref={input}
          type="file"
          multiple
          class="unseen"
          tabIndex={-1}
          aria-label="A recorded stream"
          onChange={chosen}
        />
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
