"""Citations as Markdown links in the text, for readers that show nothing else: at the end of a sentence or block.

A stage over events. A link waits until the cited part, or span of it, has been said, then for the end of the sentence,
even where that lies in the next text part. What cites no place in particular follows the block as a paragraph. Nothing
is put into words, code or tables. Without sources the events pass untouched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.diagnostics import Diagnostics
from penstock.grammar import FREE, TERMINALS
from penstock.shaping.prose import Prose

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKUP = re.compile(r"([\\\[\]`*_<>])")
_UNSAFE = re.compile(r"[\s()<>\"\\\x00-\x1f]")
_MORE_URL = re.compile(r"[\w/%#?&=~-]")
_PASSING = FREE | {ev.Source}


def markdown_link(title: str, url: str) -> str:
    """A Markdown link, or nothing if the address is not one for the web (a `command:` link would run something)."""
    if not url.lower().startswith(("https://", "http://")):
        return ""
    host = url.split("//", 1)[1].split("/", 1)[0].removeprefix("www.")
    shown = _MARKUP.sub(r"\\\1", " ".join(title.split()) or host)
    safe = _UNSAFE.sub(lambda bad: "".join(f"%{byte:02X}" for byte in bad[0].encode("utf-8", "replace")), url)
    return f"[{shown}]({safe})"


class CitationLinks:
    """`keep`: whether the sources themselves go on too."""

    def __init__(self, *, keep: bool = True, diagnostics: Diagnostics | None = None) -> None:
        self.diagnostics = Diagnostics("citations") if diagnostics is None else diagnostics
        self._keep = keep
        self._begin()

    def _begin(self) -> None:
        self._unread: list[ev.TextDelta] = []  # what was said while nothing waited
        self._said: list[str] = []
        self._sizes: dict[int, int] = {}  # code points of each text part
        self._open: set[int] = set()
        self._prose = Prose()
        self._waiting: list[tuple[ev.Source, str]] = []  # sources whose words are not all said
        self._due: list[str] = []  # links for the next end of a sentence
        self._held: ev.TextEnd | None = None
        self._last = -1  # the number of the newest part

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        unread = self._unread
        for place, event in enumerate(events):
            kind = type(event)
            if kind is ev.TextDelta and not self._waiting and not self._due:
                unread.append(event)
            elif kind in self._watched or self._waiting or self._due:
                return [*events[:place], *self._with_care(events[place:])]
        return events if type(events) is list else list(events)  # pyright: ignore[reportUnknownVariableType]

    def finish(self) -> list[Any]:
        return []

    _watched = frozenset({ev.Start, ev.TextStart, ev.TextEnd, ev.Source})

    def _with_care(self, events: Sequence[Any]) -> list[Any]:
        out: list[Any] = []
        for event in events:
            kind = type(event)
            self._last = max(self._last, getattr(event, "index", -1))
            if self._held is not None and kind not in _PASSING:
                self._release(kind, out)
            if kind is ev.TextDelta:
                out.append(ev.TextDelta(event.index, self._read(event), event.logprobs))
            elif kind is ev.TextEnd:
                self._text_end(event, out)
            elif kind is ev.Source:
                self._source(event, out)
            else:
                self._other(kind, event, out)
        return out

    def _other(self, kind: type, event: Any, out: list[Any]) -> None:
        if kind is ev.Start:
            self._begin()
        elif kind is ev.TextStart:
            self._open.add(event.index)
        elif kind in TERMINALS:
            self._append(out)
        out.append(event)

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _read(self, delta: ev.TextDelta) -> str:
        """The text with the links that fall due in it."""
        if not self._waiting and not self._due:
            self._unread.append(delta)
            return delta.text
        before = self._size(delta.index)
        self._note(delta.index, delta.text)
        pieces: list[str] = []
        at = 0
        for cut in self._prose.read(delta.text):
            self._fall_due(delta.index, before + cut)
            if self._due:
                pieces += (delta.text[at:cut], self._links())
                at = cut
        self._fall_due(delta.index, before + len(delta.text))
        return "".join((*pieces, delta.text[at:]))

    def _text_end(self, event: ev.TextEnd, out: list[Any]) -> None:
        """The sentence may go on in the next part: wait for what comes before giving up on it."""
        self._open.discard(event.index)
        self._fall_due(event.index, None)
        if self._due or any(source.of is None for source, _ in self._waiting):
            self._held = event
        else:
            out.append(event)

    def _release(self, kind: type, out: list[Any]) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        text = "" if kind in (ev.TextStart, ev.TextDelta) else self._block_end()
        if text:
            out.append(ev.TextDelta(held.index, text))
        out.append(held)

    def _block_end(self) -> str:
        """Everything that waits, now that the block is over."""
        due = self._links() if self._due else ""
        loose = list(dict.fromkeys(link for source, link in self._waiting if source.of is None))
        self._waiting = [(source, link) for source, link in self._waiting if source.of is not None]
        return due + ("\n\n" + " ".join(loose) if loose else "")

    def _links(self) -> str:
        links = " ".join(dict.fromkeys(self._due))
        self._due = []
        return links if self._prose.spaced and not self._said else " " + links

    # ── sources ───────────────────────────────────────────────────────────────────────────────────

    def _source(self, event: ev.Source, out: list[Any]) -> None:
        if self._keep:
            out.append(event)
        link = markdown_link(event.title, event.url)
        if not link:
            self.diagnostics.add("no-link", "a citation without an address on the web is not written as a link")
            return
        self._catch_up()
        if _mentions("".join(self._said), event.url):
            return
        self._waiting.append((event, link))
        self._settle(event, out)

    def _settle(self, event: ev.Source, out: list[Any]) -> None:
        """Put the link in at once if its words are said and no sentence is under way."""
        if event.of is None:
            return
        self._fall_due(event.of, self._size(event.of) if event.of in self._open else None)
        after = self._prose.rested
        if self._due and after and event.of in self._open:
            links, self._due = " ".join(dict.fromkeys(self._due)), []
            out.append(ev.TextDelta(event.of, links + after))

    def _fall_due(self, part: int, said: int | None) -> None:
        """Of the sources of a part, those whose words are said: all of them once it has ended (None)."""
        if not self._waiting:
            return
        due = [
            link
            for source, link in self._waiting
            if source.of == part and (said is None or (source.span is not None and source.span[1] <= said))
        ]
        if due:
            self._due += due
            self._waiting = [(source, link) for source, link in self._waiting if link not in due or source.of != part]

    def _append(self, out: list[Any]) -> None:
        """Links that found no text to follow get a part of their own."""
        links = list(dict.fromkeys([*self._due, *(link for _, link in self._waiting)]))
        self._due, self._waiting = [], []
        if links:
            number = self._last + 1
            text = ("\n\n" if self._said else "") + " ".join(links)
            out += (ev.TextStart(number), ev.TextDelta(number, text), ev.TextEnd(number))

    # ── what was said ─────────────────────────────────────────────────────────────────────────────

    def _catch_up(self) -> None:
        """Read what passed while nothing waited."""
        for delta in self._unread:
            self._sizes[delta.index] = self._sizes.get(delta.index, 0) + len(delta.text)
        text = "".join([delta.text for delta in self._unread])
        self._unread.clear()
        if text:
            self._said.append(text)
            self._prose.read(text)

    def _note(self, part: int, text: str) -> None:
        self._catch_up()
        self._sizes[part] = self._size(part) + len(text)
        self._said.append(text)

    def _size(self, part: int) -> int:
        return self._sizes.get(part, 0)


def _mentions(text: str, url: str) -> bool:
    """Whether the text gives that very address itself, as some models do beside their annotations."""
    at = text.find(url)
    while at >= 0:
        if not _MORE_URL.match(text, at + len(url)):
            return True
        at = text.find(url, at + 1)
    return False
