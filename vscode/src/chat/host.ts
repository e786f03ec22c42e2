// The seam to VS Code's classes: what this host has of them. Nothing else here or in chat/ touches the vscode module at
// run time, so all of it runs in a plain Node.

export interface HostClasses {
  readonly Text: new (value: string) => { value: string };
  readonly Call: new (callId: string, name: string, input: object) => { callId: string; name: string; input: object };
  readonly Result: new (callId: string, content: unknown[]) => { callId: string; content: unknown[] };
  readonly Data: new (data: Uint8Array, mimeType: string) => { data: Uint8Array; mimeType: string };
  /** Proposed, but there at run time in most builds. */
  readonly Thinking?: new (
    value: string | string[],
    id?: string,
    metadata?: object,
  ) => { value: string | string[]; id?: string; metadata?: object };
}

/** The classes in a vscode module, whatever version it is. */
export function classesOf(module: Readonly<Record<string, unknown>>): HostClasses {
  const classes = {
    Text: module.LanguageModelTextPart,
    Call: module.LanguageModelToolCallPart,
    Result: module.LanguageModelToolResultPart,
    Data: module.LanguageModelDataPart,
  };
  const thinking = module.LanguageModelThinkingPart;
  return (typeof thinking === "function" ? { ...classes, Thinking: thinking } : classes) as HostClasses;
}
