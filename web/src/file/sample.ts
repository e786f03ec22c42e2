// A short stream to look at when one has no file at hand: thinking, then two calls whose arguments come interleaved.

const PAYLOADS: [string, unknown][] = [
  ["message_start", { message: { id: "msg_sample", model: "sample-model", role: "assistant", content: [], usage: { input_tokens: 41, output_tokens: 1 } } }],
  ["content_block_start", { index: 0, content_block: { type: "thinking", thinking: "", signature: "" } }],
  ["content_block_delta", { index: 0, delta: { type: "thinking_delta", thinking: "Two gauges are asked for. " } }],
  ["content_block_delta", { index: 0, delta: { type: "thinking_delta", thinking: "They do not depend on each other, so both at once." } }],
  ["content_block_delta", { index: 0, delta: { type: "signature_delta", signature: "c2FtcGxl" } }],
  ["content_block_stop", { index: 0 }],
  ["content_block_start", { index: 1, content_block: { type: "text", text: "" } }],
  ["content_block_delta", { index: 1, delta: { type: "text_delta", text: "I read **both gauges** " } }],
  ["content_block_delta", { index: 1, delta: { type: "text_delta", text: "at once." } }],
  ["content_block_stop", { index: 1 }],
  ["content_block_start", { index: 2, content_block: { type: "tool_use", id: "toolu_1", name: "read_gauge", input: {} } }],
  ["content_block_start", { index: 3, content_block: { type: "tool_use", id: "toolu_2", name: "read_gauge", input: {} } }],
  ["content_block_delta", { index: 2, delta: { type: "input_json_delta", partial_json: '{"station":' } }],
  ["content_block_delta", { index: 3, delta: { type: "input_json_delta", partial_json: '{"station":"surge' } }],
  ["content_block_delta", { index: 2, delta: { type: "input_json_delta", partial_json: '"upper gate"}' } }],
  ["content_block_delta", { index: 3, delta: { type: "input_json_delta", partial_json: ' tank"}' } }],
  ["content_block_stop", { index: 2 }],
  ["content_block_stop", { index: 3 }],
  ["message_delta", { delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: 58 } }],
  ["message_stop", {}],
]; // biome-ignore format: one payload to a line

export function sampleStream(): string {
  return PAYLOADS.map(([type, rest]) => {
    const payload = JSON.stringify({ type, ...(rest as object) });
    return `event: ${type}\ndata: ${payload}\n\n`;
  }).join("");
}
