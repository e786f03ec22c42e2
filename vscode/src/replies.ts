// What follows a reply: it is kept for the inspector, and changes what the usage view shows.

import * as vscode from "vscode";
import type { Notices } from "./chat/converse.ts";
import { questionOf, RecentRequests } from "./extras/recent.ts";
import type { Address } from "./gateway/http.ts";
import { LiveWatch } from "./gateway/liveWatch.ts";
import { UsageView } from "./usage-view.ts";

export class Replies {
  readonly usage: UsageView;
  readonly recent = new RecentRequests();
  readonly #watch: LiveWatch;
  readonly #registered: vscode.Disposable;

  constructor(address: () => Promise<Address>, kept: vscode.Memento) {
    this.usage = new UsageView(address, kept);
    this.#watch = new LiveWatch(address);
    this.#registered = vscode.Disposable.from(this.usage.register(), this.#watch);
  }

  /** The gateway answers: watch it, so that it keeps what the inspector shows. */
  look(): void {
    this.#watch.look();
  }

  /** Notices that are also followed here. */
  watched(notices: Notices): Notices {
    return {
      ...notices,
      onBegin: (request) => {
        notices.onBegin?.(request);
        this.look();
      },
      onUsage: (...told) => {
        notices.onUsage?.(...told);
        this.usage.replied();
      },
      onReply: ({ id, asked: { model, messages }, address }) =>
        this.recent.add({ id, model: model.name, question: questionOf(messages), time: Date.now(), address }),
    };
  }

  dispose(): void {
    this.#registered.dispose();
  }
}
