// A person is told once in a window that no provider has a key, however many have noticed it.

let claimed = false;

/** Whether this is the first to say it. */
export function claimPrompt(): boolean {
  const first = !claimed;
  claimed = true;
  return first;
}
