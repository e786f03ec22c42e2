// A small chat box against any model through any client protocol: the message on one side, what the client got on the
// other.
import "./try.css";
import { useEffect, useState } from "preact/hooks";
import { about, aboutError, refreshAbout } from "../api/about.ts";
import { useKeys } from "../ui/keys.ts";
import { Switch } from "../ui/Switch.tsx";
import { firstModel, WAYS, type Way } from "./asking.ts";
import { Composer } from "./Composer.tsx";
import { Conversation } from "./Conversation.tsx";
import { RawPane } from "./RawPane.tsx";
import { forget, send, stop, talk } from "./session.ts";

const MODEL = "penstock-try-model";
const WAY = "penstock-try-way";
const CHOICES = WAYS.map(({ id, label, note }) => ({ value: id, label, title: note }));

export function TryView() {
  const [model, setModel] = useState(() => remembered(MODEL));
  const [way, setWay] = useState<Way>(() => WAYS.find(({ id }) => id === remembered(WAY)) ?? firstWay());
  useEffect(() => void refreshAbout(), []); // providers may have listed their models since
  const models = about.value?.models ?? [];
  const chosen = model || firstModel(models, "");
  const busy = talk.value.some(({ state }) => state === "sending" || state === "streaming");
  useKeys("Try it", [{ keys: ["Escape"], label: "Stop the answer", run: stop }], busy);
  const chooseWay = (id: string) => {
    setWay(WAYS.find((one) => one.id === id) ?? way);
    remember(WAY, id);
  };
  const chooseModel = (id: string) => {
    setModel(id);
    remember(MODEL, id);
  };
  const say = (text: string, other = chosen) => {
    if (other !== chosen) chooseModel(other);
    void send(text, other, way);
  };
  const packaged = models.map(({ id }) => id).filter((id) => id.startsWith("replay/"));
  return (
    <div class="try">
      <div class="try-head">
        <ModelChoice models={models} chosen={chosen} onChoose={chooseModel} />
        <Switch label="Client protocol" choices={CHOICES} chosen={way.id} onChoose={chooseWay} />
        <button type="button" onClick={forget} disabled={talk.value.length === 0}>
          New talk
        </button>
      </div>
      {aboutError.value && (
        <p class="try-error" role="alert">
          {aboutError.value}
        </p>
      )}
      <div class="try-panes">
        <div class="try-left">
          <Conversation exchanges={talk.value} model={chosen} way={way} packaged={packaged} onPrompt={say} />
          <Composer busy={busy} onSend={say} onStop={stop} />
        </div>
        <RawPane exchange={talk.value.at(-1) ?? null} />
      </div>
    </div>
  );
}

function firstWay(): Way {
  const [first] = WAYS;
  if (!first) throw new Error("there is no way to ask");
  return first;
}

interface ModelProps {
  models: { id: string; provider: string }[];
  chosen: string;
  onChoose: (id: string) => void;
}

/** A list by provider, and a place for any other name: an alias, or a model that no list has. */
function ModelChoice({ models, chosen, onChoose }: ModelProps) {
  const listed = models.some(({ id }) => id === chosen);
  const [asked, setAsked] = useState(false);
  const other = asked || (models.length > 0 && !listed && chosen !== "");
  const providers = [...new Set(models.map(({ provider }) => provider))];
  const pick = (value: string) => {
    setAsked(value === "");
    if (value) onChoose(value);
  };
  return (
    <div class="try-choice">
      <label for="try-model">Model</label>
      <select id="try-model" value={other ? "" : chosen} onChange={(event) => pick(event.currentTarget.value)}>
        {providers.map((provider) => (
          <optgroup key={provider} label={provider || "aliases"}>
            {models
              .filter((one) => one.provider === provider)
              .map(({ id }) => (
                <option key={id} value={id}>
                  {id}
                </option>
              ))}
          </optgroup>
        ))}
        <option value="">another…</option>
      </select>
      {other && (
        <input
          aria-label="Name of the model"
          placeholder="provider/model"
          spellcheck={false}
          value={listed ? "" : chosen}
          onInput={(event) => onChoose(event.currentTarget.value.trim())}
        />
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
