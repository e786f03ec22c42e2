"""Citations as Markdown links in the text, for readers that show nothing else: at the end of a sentence or block.

A stage over events. A link waits until the cited part, or span of it, has been said, then for the end of the sentence,
even where that lies in the next text part. What cites no place in particular follows the block as a paragraph. Nothing
is put into words, code or tables. Without sources the events pass untouched.
"""

from __future__ import annotations

import re
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._diagnostics import Diagnostics
from penstock._grammar import FREE, TERMINALS
from penstock._transforms.sentence_ends import AddressIndex, SentenceFinder

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKUP = re.compile(r"([\\\[\]`*_<>])")
_UNSAFE = re.compile(r"[\s()<>\"\\\x00-\x1f]")
_PASSING = FREE | {ev.Source}  # what may come between the text and what decides about its end
_TEXT: set[type[ev.Event]] = {ev.TextDelta}
_WATCHED = frozenset({ev.Start, ev.TextStart, ev.TextEnd, ev.Source})


def markdown_link(title: str, url: str) -> str:
    """A Markdown link, or nothing if the address is not one for the web (a `command:` link would run something)."""
    if not url.lower().startswith(("https://", "http://")):
        return ""
    host = url.split("//", 1)[1].split("/", 1)[0].removeprefix("www.")
    shown = _MARKUP.sub(r"\\\1", " ".join(title.split()) or host)
    safe = _UNSAFE.sub(lambda bad: "".join(f"%{byte:02X}" for byte in bad[0].encode("utf-8", "replace")), url)
    return f"[{shown}]({safe})"


class PendingSources:
    """The sources of one part that wait for their words, each with its number."""

    __slots__ = ("_by_end", "_whole")

    def __init__(self) -> None:
        self._by_end: list[tuple[int, int, ev.Source]] = []  # a heap: the end of the words, number, source
        self._whole: list[tuple[int, ev.Source]] = []  # sources of the whole part

    def __bool__(self) -> bool:
        return bool(self._by_end or self._whole)

    def add(self, number: int, source: ev.Source) -> None:
        if source.span is None:
            self._whole.append((number, source))
        else:
            heappush(self._by_end, (source.span[1], number, source))

    def take(self, said: int | None) -> list[tuple[int, ev.Source]]:
        """Those whose words are said, in the order they came: all of them once the part has ended (None)."""
        taken: list[tuple[int, ev.Source]] = []
        while self._by_end and (said is None or self._by_end[0][0] <= said):
            taken.append(heappop(self._by_end)[1:])
        if said is None:
            taken += self._whole
            self._whole = []
        return sorted(taken, key=itemgetter(0))


class CitationLinks:
    """`keep`: whether the sources themselves go on too."""

    def __init__(self, *, keep: bool = True, diagnostics: Diagnostics | None = None) -> None:
        self.diagnostics = Diagnostics("citations") if diagnostics is None else diagnostics
        self._keep = keep
        self.linked = False  # whether any link was put in
        self._begin()

    def _begin(self) -> None:
        self._unread: list[ev.TextDelta] = []  # what was said while no place was looked for
        self._given = AddressIndex()
        self._spoken = False  # whether any text was read
        self._sizes: dict[int, int] = {}  # code points read of each text part
        self._open: set[int] = set()
        self._prose = SentenceFinder()
        self._waiting: dict[int, PendingSources] = {}  # by part: sources whose words are not all said
        self._count = 0  # sources that ever waited
        self._due: list[str] = []  # links for the next end of a sentence
        self._loose: list[ev.Source] = []  # sources of no place in particular
        self._placed: set[str] = set()
        self._held: ev.TextEnd | None = None
        self._last = -1  # the number of the newest part

    @property
    def idle(self) -> bool:
        """No link waits: more text passes untouched, and need only be heard."""
        return not (self._waiting or self._due or self._loose or self._held)

    def hear(self, texts: Sequence[Any]) -> None:
        """Note what is said past this stage while it is idle."""
        self._unread.extend(texts)

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        if not self.idle:
            return self._with_care(events)
        kinds: set[type[ev.Event]] = set(map(type, events))
        if kinds == _TEXT:
            self._unread.extend(events)
        elif kinds & _WATCHED:
            return self._with_care(events)
        else:
            self._unread.extend(event for event in events if type(event) is ev.TextDelta)
        return events if type(events) is list else list(events)  # pyright: ignore[reportUnknownVariableType]

    def finish(self) -> list[Any]:
        return [] if self._held is None else [self._held]

    def _with_care(self, events: Sequence[Any]) -> list[Any]:
        out: list[Any] = []
        for event in events:
            kind: type[ev.Event] = type(event)  # pyright: ignore[reportUnknownVariableType]
            self._last = max(self._last, getattr(event, "index", -1))
            if self._held is not None and kind not in _PASSING:
                self._release(out, text=kind in (ev.TextStart, ev.TextDelta))
            if kind is ev.TextDelta:
                out.append(self._read(event))
            elif kind is ev.TextEnd:
                self._text_end(event, out)
            elif kind is ev.Source:
                self._source(event, out)
            else:
                self._other(event, out)
        return out

    def _other(self, event: Any, out: list[Any]) -> None:
        kind: type[ev.Event] = type(event)  # pyright: ignore[reportUnknownVariableType]
        if kind is ev.Start:
            self._begin()
        elif kind is ev.TextStart:
            self._open.add(event.index)
        elif kind in TERMINALS:
            self._append(out)
        out.append(event)

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _read(self, delta: ev.TextDelta) -> ev.TextDelta:
        """The delta, with the links that fall due in it."""
        if not self._waiting and not self._due:
            self._unread.append(delta)
            return delta
        text, part, before = delta.text, delta.index, self._sizes.get(delta.index, 0)
        cuts = [0] if not before and self._prose.ended else []  # a new part after a whole sentence
        cuts += self._prose.read(text)
        pieces: list[str] = []
        at = 0
        for cut in cuts:
            self._fall_due(part, before + cut)
            if self._due:
                pieces += (text[at:cut], " ", self._links(), "" if text[cut : cut + 1].isspace() else " ")
                at = cut
        self._add_text(text)
        self._sizes[part] = before + len(text)
        self._fall_due(part, self._sizes[part])
        return ev.TextDelta(part, "".join((*pieces, text[at:])), delta.logprobs) if pieces else delta

    def _text_end(self, event: ev.TextEnd, out: list[Any]) -> None:
        """The sentence may go on in the next part: wait for what comes before giving up on it."""
        self._open.discard(event.index)
        self._fall_due(event.index, None)
        if self._due or self._loose:
            self._held = event
        else:
            out.append(event)

    def _release(self, out: list[Any], *, text: bool) -> None:
        """Let the held end out. Unless more text follows the block is over, and what waits goes before it."""
        held, self._held = self._held, None
        if held is None:
            return
        if not text:
            links = (self._prose.lead + self._links() if self._due else "") + self._paragraph()
            if links:
                out.append(ev.TextDelta(held.index, links))
        out.append(held)

    def _links(self) -> str:
        due, self._due = self._due, []
        return " ".join(dict.fromkeys(due))

    def _paragraph(self) -> str:
        """The sources of no place in particular, less those the text has given already."""
        loose, self._loose = self._loose, []
        if not loose:
            return ""
        self._catch_up()
        links = [link for source in loose if source.url not in self._placed and (link := self._link(source))]
        return "\n\n" * bool(links and self._spoken) + " ".join(dict.fromkeys(links))

    # ── sources ───────────────────────────────────────────────────────────────────────────────────

    def _source(self, event: ev.Source, out: list[Any]) -> None:
        if self._keep:
            out.append(event)
        if not markdown_link(event.title, event.url):
            self.diagnostics.add("no-link", "a citation without an address on the web is not written as a link")
        elif event.of is None:
            self._loose.append(event)
        else:
            self._catch_up()
            self._count += 1
            self._waiting.setdefault(event.of, PendingSources()).add(self._count, event)
            self._insert_due_links(event.of, out)

    def _insert_due_links(self, part: int, out: list[Any]) -> None:
        """Put links in at once if their words are said and no sentence is under way."""
        is_open = part in self._open
        self._fall_due(part, self._sizes.get(part, 0) if is_open else None)
        after = self._prose.rested
        if self._due and after and is_open:
            out.append(ev.TextDelta(part, self._links() + after))

    def _fall_due(self, part: int, said: int | None) -> None:
        """Of the sources of a part, those whose words are said: all of them once it has ended (None)."""
        waiting = self._waiting.get(part)
        if waiting is None:
            return
        self._due += filter(None, [self._link(source) for _, source in waiting.take(said)])
        if not waiting:
            del self._waiting[part]

    def _link(self, source: ev.Source) -> str:
        """The link, unless the text gives the address itself, as some models do beside their annotations."""
        if self._given.has(source.url):
            return ""
        self._placed.add(source.url)
        self.linked = True
        return markdown_link(source.title, source.url)

    def _append(self, out: list[Any]) -> None:
        """Links that found no text to follow get a part of their own."""
        rest = [row for waiting in self._waiting.values() for row in waiting.take(None)]
        self._due += [self._link(source) for _, source in sorted(rest, key=itemgetter(0))]
        self._waiting.clear()
        paragraph = self._paragraph()
        due = [link for link in dict.fromkeys(self._due) if link]
        self._due = []
        text = ("\n\n" * bool(due and self._spoken)) + " ".join(due) + paragraph
        if text:
            number = self._last + 1
            out += (ev.TextStart(number), ev.TextDelta(number, text), ev.TextEnd(number))

    def _catch_up(self) -> None:
        """Read what passed while no place was looked for."""
        text = "".join([delta.text for delta in self._unread])
        if text:
            for delta in self._unread:
                self._sizes[delta.index] = self._sizes.get(delta.index, 0) + len(delta.text)
            self._unread.clear()
            self._add_text(text)
            self._prose.read(text)

    def _add_text(self, text: str) -> None:
        self._spoken = True
        self._given.add(text)
