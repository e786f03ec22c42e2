// Which models fill in the middle: as the gateway lists them. A model that does not is refused, with the names of those that do.

const LIFETIME = 60_000;
const NAMED = 6;

/** The names of the gateway's models that fill in the middle; undefined from a gateway that does not tell. */
export type ListFim = () => Promise<readonly string[] | undefined>;

export class FimModels {
  readonly #list: ListFim;
  readonly #now: () => number;
  #known: { names: Promise<readonly string[] | undefined>; until: number } | undefined;

  constructor(list: ListFim, now: () => number = Date.now) {
    this.#list = list;
    this.#now = now;
  }

  async names(): Promise<readonly string[] | undefined> {
    if (!this.#known || this.#known.until <= this.#now())
      this.#known = { names: this.#list().catch(() => this.forget()), until: this.#now() + LIFETIME };
    return this.#known.names;
  }

  /** Why a model cannot be used; undefined if it can, or if nothing is known. */
  async refusal(model: string): Promise<string | undefined> {
    const names = await this.names();
    return names && !names.includes(model) ? refusalText(model, names) : undefined;
  }

  forget(): undefined {
    this.#known = undefined;
    return undefined;
  }
}

export function refusalText(model: string, names: readonly string[]): string {
  const what = model ? `${model} does not fill in the middle` : "no model is chosen for inline completions";
  if (!names.length)
    return `${what}, and no other model of the gateway does. Add a provider that has one, such as Mistral (Codestral) or DeepSeek.`;
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  return `${what}. These models do: ${names.slice(0, NAMED).join(", ")}${more}.`;
}
