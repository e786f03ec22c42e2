// The host's cancellation tokens as abort signals.

import type { CancellationToken } from "vscode";

/** Runs something that ends when the token is cancelled. The subscription ends with it: a token may live on for long. */
export async function withSignal<T>(token: CancellationToken, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  if (token.isCancellationRequested) controller.abort();
  const subscription = token.onCancellationRequested(() => controller.abort());
  try {
    return await run(controller.signal);
  } finally {
    subscription.dispose();
  }
}
