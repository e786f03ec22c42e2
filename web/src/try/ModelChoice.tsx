// The choice of a model: a list by provider, and a place for any other name: an alias, or a model that no list has.
import { useId, useState } from "preact/hooks";
import { typedModel } from "./typedModel.ts";

interface Props {
  models: { id: string; provider: string }[];
  chosen: string;
  onChoose: (id: string) => void;
}

export function ModelChoice({ models, chosen, onChoose }: Props) {
  const id = useId();
  const listed = models.some((model) => model.id === chosen);
  const [typed, setTyped] = useState<string | null>(null); // null: a model of the list, or one that was chosen before
  const shown = typedModel(typed, chosen, listed);
  const other = shown !== null || (models.length > 0 && !listed && chosen !== "");
  const providers = [...new Set(models.map(({ provider }) => provider))];
  const pick = (value: string) => {
    setTyped(value === "" ? "" : null);
    if (value) onChoose(value);
  };
  return (
    <div class="model-choice">
      <label for={id}>Model</label>
      <select id={id} value={other ? "" : chosen} onChange={(event) => pick(event.currentTarget.value)}>
        {providers.map((provider) => (
          <optgroup key={provider} label={provider || "aliases"}>
            {models
              .filter((model) => model.provider === provider)
              .map((model) => (
                <option key={model.id} value={model.id}>
                  {model.id}
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
          value={shown ?? chosen}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            onChoose(event.currentTarget.value.trim());
          }}
        />
      )}
    </div>
  );
}
