// Which model Try it begins with. Pure.

/** Which model a newcomer begins with: one that needs no key and shows something at once. */
export function firstModel(models: readonly { id: string }[], remembered: string): string {
  const ids = models.map((model) => model.id);
  const wishes = [remembered, "replay/reasoning", "replay/text"];
  return wishes.find((wish) => ids.includes(wish)) ?? ids.find((id) => id.startsWith("replay/")) ?? ids[0] ?? "";
}
