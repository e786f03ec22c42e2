// What can be done about the error, as a list.
import { formatRoute } from "../router.ts";
import { Icon, type IconName } from "../ui/Icon.tsx";
import { type Advice, advise } from "./advice.ts";
import type { ModelTokens } from "./estimates.ts";

const SIGNS: Record<Advice["kind"], { icon: IconName; word: string }> = {
  act: { icon: "tool", word: "To do" },
  wait: { icon: "half", word: "Learning" },
  fine: { icon: "info", word: "For information" },
};

export function AdviceList({ one }: { one: ModelTokens }) {
  return (
    <section class="advice" aria-label="What you can do">
      <h3 class="tokens-head">What you can do</h3>
      <ul>
        {advise(one).map(({ kind, title, text, turn }) => (
          <li key={title} class={kind}>
            <Icon name={SIGNS[kind].icon} />
            <div>
              <p class="advice-title">
                <span class="unseen">{`${SIGNS[kind].word}: `}</span>
                {title}
              </p>
              <p>
                {text} {turn && <a href={formatRoute("turn", turn)}>Look at the turn</a>}
              </p>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
