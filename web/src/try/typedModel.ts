// What stands in the box for the name of a model. Pure.

/**
 * What was typed, if it is still the choice; null if the choice was made elsewhere since. An empty box stays, although
 * an empty name is no choice: the view may choose a listed model in its place.
 */
export function typedModel(typed: string | null, chosen: string, listed: boolean): string | null {
  const name = typed?.trim();
  if (typed === null || name === chosen) return typed;
  return name === "" && listed ? typed : null;
}
