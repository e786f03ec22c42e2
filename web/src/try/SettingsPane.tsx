// The settings of a request: system prompt, tools, sampling, the form of the answer.
import { useState } from "preact/hooks";
import { convertRequest } from "../act/protocols.ts";
import { askJson, explain } from "../api/client.ts";
import type { Row, Trace } from "../api/types.ts";
import { changeSettings, forgetAll, settings } from "./session.ts";
import { countSettings, EFFORTS, problemOf, settingsFrom, type TrySettings } from "./settings.ts";

export function SettingsPane() {
  const count = countSettings(settings.value);
  return (
    <details class="try-settings">
      <summary>{count ? `Settings (${count})` : "Settings: system prompt, tools, temperature …"}</summary>
      <div class="try-fields">
        <LongField name="system" label="System prompt" />
        <div>
          <LongField name="tools" label="Tools, as JSON" mono />
          <LastTools />
        </div>
        <LongField name="schema" label="JSON schema of the answer" mono />
        <div class="try-short">
          <ShortField name="temperature" label="Temperature" />
          <ShortField name="topP" label="Top P" />
          <ShortField name="maxOutput" label="Max output tokens" />
          <ShortField name="seed" label="Seed" />
          <label>
            <span>Reasoning effort</span>
            <select
              value={settings.value.effort}
              onChange={(event) => changeSettings({ effort: event.currentTarget.value })}
            >
              <option value="">default</option>
              {EFFORTS.map((effort) => (
                <option key={effort}>{effort}</option>
              ))}
            </select>
          </label>
        </div>
        <LongField name="stop" label="Stop sequences, one on each line" />
        <LongField name="others" label="Other fields of a Chat request, as JSON" mono />
        <p class="try-forget">
          <span class="soft">The conversation and these settings stay in this tab, also when it is reloaded.</span>
          <button type="button" onClick={forgetAll}>
            Forget all
          </button>
        </p>
      </div>
    </details>
  );
}

interface FieldProps {
  name: keyof TrySettings;
  label: string;
  mono?: boolean;
}

function LongField({ name, label, mono = false }: FieldProps) {
  const value = settings.value[name];
  const problem = problemOf(name, value);
  return (
    <label>
      <span>
        {label} {problem && <em class="send-error">{problem}</em>}
      </span>
      <textarea
        rows={mono ? 4 : 2}
        class={mono ? "mono" : ""}
        spellcheck={!mono}
        value={value}
        onInput={(event) => changeSettings({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

function ShortField({ name, label }: FieldProps) {
  const value = settings.value[name];
  const problem = problemOf(name, value);
  return (
    <label>
      <span>
        {label} {problem && <em class="send-error">{problem}</em>}
      </span>
      <input
        inputMode="decimal"
        value={value}
        onInput={(event) => changeSettings({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

const MOST_LOOKED = 10; // turns

function LastTools() {
  const [said, setSaid] = useState("");
  const take = async () => {
    setSaid("Looking …");
    try {
      const tools = await lastTools();
      if (tools) changeSettings({ tools });
      setSaid(tools ? "" : "None of the last requests has tools.");
    } catch (error) {
      setSaid(explain(error));
    }
  };
  return (
    <p class="try-last-tools">
      <button type="button" onClick={() => void take()}>
        Take the tools of the last request
      </button>
      <span role="status">{said}</span>
    </p>
  );
}

/** The tools of the newest request that has some, as Chat Completions writes them. */
async function lastTools(): Promise<string> {
  const { rows } = await askJson<{ rows: Row[] }>(`/inspector/turns?limit=${MOST_LOOKED}`);
  for (const row of rows) {
    const { request } = await askJson<Trace>(`/inspector/turns/${encodeURIComponent(row.id)}`);
    if (!request?.includes('"tools"')) continue;
    const made = await convertRequest(request, { from: row.protocol, to: "openai-chat", model: row.asked });
    const { tools } = settingsFrom(made.body).settings;
    if (tools) return tools;
  }
  return "";
}
