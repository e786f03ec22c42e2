"""The text index of the turns in memory. It is brought up to date when somebody searches: running turns pay nothing."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from penstock._inspector.request_pieces import read_short_texts, split_request
from penstock._inspector.turn_texts import read_redacted_answer
from penstock._redaction import redact_bytes
from penstock._store.kept_turns_index import TextIndex, TextPiece
from penstock._store.sqlite import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from penstock._store.journal import JournalEntry

log = logging.getLogger("penstock.inspector")


class IndexedTurn(Protocol):
    """A turn in memory. `entry`: its row of the journal, once it is finished. `cut`: its answer has more."""

    id: str
    entry: JournalEntry | None
    request: bytes
    request_cut: bool
    dropped: bool
    framing: str

    @property
    def tenant(self) -> str: ...

    @property
    def secret(self) -> str: ...

    @property
    def time(self) -> float: ...

    @property
    def finished(self) -> bool: ...

    @property
    def cut(self) -> bool: ...

    @property
    def error_bodies(self) -> list[str]: ...

    @property
    def answer_protocol(self) -> str: ...

    def chunks_from(self, start: int) -> list[tuple[float | None, bytes]]: ...


class MemoryTextIndex:
    """Indexes the captures that `captures` returns. Any thread may search."""

    def __init__(self, captures: Callable[[], list[IndexedTurn]], secrets: Callable[[], Iterable[str]]) -> None:
        self._captures, self._secrets = captures, secrets
        self._lock = threading.Lock()
        self._index: TextIndex | None = None
        self._states: dict[str, bool] = {}  # of indexed turns: whether they were finished

    def find_turns(self, phrase: str, tenant: str | None) -> frozenset[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        with self._lock:
            index = self._update()
            return index.find_turns(phrase, tenant)

    def find_cut_turns(self, tenant: str | None) -> Collection[str]:
        """Returns the ids of turns that are kept only in part: other words of them are not found."""
        with self._lock:
            return self._update().find_cut_turns(tenant)

    def forget_turns(self) -> None:
        """Removes turns that are no longer in memory."""
        with self._lock:
            if self._index is not None:
                self._remove_dropped({capture.id for capture in self._captures() if not capture.dropped})

    def _update(self) -> TextIndex:
        if self._index is None:
            self._index = TextIndex(connect())
            self._index.create_tables()
        captures = [capture for capture in self._captures() if not capture.dropped]
        self._remove_dropped({capture.id for capture in captures})
        known = tuple(self._secrets())
        for capture in captures:
            finished = capture.finished  # read before its chunks
            if self._states.get(capture.id) is not finished:
                secrets = (*known, capture.secret) if capture.secret else known
                cut = capture.request_cut or capture.cut
                try:
                    texts = _list_texts(capture, secrets)
                except Exception:  # one turn that cannot be read must not hide all others
                    log.exception("the words of the turn %s cannot be searched", capture.id)
                    texts, cut = [], True
                self._index.add_turn(capture.id, capture.tenant, capture.time, [texts], cut=cut)
                self._states[capture.id] = finished
        return self._index

    def _remove_dropped(self, left: set[str]) -> None:
        for name in [name for name in self._states if name not in left]:
            del self._states[name]
            if self._index is not None:
                self._index.remove_turn(name)


def _list_texts(capture: IndexedTurn, secrets: tuple[str, ...]) -> list[TextPiece]:
    """Returns the texts of a turn, without secrets. The answer is indexed once it is complete."""
    template, pieces = split_request(redact_bytes(capture.request, secrets))
    texts = [TextPiece(piece) for piece in (*pieces, read_short_texts(template)) if piece]
    if capture.entry is not None:
        answer = read_redacted_answer(capture, [chunk for _, chunk in capture.chunks_from(0)], secrets)
        if answer is not None:
            texts.append(answer)
    return texts
