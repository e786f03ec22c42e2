// The lists of models of all gateways: what was last told, what is being asked, and why there is none. The last list of a
// gateway is kept over restarts and shown at once; a list that cannot be had never makes models disappear.

import { Failure, said } from "./errors.ts";
import { fingerprint, isReplay } from "./models.ts";
import type { Model } from "./wire.ts";

/** Where lists are kept: VS Code's `Memento`. */
export interface Memory {
  get(key: string): unknown;
  update(key: string, value: unknown): PromiseLike<void>;
}

export interface ListSource {
  /** Tells its models from those of other gateways. */
  readonly suffix: string;
  readonly fetch: () => Promise<readonly Model[]>;
}

export interface ModelList {
  /** Undefined: no list of this gateway was ever seen. */
  readonly models: readonly Model[] | undefined;
  /** Why the last request for it failed. */
  readonly why: Failure | undefined;
}

interface State {
  models: readonly Model[] | undefined;
  why: Failure | undefined;
  source: ListSource;
  asked: boolean;
  fetching: Promise<void> | undefined;
  /** What the host was told. */
  told: string;
}

const PATIENCE = 2_000; // milliseconds that the host waits for a list before it is told the last one
const KEY = "models";
const MAX_SAVED = 2_000_000; // characters of a list that is kept

export class ModelLists {
  readonly #memory: Memory;
  readonly #changed: () => void;
  readonly #patience: number;
  readonly #states = new Map<string, State>();

  /** `changed` is called when the host should ask anew. */
  constructor(memory: Memory, changed: () => void, patience = PATIENCE) {
    this.#memory = memory;
    this.#changed = changed;
    this.#patience = patience;
  }

  /** What is known of a gateway's models now. The first time that is the list of the last session, at once. */
  async list(source: ListSource): Promise<ModelList> {
    const state = this.#state(source);
    const atOnce = !state.asked && state.models !== undefined;
    state.asked = true;
    const fetching = this.#fetch(state);
    if (!atOnce) {
      state.told = ""; // the host is waiting: it need not be told
      await within(fetching, this.#patience);
    }
    state.told = signature(state);
    return { models: state.models, why: state.why };
  }

  /** Ask all gateways whose models the host was told of. */
  async look(): Promise<void> {
    await Promise.all([...this.#states.values()].map((state) => this.#fetch(state)));
  }

  /** Requests that are under way are for other settings: their answers no longer count. */
  forget(): void {
    for (const state of this.#states.values()) state.fetching = undefined;
  }

  /** All models of a gateway as they were last listed. */
  models(suffix: string): readonly Model[] {
    return this.#states.get(suffix)?.models ?? savedList(this.#memory.get(KEY + suffix)) ?? [];
  }

  /** Some models of a gateway, asked for now; the last known ones if it takes its time or fails. */
  async freshOrLast({ suffix, fetch }: ListSource, wanted: (model: Model) => boolean): Promise<readonly Model[]> {
    const known = this.models(suffix).filter(wanted);
    if (!known.length) return (await fetch()).filter(wanted);
    let fresh: readonly Model[] | undefined;
    const asked = fetch().then(
      (models) => {
        fresh = models.filter(wanted);
      },
      () => {},
    );
    await within(asked, this.#patience);
    return fresh ?? known;
  }

  #state(source: ListSource): State {
    const known = this.#states.get(source.suffix);
    if (known) {
      known.source = source;
      return known;
    }
    const models = savedList(this.#memory.get(KEY + source.suffix));
    const state: State = { models, why: undefined, source, asked: false, fetching: undefined, told: "" };
    this.#states.set(source.suffix, state);
    return state;
  }

  /** Ask once, however many wait for it. Never rejects. */
  #fetch(state: State): Promise<void> {
    if (state.fetching) return state.fetching;
    const fetching: Promise<void> = state.source.fetch().then(
      (models) => this.#take(state, fetching, () => this.#keep(state, models)),
      (error: unknown) => this.#take(state, fetching, () => fail(state, error)),
    );
    state.fetching = fetching;
    return fetching;
  }

  #take(state: State, fetching: Promise<void>, apply: () => void): void {
    if (state.fetching !== fetching) return;
    state.fetching = undefined;
    apply();
    if (state.told && signature(state) !== state.told) this.#changed();
  }

  #keep(state: State, models: readonly Model[]): void {
    const changed = !state.models || fingerprint(models) !== fingerprint(state.models);
    state.models = models;
    state.why = undefined;
    if (!changed) return;
    const text = JSON.stringify(models);
    void this.#memory.update(KEY + state.source.suffix, text.length <= MAX_SAVED ? text : undefined);
  }
}

function fail(state: State, error: unknown): void {
  state.why = error instanceof Failure ? error : new Failure(said(error), "network");
}

/** What the host sees of a state: a reason is seen only where there are no models, or only packaged ones. */
function signature({ models, why }: State): string {
  const listed = models ? fingerprint(models) : "starting";
  return models?.some((model) => !isReplay(model)) ? listed : `${listed} ${why?.message ?? ""}`;
}

/** A list that an earlier session kept; undefined where it cannot be used. */
function savedList(text: unknown): readonly Model[] | undefined {
  if (typeof text !== "string") return undefined;
  try {
    const models: unknown = JSON.parse(text);
    return Array.isArray(models) && models.every(usable) ? (models as Model[]) : undefined;
  } catch {
    return undefined;
  }
}

export function usable(model: unknown): model is Model {
  const row = model as Partial<Model> | null;
  return typeof row?.id === "string" && typeof row.name === "string" && typeof row.maxInputTokens === "number";
}

function within(work: Promise<void>, milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    void work.then(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
