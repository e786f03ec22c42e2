// The request's body, where it was kept.
import { JsonTree } from "../request/JsonTree.tsx";
import { LongText } from "../ui/LongText.tsx";
import { raw } from "./raw.ts";

export function Request({ text }: { text: string }) {
  if (raw.value) return <LongText text={text} />;
  return (
    <div class="request-pane">
      <JsonTree text={text} label="the request" />
    </div>
  );
}
