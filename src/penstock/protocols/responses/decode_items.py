"""The output items of one response, found by whatever a provider names them with.

An event names its item by id, by position, by both or by neither; ids may change from event to event (Copilot),
positions may be shared (bad proxies). So: the id if it is known, else the position, and only if the kind of item suits.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import lenient_fields as lenient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.protocols.responses.wire import Item

Key: TypeAlias = tuple[str, Any, str, str | None]  # what it names, its value, the kind of item, its call


_SEARCHED = 8  # parts that are compared, at most, for each that is repeated


class Repeats:
    """How one event repeats the parts of one kind in an item: which part each of its places means.

    The place it names may differ from the one that the deltas named: gpt-oss behind Bedrock streams at
    `content_index` 1 what its finished item has at position 0. So a part with the same words is meant, even if it has
    another number. No two places mean the same part: equal texts are several if they are repeated several times.
    """

    __slots__ = ("_free", "_meant", "_read", "_taken")

    def __init__(self) -> None:
        self._meant: dict[int, int] = {}  # place in the event → place of the part
        self._taken: set[int] = set()
        self._free: dict[int, None] = {}  # places of parts that this event did not repeat yet, in order
        self._read = 0  # places that were looked at

    def claim(self, place: int, streamed: Sequence[int], is_alike: Callable[[int], bool]) -> None:
        """Note the part that a place means, if one fits. `streamed` only ever grows."""
        if place in self._meant:
            return
        self._free.update(dict.fromkeys(one for one in streamed[self._read :] if one not in self._taken))
        self._read = len(streamed)
        meant = place if place in self._free and is_alike(place) else self._search(is_alike)
        if meant is not None:
            self._take(place, meant)

    def find(self, place: int, streamed: Sequence[int], is_alike: Callable[[int], bool]) -> int:
        """The place of the part that is meant; one of a new part where none fits."""
        self.claim(place, streamed, is_alike)
        if place not in self._meant:
            self._take(place, -1 - len(streamed) if place in self._taken else place)
        return self._meant[place]

    def _take(self, place: int, meant: int) -> None:
        self._meant[place] = meant
        self._taken.add(meant)
        self._free.pop(meant, None)

    def _search(self, is_alike: Callable[[int], bool]) -> int | None:
        return next((one for one in islice(self._free, _SEARCHED) if is_alike(one)), None)


def repeats(said: str, whole: str) -> bool:
    """Whether one text is the other, or how it begins."""
    said, whole = said.strip(), whole.strip()
    return bool(said and whole) and (whole.startswith(said) or said.startswith(whole))


def equals(said: str, whole: str) -> bool:
    """Whether both texts are the same, but for space around them."""
    return said.strip() == whole.strip()


class Slot:
    """One item, and what was made of it so far. `kind` is its type, empty while only pieces of it are known."""

    __slots__ = ("call", "closed", "done", "held", "id", "index", "item", "kind", "number", "parts", "places",
                 "repeats", "sealed", "told", "whole", "word")  # fmt: skip

    def __init__(self, number: int, kind: str, id: str, index: int | None) -> None:
        self.number = number
        self.kind = kind
        self.id = id
        self.index = index
        self.item: Item = {}  # as it was last seen
        self.told = False  # announced, or done without
        self.done = False
        self.parts: dict[tuple[str, int], int] = {}  # (kind, place in the item) → the event index of its part
        self.closed: dict[tuple[str, int], str] = {}  # … → all that was said, once it is closed
        self.places: dict[str, list[int]] = {}  # kind → the places of its parts, in the order they were opened
        self.repeats: dict[tuple[str, str], Repeats] = {}  # (event, kind) → which parts it repeats
        self.whole: list[tuple[str, int]] = []  # parts of reasoning that may be closed when another begins
        self.sealed = False  # encrypted content was delivered
        self.call = ""  # the id of the call that was opened for it
        self.held: list[str] = []  # pieces of input that came before the item
        self.word: str | None = None  # the last word on all of its input

    def take(self, item: Item, index: int | None) -> None:
        """Note what is newly said of it."""
        self.kind = lenient.get_text(item, "type") or self.kind
        self.id = lenient.get_text(item, "id") or self.id
        self.index = self.index if index is None else index
        self.item = item
        self.told = True


class Items:
    """All items of the response being read. Slots are numbered through the whole stream."""

    def __init__(self) -> None:
        self._count = 0
        self.clear()

    def clear(self) -> None:
        self.slots: list[Slot] = []
        self._by_id: dict[str, Slot] = {}
        self._by_index: dict[int, Slot] = {}
        self._unnamed: OrderedDict[int, Slot] = (
            OrderedDict()
        )  # by number: pieces that named no item and still wait for one

    def find(self, id: str, index: int | None, kinds: Sequence[str]) -> Slot | None:
        """The slot that an event means; one that names nothing means the last open item of a kind that suits."""
        named = self._by_id.get(id) if id else None
        placed = None if index is None else self._by_index.get(index)
        if placed is not None and placed.id == id:
            named = placed  # several items may share an id (xAI)
        for slot in (named, placed):
            if slot is not None and (not slot.kind or slot.kind in kinds):
                return slot
        if id or index is not None:
            return None
        last = self.slots[-1] if self.slots else None
        return last if last is not None and not last.done and (not last.kind or last.kind in kinds) else None

    def place(self, id: str, index: int | None, kinds: Sequence[str], kind: str) -> Slot:
        """The slot that an event means, or a new one: its pieces may come before the item itself."""
        return self.find(id, index, kinds) or self._new(kind, id, index)

    def announced(self, item: Item, index: int | None) -> Slot | None:
        """The slot of an item that is added, or None if it was announced before."""
        kind, named = lenient.get_text(item, "type"), lenient.get_text(item, "id")
        slot = self.find(named, index, (kind,)) or self._nameless(kind)
        if slot is not None and slot.told:
            if not _other(slot, named, index) and (named or not slot.done):
                return None
            slot = None
        return self._taken(slot, item, index)

    def finished(self, item: Item, index: int | None) -> Slot:
        """The slot of an item that is done, announced or not."""
        kind, named = lenient.get_text(item, "type"), lenient.get_text(item, "id")
        slot = self.find(named, index, (kind,)) or self._nameless(kind)
        if slot is not None and (_other_call(slot, item) or (slot.done and _other(slot, named, index))):
            slot = None
        return self._taken(slot, item, index)

    def matched(self, output: Iterable[Item]) -> list[Slot]:
        """The slots of a final snapshot: by id or call first, then by position, then by order within a kind."""
        rows: list[tuple[int, Item]] = list(enumerate(output))
        found: dict[int, Slot] = {}
        free = FreeSlots(self.slots)
        for wanted in (_by_name, _by_place, _by_kind):
            for place, item in rows:
                slot = None if place in found else free.take(wanted(item, place))
                if slot is not None:
                    found[place] = slot
        return [self._taken(found.get(place), item, None) for place, item in rows]

    def _taken(self, slot: Slot | None, item: Item, index: int | None) -> Slot:
        if slot is None:
            slot = self._new(lenient.get_text(item, "type"), lenient.get_text(item, "id"), index)
        slot.take(item, index)
        self._unnamed.pop(slot.number, None)
        if slot.id:
            self._by_id[slot.id] = slot
        if slot.index is not None:
            self._by_index[slot.index] = slot
        return slot

    def _nameless(self, kind: str) -> Slot | None:
        """Pieces that named no item and still wait for one."""
        return next((one for one in self._unnamed.values() if one.kind in ("", kind)), None)

    def _new(self, kind: str, id: str, index: int | None) -> Slot:
        slot = Slot(self._count, kind, id, index)
        self._count += 1
        self.slots.append(slot)
        if id:
            self._by_id[id] = slot
        if index is not None:
            self._by_index[index] = slot
        if not id and index is None:
            self._unnamed[slot.number] = slot
        return slot


class FreeSlots:
    """Slots that no item of a final snapshot was matched with yet. Each is found by its keys, the first one first."""

    def __init__(self, slots: Iterable[Slot]) -> None:
        self._by_key: dict[Key, deque[Slot]] = {}
        self._taken: set[int] = set()
        for slot in slots:
            for key in _keys(slot):
                self._by_key.setdefault(key, deque()).append(slot)

    def take(self, keys: Iterable[Key]) -> Slot | None:
        """The first free slot that has one of the keys."""
        firsts = [slot for key in keys if (slot := self._first(key)) is not None]
        if not firsts:
            return None
        slot = min(firsts, key=attrgetter("number"))
        self._taken.add(slot.number)
        return slot

    def _first(self, key: Key) -> Slot | None:
        slots = self._by_key.get(key)
        while slots and slots[0].number in self._taken:
            slots.popleft()
        return slots[0] if slots else None


def _keys(slot: Slot) -> Iterator[Key]:
    """A slot whose call is known (or is not) is found with that call, and by whoever names none."""
    for what, value in (("id", slot.id), ("index", slot.index), ("kind", "")):
        if value not in ("", None) or what == "kind":
            yield what, value, slot.kind, slot.call
            yield what, value, slot.kind, None
    if slot.call:
        yield "call", slot.call, slot.kind, slot.call


def _wanted(what: str, value: Any, item: Item, kinds: Sequence[str]) -> Iterator[Key]:
    call = lenient.get_text(item, "call_id")
    calls = (call, "") if call else (None,)  # a call with another id than that of a slot is another call
    return ((what, value, kind, one) for kind in kinds for one in calls)


def _by_name(item: Item, _: int) -> Iterator[Key]:
    named, call, kinds = (
        lenient.get_text(item, "id"),
        lenient.get_text(item, "call_id"),
        ("", lenient.get_text(item, "type")),
    )
    if named:
        yield from _wanted("id", named, item, kinds)
    if call:
        yield from (("call", call, kind, call) for kind in kinds)


def _by_place(item: Item, place: int) -> Iterator[Key]:
    return _wanted("index", place, item, ("", lenient.get_text(item, "type")))


def _by_kind(item: Item, _: int) -> Iterator[Key]:
    return _wanted("kind", "", item, (lenient.get_text(item, "type"),))


def _other(slot: Slot, named: str, index: int | None) -> bool:
    """An item with another name or at another place than one that is done is another item."""
    return bool(named and named != slot.id) or (index is not None and slot.index not in (None, index))


def _other_call(slot: Slot, item: Item) -> bool:
    """A call with another id than the one that was opened for this slot is another call."""
    call = lenient.get_text(item, "call_id")
    return bool(slot.call and call and call != slot.call)
