// The request's body, where it was kept.
import { JsonView } from "../ui/JsonView.tsx";
import { LongText } from "../ui/LongText.tsx";
import { raw } from "./raw.ts";

export function Request({ text }: { text: string }) {
  return raw.value ? <LongText text={text} /> : <JsonView text={text} />;
}
