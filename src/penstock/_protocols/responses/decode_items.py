"""Finds the output item that an event belongs to, and the streamed part that a later event repeats.

An event names its item by id, by position, by both or by neither. Ids may change from event to event (Copilot), and
positions may be shared (faulty proxies). A known id wins over the position, and only an item of a fitting kind matches.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from penstock import _lenient_fields as lenient
from penstock._protocols.responses.wire import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._ledger import Ledger

SlotKey: TypeAlias = tuple[str, Any, str, str | None]  # what is compared, its value, the kind of item, its call id
_MAX_COMPARED = 8  # parts that are compared for each repeated part


class RepeatMatcher:
    """Matches the parts that one event repeats with the streamed parts of one kind in an item.

    `*.done`, the end of the content part, the end of the item and the final snapshot all repeat complete parts. The
    index they name may differ from that of the deltas: gpt-oss behind Bedrock streams at `content_index` 1 what its
    finished item has at position 0. So a part with the same text matches even if its index differs. Two repeats never
    match the same part: equal texts that are repeated several times are several parts.
    """

    __slots__ = ("_matched", "_matches", "_seen", "_unmatched")

    def __init__(self) -> None:
        self._matches: dict[int, int] = {}  # index in the event → index of the streamed part
        self._matched: set[int] = set()
        self._unmatched: dict[int, None] = {}  # streamed parts that this event did not repeat yet, in order
        self._seen = 0  # streamed parts that were looked at

    def claim(self, index: int, streamed: Sequence[int], is_alike: Callable[[int], bool]) -> None:
        """Notes the streamed part that an index repeats, if one matches. `streamed` only ever grows."""
        if index in self._matches:
            return
        self._unmatched.update(dict.fromkeys(part for part in streamed[self._seen :] if part not in self._matched))
        self._seen = len(streamed)
        if index in self._unmatched and is_alike(index):
            match: int | None = index
        else:
            match = next((part for part in islice(self._unmatched, _MAX_COMPARED) if is_alike(part)), None)
        if match is not None:
            self._assign(index, match)

    def find(self, index: int, streamed: Sequence[int], is_alike: Callable[[int], bool]) -> int:
        """Returns the index of the streamed part that is repeated; the index of a new part if none matches."""
        self.claim(index, streamed, is_alike)
        if index not in self._matches:
            self._assign(index, -1 - len(streamed) if index in self._matched else index)
        return self._matches[index]

    def _assign(self, index: int, match: int) -> None:
        self._matches[index] = match
        self._matched.add(match)
        self._unmatched.pop(match, None)


def is_same_start(first: str, second: str) -> bool:
    """Returns True if one text starts with the other. Surrounding space is ignored."""
    first, second = first.strip(), second.strip()
    return bool(first and second) and (second.startswith(first) or first.startswith(second))


def is_same_text(first: str, second: str) -> bool:
    """Returns True if both texts are equal. Surrounding space is ignored."""
    return first.strip() == second.strip()


# ── items ─────────────────────────────────────────────────────────────────────────────────────────


class ItemSlot(Struct, eq=False):
    """One output item and what was decoded of it. `kind` is the item's type, empty until it is known."""

    number: int
    kind: str
    id: str
    index: int | None
    item: Item = {}  # the newest version
    announced: bool = False  # the item itself was seen, not only deltas of it
    done: bool = False
    parts: dict[tuple[str, int], int] = {}  # (kind, index in the item) → event index
    closed: dict[tuple[str, int], str] = {}  # (kind, index in the item) → complete text
    indices: dict[str, list[int]] = {}  # kind → indices of its parts, in opening order
    matchers: dict[tuple[str, str], RepeatMatcher] = {}  # by (event, kind)
    complete: list[tuple[str, int]] = []  # reasoning parts to close when another begins
    sealed: bool = False  # encrypted content was delivered
    call: str = ""  # id of the call that was opened for the item
    held_input: list[str] = []  # input that arrived before the item
    final_input: str | None = None  # the newest complete input

    def update(self, item: Item, index: int | None) -> None:
        """Stores a newer version of the item."""
        self.kind = lenient.get_text(item, "type") or self.kind
        self.id = lenient.get_text(item, "id") or self.id
        self.index = self.index if index is None else index
        self.item = item
        self.announced = True


class ItemReader:
    """Reads items of some types. Subclasses override the methods in which their items have something new."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def on_added(self, slot: ItemSlot) -> None:
        """Reads an announced item."""

    def on_done(self, slot: ItemSlot) -> None:
        """Reads a finished item."""

    def on_snapshot(self, slot: ItemSlot) -> None:
        """Reads the final version of a finished item, which mostly repeats it."""

    def on_response_end(self, slot: ItemSlot, *, complete: bool) -> None:
        """Ends an item that is still open when the response ends. `complete`: the response ended normally."""


class ItemSlots:
    """All items of the current response. Slots are numbered through the whole stream."""

    def __init__(self) -> None:
        self._count = 0
        self.clear()

    def clear(self) -> None:
        self.slots: list[ItemSlot] = []
        self._by_id: dict[str, ItemSlot] = {}
        self._by_index: dict[int, ItemSlot] = {}
        self._unnamed: OrderedDict[int, ItemSlot] = OrderedDict()  # slots of deltas that named no item, by number

    def find(self, id: str, index: int | None, kinds: Sequence[str]) -> ItemSlot | None:
        """Returns the slot that an event names. An event that names none means the last open item of these kinds."""
        by_id = self._by_id.get(id) if id else None
        by_index = None if index is None else self._by_index.get(index)
        if by_index is not None and by_index.id == id:
            by_id = by_index  # several items may share an id (xAI)
        for slot in (by_id, by_index):
            if slot is not None and (not slot.kind or slot.kind in kinds):
                return slot
        if id or index is not None:
            return None
        last = self.slots[-1] if self.slots else None
        return last if last is not None and not last.done and (not last.kind or last.kind in kinds) else None

    def find_or_create(self, id: str, index: int | None, kinds: Sequence[str], kind: str) -> ItemSlot:
        """Returns the slot that an event names, or a new one: deltas may arrive before their item."""
        return self.find(id, index, kinds) or self._create(kind, id, index)

    def match_added(self, item: Item, index: int | None) -> ItemSlot | None:
        """Returns the slot of an added item; None if the item was announced before."""
        slot, item_id = self._find_slot(item, index), lenient.get_text(item, "id")
        if slot is not None and slot.announced:
            if not _is_other_item(slot, item_id, index) and (item_id or not slot.done):
                return None
            slot = None
        return self._assign(slot, item, index)

    def match_done(self, item: Item, index: int | None) -> ItemSlot:
        """Returns the slot of a finished item, announced or not."""
        slot = self._find_slot(item, index)
        if slot is not None:
            is_other = slot.done and _is_other_item(slot, lenient.get_text(item, "id"), index)
            call = lenient.get_text(item, "call_id")
            if is_other or (slot.call and call and call != slot.call):  # another call id means another call
                slot = None
        return self._assign(slot, item, index)

    def match_snapshot(self, output: Iterable[Item]) -> list[ItemSlot]:
        """Returns the slots of a final snapshot: matched by id or call, then by position, then by order in a kind."""
        rows = list(enumerate(output))
        matches: dict[int, ItemSlot] = {}
        unmatched = UnmatchedSlots(self.slots)
        for get_keys in (_get_id_keys, _get_index_keys, _get_kind_keys):
            for index, item in rows:
                slot = None if index in matches else unmatched.take(get_keys(item, index))
                if slot is not None:
                    matches[index] = slot
        return [self._assign(matches.get(index), item, None) for index, item in rows]

    def _find_slot(self, item: Item, index: int | None) -> ItemSlot | None:
        """Returns the slot that an item names, or the first slot of deltas that named no item."""
        kind = lenient.get_text(item, "type")
        slot = self.find(lenient.get_text(item, "id"), index, (kind,))
        return slot or next((slot for slot in self._unnamed.values() if slot.kind in ("", kind)), None)

    def _assign(self, slot: ItemSlot | None, item: Item, index: int | None) -> ItemSlot:
        if slot is None:
            slot = self._create(lenient.get_text(item, "type"), lenient.get_text(item, "id"), index)
        slot.update(item, index)
        self._unnamed.pop(slot.number, None)
        self._index_slot(slot)
        return slot

    def _create(self, kind: str, id: str, index: int | None) -> ItemSlot:
        slot = ItemSlot(self._count, kind, id, index)
        self._count += 1
        self.slots.append(slot)
        self._index_slot(slot)
        if not id and index is None:
            self._unnamed[slot.number] = slot
        return slot

    def _index_slot(self, slot: ItemSlot) -> None:
        if slot.id:
            self._by_id[slot.id] = slot
        if slot.index is not None:
            self._by_index[slot.index] = slot


def _is_other_item(slot: ItemSlot, id: str, index: int | None) -> bool:
    """Returns True if the id or the position differs from the slot's."""
    return bool(id and id != slot.id) or (index is not None and slot.index not in (None, index))


# ── the final snapshot ────────────────────────────────────────────────────────────────────────────


class UnmatchedSlots:
    """Slots that no item of the final snapshot matched yet, indexed by key. The first slot of a key comes first."""

    def __init__(self, slots: Iterable[ItemSlot]) -> None:
        self._by_key: dict[SlotKey, deque[ItemSlot]] = {}
        self._matched: set[int] = set()
        for slot in slots:
            for key in _get_slot_keys(slot):
                self._by_key.setdefault(key, deque()).append(slot)

    def take(self, keys: Iterable[SlotKey]) -> ItemSlot | None:
        """Removes and returns the first slot that has one of the keys."""
        firsts = [slot for key in keys if (slot := self._get_first(key)) is not None]
        if not firsts:
            return None
        slot = min(firsts, key=attrgetter("number"))
        self._matched.add(slot.number)
        return slot

    def _get_first(self, key: SlotKey) -> ItemSlot | None:
        slots = self._by_key.get(key)
        while slots and slots[0].number in self._matched:
            slots.popleft()
        return slots[0] if slots else None


def _get_slot_keys(slot: ItemSlot) -> Iterator[SlotKey]:
    """Yields the keys by which an item of the final snapshot finds this streamed item.

    Each comes with the call id, and without it, for items that name no call.
    """
    for what, value in (("id", slot.id), ("index", slot.index), ("kind", "")):
        if value not in ("", None) or what == "kind":
            yield what, value, slot.kind, slot.call
            yield what, value, slot.kind, None
    if slot.call:
        yield "call", slot.call, slot.kind, slot.call


def _build_keys(what: str, value: Any, item: Item, kinds: Sequence[str]) -> Iterator[SlotKey]:
    call = lenient.get_text(item, "call_id")
    calls = (call, "") if call else (None,)  # a slot with another call id is another call
    return ((what, value, kind, call_id) for kind in kinds for call_id in calls)


def _get_id_keys(item: Item, _: int) -> Iterator[SlotKey]:
    item_id, call = lenient.get_text(item, "id"), lenient.get_text(item, "call_id")
    kinds = ("", lenient.get_text(item, "type"))
    if item_id:
        yield from _build_keys("id", item_id, item, kinds)
    if call:
        yield from (("call", call, kind, call) for kind in kinds)


def _get_index_keys(item: Item, index: int) -> Iterator[SlotKey]:
    return _build_keys("index", index, item, ("", lenient.get_text(item, "type")))


def _get_kind_keys(item: Item, _: int) -> Iterator[SlotKey]:
    return _build_keys("kind", "", item, (lenient.get_text(item, "type"),))
