// What is typed into the search: asks the gateway for completions, chooses among them, and searches when it can be read.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { applyOption, askCompletion, type Completion, type Option } from "./completion.ts";

const DELAY = 120; // milliseconds after a key
const ARROWS: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };

type KeyPress = KeyboardEvent & { currentTarget: HTMLInputElement };

export function useCompletion(input: RefObject<HTMLInputElement | null>, q: string, onSearch: (q: string) => void) {
  const typing = useTyping(q, onSearch);
  const { text, completion, complete, search } = typing;
  const [open, setOpen] = useState(false);
  const { chosen, setChosen } = typing;
  const options = open ? (completion?.options ?? []) : [];
  const take = (option: Option) => {
    const element = input.current;
    if (!completion || !element) return;
    const next = applyOption(text, completion, option);
    element.value = next.text;
    element.setSelectionRange(next.at, next.at);
    element.focus();
    complete(next.text, next.at, 0);
  };
  const type = (words: string, at: number) => {
    setOpen(true);
    complete(words, at, DELAY);
  };
  const move = (by: number) => {
    setOpen(true);
    if (!completion || !open) complete(text, input.current?.selectionStart ?? text.length, 0);
    else setChosen(((chosen + 1 + by + options.length + 1) % (options.length + 1)) - 1); // one place is none
  };
  const submit = () => {
    setOpen(false);
    if (!completion?.error) search(text);
  };
  const actionOf = (key: string): (() => void) | undefined => {
    const option = options[chosen];
    const by = ARROWS[key];
    if (by !== undefined) return () => move(by);
    if ((key === "Enter" || key === "Tab") && option) return () => take(option);
    if (key === "Enter") return submit;
    return key === "Escape" && options.length ? () => setOpen(false) : undefined;
  };
  const press = (event: KeyPress) => {
    const run = actionOf(event.key);
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    run();
  };
  const clear = () => {
    typing.reset("");
    search("");
    input.current?.focus();
  };
  const close = () => setOpen(false);
  return {
    text,
    options,
    chosen,
    problem: completion?.error,
    typed: completion !== null,
    type,
    take,
    press,
    clear,
    close,
  };
}

/** The text, and what the gateway says about it. */
function useTyping(q: string, onSearch: (q: string) => void) {
  const [text, setText] = useState(q);
  const [completion, setCompletion] = useState<Completion | null>(null);
  const [chosen, setChosen] = useState(-1);
  const asking = useRef<AbortController | null>(null);
  const sent = useRef(q);
  const reset = (words: string) => {
    asking.current?.abort();
    setText(words);
    setCompletion(null);
  };
  useEffect(() => {
    if (q === sent.current) return; // a link or Esc changed it
    sent.current = q;
    reset(q);
  }, [q]);
  useEffect(() => () => asking.current?.abort(), []);
  const search = (words: string) => {
    sent.current = words;
    onSearch(words);
  };
  const complete = (words: string, at: number, delay: number) => {
    setText(words);
    asking.current?.abort();
    const asked = new AbortController();
    asking.current = asked;
    const take = (found: Completion) => {
      setCompletion(found);
      setChosen(-1);
      if (!found.error) search(words);
    };
    const fail = () => asked.signal.aborted || search(words); // the list says what is wrong
    const timer = setTimeout(() => askCompletion(words, at, asked.signal).then(take, fail), delay);
    asked.signal.addEventListener("abort", () => clearTimeout(timer));
  };
  return { text, completion, chosen, setChosen, complete, search, reset };
}
