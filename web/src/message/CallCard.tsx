// A tool call as a card: who runs it, what it is given, what came back.
import { useMemo } from "preact/hooks";
import { Icon } from "../ui/Icon.tsx";
import { memo } from "../ui/memo.ts";
import { visibleText } from "../ui/visibleText.ts";
import { liftTexts } from "./argumentTexts.ts";
import { CodeBlock, CopyButton } from "./CodeBlock.tsx";
import { Json } from "./Json.tsx";

interface Props {
  id: string;
  name: string;
  by: "client" | "provider";
  form: string;
  json: string;
  state: "open" | "whole" | "cut";
  result: string | null;
  failed: boolean;
  partial: boolean;
  ask: string | null;
}

export const CallCard = memo(function CallCard(props: Props) {
  const { id, name, by, form, json, state, result, ask } = props;
  const provider = by === "provider";
  return (
    <section
      class={`card kind-call ${provider ? "by-provider" : "by-client"}`}
      aria-label={`Call of ${visibleText(name) || "a tool"}`}
    >
      <header class="card-head">
        <span class="card-sign">
          <Icon name={provider ? "cloud" : "tool"} />
        </span>
        <span class="card-name">{visibleText(name) || "unnamed"}</span>
        <span class={`badge ${provider ? "badge-provider" : ""}`}>
          {provider ? "run by the provider" : "for the client to run"}
        </span>
        {state === "open" && <span class="badge">being written</span>}
        {state === "cut" && <span class="badge badge-bad">cut: must not be run</span>}
        {ask !== null && <span class="badge badge-warn">approval asked</span>}
        <span class="card-id mono cut" title={visibleText(id)}>
          {visibleText(id)}
        </span>
      </header>
      <Given name={name} json={json} form={form} state={state} />
      {result !== null && <Back {...props} result={result} />}
    </section>
  );
});

function Given({ name, json, form, state }: Pick<Props, "name" | "json" | "form" | "state">) {
  if (json === "" && state !== "open") return <p class="card-none">No arguments.</p>;
  return (
    <div class="card-body">
      <div class="card-label">
        <span>{form === "text" ? "Input" : "Arguments"}</span>
        <CopyButton text={json} what={`arguments of ${visibleText(name)}`} />
      </div>
      {json === "" ? <p class="card-none">…</p> : <Arguments name={name} json={json} />}
    </div>
  );
}

/** Arguments as JSON; texts of several lines among them (code, patches) are shown as such. */
function Arguments({ name, json }: Pick<Props, "name" | "json">) {
  const { rest, texts } = useMemo(() => liftTexts(json), [json]);
  return (
    <>
      {rest !== "" && <Json text={rest} label={`Arguments of ${name}`} />}
      {texts.map(([field, text]) => (
        <CodeBlock key={field} text={text} language={field} />
      ))}
    </>
  );
}

function Back({ name, result, failed, partial }: Props & { result: string }) {
  return (
    <div class={`card-body kind-result ${failed ? "failed" : ""}`}>
      <div class="card-label">
        <span>{failed ? "Result: failed" : partial ? "Result so far" : "Result"}</span>
        <CopyButton text={result} what={`result of ${name}`} />
      </div>
      <Json text={result} label={`Result of ${name}`} />
    </div>
  );
}
