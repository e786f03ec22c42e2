// A small chat box against any model through any client protocol: the message on one side, what the client got on the
// other.
import "./try.css";
import { useEffect, useState } from "preact/hooks";
import { PROTOCOLS } from "../act/protocols.ts";
import { about, aboutError, refreshAbout } from "../api/about.ts";
import { formatRoute, replaceQuery, route } from "../router.ts";
import { formatMany } from "../ui/format.ts";
import { useKeys } from "../ui/keys.ts";
import { Switch } from "../ui/Switch.tsx";
import { Composer } from "./Composer.tsx";
import { Conversation } from "./Conversation.tsx";
import { firstModel } from "./firstModel.ts";
import { ModelChoice } from "./ModelChoice.tsx";
import { RawPane } from "./RawPane.tsx";
import { SettingsPane } from "./SettingsPane.tsx";
import {
  isBusy,
  type Message,
  openError,
  opening,
  openTurn,
  protocolOf,
  restore,
  send,
  startAnew,
  stop,
  talk,
} from "./session.ts";

const MODEL = "penstock-try-model";
const WAY = "penstock-try-way";
const CHOICES = PROTOCOLS.map(({ id, label, note }) => ({ value: id, label, title: note }));

export function TryView() {
  const [model, setModel] = useState(() => remembered(MODEL));
  const [way, setWay] = useState(() => protocolOf(remembered(WAY)));
  const models = about.value?.models ?? [];
  const chosen = model || firstModel(models, "");
  const busy = isBusy();
  useKeys("Try it", [{ keys: ["Escape"], label: "Stop the answer", run: stop }], busy);
  const chooseWay = (id: string) => {
    setWay(protocolOf(id));
    remember(WAY, id);
  };
  const chooseModel = (id: string) => {
    setModel(id);
    remember(MODEL, id);
  };
  useStart(chooseModel, chooseWay);
  const say = (message: Message) => send(message, chosen, way);
  const prompt = (said: string, other = chosen) => {
    if (other !== chosen) chooseModel(other);
    send({ said, images: [], results: [] }, other, way);
  };
  const packaged = models.map(({ id }) => id).filter((id) => id.startsWith("replay/"));
  const empty = talk.value.length === 0 && !opening.value;
  return (
    <div class="try">
      <div class="try-head">
        <ModelChoice models={models} chosen={chosen} onChoose={chooseModel} />
        <Switch label="Client protocol" choices={CHOICES} chosen={way.id} onChoose={chooseWay} />
        <button type="button" onClick={startAnew} disabled={empty}>
          New conversation
        </button>
      </div>
      <SettingsPane />
      {(aboutError.value || openError.value) && (
        <p class="try-error" role="alert">
          {aboutError.value || openError.value}
        </p>
      )}
      <div class="try-panes">
        <div class="try-left">
          <OpenedTurn />
          <Conversation exchanges={talk.value} model={chosen} way={way} packaged={packaged} onPrompt={prompt} />
          <Composer busy={busy} exchanges={talk.value} onSend={say} onStop={stop} />
        </div>
        <RawPane exchange={talk.value.at(-1) ?? null} />
      </div>
    </div>
  );
}

/** Brings back what was kept, or opens the turn that the address names. */
function useStart(chooseModel: (id: string) => void, chooseWay: (id: string) => void): void {
  const { turn = "" } = route.value.query;
  useEffect(() => {
    void refreshAbout(); // providers may have listed their models since
    if (!turn) {
      void restore();
      return;
    }
    replaceQuery({}); // a reload brings back what was kept
    void restore()
      .then(() => openTurn(turn))
      .then((found) => {
        if (!found) return;
        chooseModel(found.model);
        chooseWay(found.protocol);
      });
  }, [turn]);
}

function OpenedTurn() {
  const now = opening.value;
  if (!now) return null;
  const count = now.messages.length;
  const notes = now.notes ?? [];
  return (
    <div class="try-opened">
      <p>
        <a href={formatRoute("turn", now.turn)}>A turn is opened here</a>
        {`: ${formatMany(count, "message")} before yours.`}
        {notes.length > 0 && " Requests are written here in Chat, which changes this one:"}
      </p>
      {notes.length > 0 && (
        <ul>
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

function remembered(name: string): string {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

function remember(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // for this visit only
  }
}
