// An entry for VS Code's own "Custom Endpoint" provider that points at the gateway: for a window, or a machine, without
// this extension. The key is left for the reader to fill in.

import type { Address } from "../gateway/http.ts";
import type { Model } from "../wire.ts";

export function endpointEntry({ url }: Address, models: readonly Model[]): string {
  const entry = {
    name: "Penstock",
    vendor: "customendpoint",
    apiKey: "THE KEY OF THE GATEWAY",
    apiType: "chat-completions",
    models: models.map(({ id, name, maxInputTokens, maxOutputTokens, capabilities }) => ({
      id,
      name,
      url: `${url}/v1/chat/completions`,
      toolCalling: Boolean(capabilities.toolCalling),
      vision: Boolean(capabilities.imageInput),
      maxInputTokens,
      maxOutputTokens,
    })),
  };
  return JSON.stringify(entry, undefined, 2);
}
