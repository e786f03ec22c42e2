// A choice of a few, side by side: radio buttons that look like one bar.
import "./segments.css";

interface Props<T extends string> {
  name: string;
  legend: string;
  options: readonly { id: T; label: string; note?: string }[];
  chosen: T;
  onChoose: (id: T) => void;
}

export function Segments<T extends string>({ name, legend, options, chosen, onChoose }: Props<T>) {
  return (
    <fieldset class="segments">
      <legend class="unseen">{legend}</legend>
      {options.map(({ id, label, note }) => (
        <label key={id} title={note} class={id === chosen ? "chosen" : undefined}>
          <input type="radio" name={name} value={id} checked={id === chosen} onChange={() => onChoose(id)} />
          {label}
        </label>
      ))}
    </fieldset>
  );
}
