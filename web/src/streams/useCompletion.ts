// What is typed into the search: asks the gateway for completions, chooses among them, and searches when it can be read.
import { signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { applyOption, askCompletion, type Completion, type Option } from "./completion.ts";

const DELAY = 120; // milliseconds after a key

type KeyPress = KeyboardEvent & { currentTarget: HTMLInputElement };

const clears = signal(0);

/** Clears what is typed, also if it is not searched for because it cannot be read. */
export function clearTyped(): void {
  clears.value += 1;
}

export function useCompletion(input: RefObject<HTMLInputElement | null>, q: string, onSearch: (q: string) => void) {
  const typing = useTyping(q, onSearch);
  const { text, completion, complete, search } = typing;
  const [open, setOpen] = useState(false);
  const { chosen, setChosen } = typing;
  const options = open ? (completion?.options ?? []) : [];
  const take = (option: Option, found = completion) => {
    const element = input.current;
    if (!found || !element) return;
    const next = applyOption(element.value, found, option);
    element.value = next.text;
    element.setSelectionRange(next.at, next.at);
    element.focus();
    complete(next.text, next.at, 0);
  };
  /** The chosen option, or the first one: of what is typed now, if its completions have not come yet. */
  const takeFirst = () => {
    const option = options[Math.max(chosen, 0)];
    if (option && typing.current) return take(option);
    complete(text, input.current?.selectionStart ?? text.length, 0, (found) => {
      if (found.options[0]) take(found.options[0], found);
    });
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
    search(text); // the list says what is wrong
  };
  const chosenIsShown = options[chosen] !== undefined;
  const actions: Record<string, (() => void) | false> = {
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: chosenIsShown ? takeFirst : submit,
    Escape: options.length > 0 && (() => setOpen(false)),
    Tab: (chosenIsShown || (options.length > 0 && isInTerm(input.current))) && takeFirst,
  };
  const press = (event: KeyPress) => {
    const run = isPlain(event) && actions[event.key];
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

function isPlain(event: KeyPress): boolean {
  return !(event.isComposing || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey);
}

/** Whether the cursor is in a term that has begun. Elsewhere Tab goes on to the next control, as always. */
function isInTerm(element: HTMLInputElement | null): boolean {
  return /\S$/.test(element?.value.slice(0, element.selectionStart ?? undefined) ?? "");
}

/** The text, and what the gateway says about it. */
function useTyping(q: string, onSearch: (q: string) => void) {
  const [text, setText] = useState(q);
  const [completion, setCompletion] = useState<Completion | null>(null);
  const [current, setCurrent] = useState(false); // the completion is of this text
  const [chosen, setChosen] = useState(-1);
  const asking = useRef<AbortController | null>(null);
  const sent = useRef(q);
  const known = useRef(clears.value);
  const reset = (words: string) => {
    asking.current?.abort();
    setText(words);
    setCompletion(null);
  };
  useEffect(() => {
    if (q !== sent.current) reset(q); // a link changed it
    sent.current = q;
  }, [q]);
  useEffect(() => clears.subscribe((count) => count > known.current && reset("")), []);
  useEffect(() => () => asking.current?.abort(), []);
  const search = (words: string) => {
    sent.current = words;
    onSearch(words);
  };
  const complete = (words: string, at: number, delay: number, then?: (found: Completion) => void) => {
    setText(words);
    setCurrent(false);
    setChosen(-1);
    asking.current?.abort();
    const asked = new AbortController();
    asking.current = asked;
    const take = (found: Completion) => {
      setCompletion(found);
      setCurrent(true);
      if (!found.error) search(words);
      then?.(found);
    };
    const fail = () => asked.signal.aborted || search(words); // the list says what is wrong
    const timer = setTimeout(() => askCompletion(words, at, asked.signal).then(take, fail), delay);
    asked.signal.addEventListener("abort", () => clearTimeout(timer));
  };
  return { text, completion, current, chosen, setChosen, complete, search, reset };
}
