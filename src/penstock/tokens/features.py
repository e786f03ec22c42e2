"""What a text is made of: counts of words, digits, marks, gaps and scripts, from which tokens are estimated.

Every code point has a class, found by the first byte of its UTF-8 form; the counts are those of short patterns in the
string of classes. `bytes.translate` and `bytes.count` do all the work, so a megabyte takes tens of milliseconds.
docs/tokens.md describes the same counts for other languages; leans on nothing.
"""

from __future__ import annotations

from math import hypot
from operator import mul
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.jsontext import as_json
from penstock.request import Call, File, Json, Message, Opaque, Reasoning, Request, Result, Source, Text
from penstock.tokens import file_costs
from penstock.tokens.families import FITTED, weigh
from penstock.tokens.tool_rendering import held, rendered, schema_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.request import Tool
    from penstock.tokens.families import Constants, Family, Picture

BASE, MESSAGE, TEXT, CALL, RESULT, REASONING, HIDDEN, CITATIONS, TOOLS, TOOL, SCHEMA, FORCED, FORMAT, SHAPE = range(
    len(FITTED)
)
SURE, GUESSED = 0.12, 0.45
"""How far the cost of a file may be off: its header was read, or its size was guessed."""
SAID = 0.5  # of opaque data, what is shown to the model
_TEXTUAL = ("text/", "application/json", "application/xml", "application/javascript")


class Tally:
    """Amounts in the order of `FITTED`; what files cost comes on top, as tokens already."""

    __slots__ = ("amounts", "files", "hidden", "risk")

    def __init__(self) -> None:
        self.amounts = [0.0] * len(FITTED)
        self.files = 0.0
        self.risk = 0.0  # tokens by which the files may be off
        self.hidden = False  # there is reasoning that cannot be seen

    def add(self, other: Tally) -> None:
        self.amounts = [mine + its for mine, its in zip(self.amounts, other.amounts, strict=True)]
        self.files += other.files
        self.risk += other.risk

    def file(self, tokens: float, *, sure: bool) -> None:
        self.files += tokens
        self.risk += tokens * (SURE if sure else GUESSED)


def tokens(tally: Tally, constants: tuple[float, ...]) -> float:
    """What a tally comes to."""
    return float(sum(map(mul, tally.amounts, constants))) + tally.files


def values(constants: Constants) -> tuple[float, ...]:
    """The constants in the order of a tally."""
    return tuple(getattr(constants, name) for name in FITTED)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Counter:
    """Makes the tallies of one family. `count` is how the tokens of a text are found, where it is not by classes."""

    def __init__(
        self, family: Family, formulas: dict[str, Picture], count: Callable[[str], float] | None = None
    ) -> None:
        self.family = family
        self._weights = family.weights
        self._picture = formulas[family.media.picture]
        self._count = count

    def text(self, text: str) -> float:
        return weigh(text, self._weights) if self._count is None else self._count(text)

    def message(self, message: Message) -> Tally:
        tally = Tally()
        tally.amounts[MESSAGE] = 1.0
        if message.name:
            tally.amounts[TEXT] += self.text(message.name)
        self._parts(tally, message.parts)
        tally.amounts[HIDDEN] = float(tally.hidden and tally.amounts[CALL] > 0)
        return tally

    def _parts(self, tally: Tally, parts: Iterable[Any]) -> None:
        for part in parts:
            count = self._on.get(type(part))  # pyright: ignore[reportUnknownArgumentType]
            if count is not None:
                count(self, tally, part)

    def _text(self, tally: Tally, part: Text) -> None:
        tally.amounts[TEXT] += self.text(part.text)

    def _json(self, tally: Tally, part: Json) -> None:
        tally.amounts[TEXT] += self.text(held(part.json, self.family.rendering))

    def _reasoning(self, tally: Tally, part: Reasoning) -> None:
        """State without words is only read where the turn goes on: beside a call."""
        tally.amounts[REASONING] += self.text(part.text)
        if part.extra is not None or part.item:
            tally.hidden = True

    def _call(self, tally: Tally, part: Call) -> None:
        tally.amounts[CALL] += 1.0
        tally.amounts[TEXT] += self.text(part.name) + self.text(held(part.json, self.family.rendering))

    def _result(self, tally: Tally, part: Result) -> None:
        tally.amounts[RESULT] += 1.0
        self._parts(tally, part.content)

    def _source(self, tally: Tally, part: Source) -> None:
        tally.amounts[TEXT] += self.text(part.quote)
        self._cited(tally, part.extra)

    def _opaque(self, tally: Tally, part: Opaque) -> None:
        tally.amounts[TEXT] += self.text(as_json(part.data)) * SAID
        self._cited(tally, {part.protocol: part.data})

    def _cited(self, tally: Tally, extra: dict[str, Any] | None) -> None:
        for row in (extra or {}).values():
            if _enabled(row, 0):
                tally.amounts[CITATIONS] = 1.0

    def _file(self, tally: Tally, part: File) -> None:
        self._cited(tally, part.extra)
        media, costs = part.media, self.family.media
        if media.startswith("image/"):
            size = file_costs.size_of(file_costs.head(part.data), part.url)
            tally.file(file_costs.cost(self._picture, size.width, size.height, _detail(part)), sure=size.sure)
        elif media == "application/pdf":
            number, sure = file_costs.pages(part.data)
            tally.file(number * costs.page, sure=sure)
        elif media.startswith("audio/"):
            tally.file(costs.second * max(1.0, len(part.data) * 0.75 / file_costs.SOUND), sure=False)
        elif media.startswith("video/"):
            tally.file(costs.video, sure=False)
        else:
            self._document(tally, part)

    def _document(self, tally: Tally, part: File) -> None:
        """A file that is text is read as such; of any other kind a provider makes pages, or refuses it."""
        if part.data and part.media.startswith(_TEXTUAL):
            said = file_costs.head(part.data, len(part.data) + 3).decode("utf-8", "replace")
            tally.amounts[TEXT] += self.text(said) + self.text(part.name)
        else:
            tally.file(self.family.media.page * file_costs.pages(part.data)[0], sure=False)

    _on: ClassVar[dict[type, Callable[[Counter, Tally, Any], None]]] = {
        Text: _text, Json: _json, Reasoning: _reasoning, Call: _call, Result: _result, Source: _source,
        Opaque: _opaque, File: _file,
    }  # fmt: skip

    # ── around the messages ───────────────────────────────────────────────────────────────────────────────────────

    def frame(self, request: Request) -> Tally:
        """What is paid once: the prompt's own words, tools, the form of the answer."""
        tally, mode = Tally(), request.choice.mode if request.choice else "auto"
        amounts = tally.amounts
        amounts[BASE] = 1.0
        tools = self._told(request, mode)
        if tools:
            amounts[TOOLS] = 1.0
            amounts[TOOL] = float(len(tools))
            amounts[SCHEMA] = sum(self.text(rendered(tool, self.family.rendering)) for tool in tools)
            amounts[FORCED] = float(mode in ("required", "tool"))
        form = request.settings.format
        if form is not None and form.kind == "schema":
            amounts[FORMAT] = 1.0
            amounts[SHAPE] = self.text(schema_text(form.schema, self.family.rendering)) + self.text(form.description)
        return tally

    def _told(self, request: Request, mode: str) -> list[Tool]:
        """The tools that are in the prompt."""
        if mode == "none" and not self.family.unused_tools:
            return []
        return [tool for tool in request.tools if self.family.run_tools or tool.kind != "provider"]

    def whole(self, request: Request) -> Tally:
        tally = self.frame(request)
        for message in request.messages:
            tally.add(self.message(message))
        return tally


def _detail(part: File) -> str:
    """The fineness that was asked for, wherever its protocol says it."""
    for row in (part.extra or {}).values():
        if isinstance(row.get("detail"), str):
            return str(row["detail"])
    return ""


def _enabled(value: Any, depth: int) -> bool:
    """Whether it asks for citations, at whatever level its protocol says so."""
    if not isinstance(value, dict) or depth > 2:  # noqa: PLR2004 - no protocol says it further down
        return False
    asked = value.get("citations")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(asked, dict) and asked.get("enabled") is True:  # pyright: ignore[reportUnknownMemberType]
        return True
    return any(_enabled(row, depth + 1) for row in value.values())  # pyright: ignore[reportUnknownVariableType]


FRAME, EACH, WORDS, AROUND = 2.0, 0.5, 0.05, 0.08
"""Tokens of a prompt, tokens of a message, shares of text and of what stands around the messages."""
_AROUND = (TOOLS, TOOL, SCHEMA, FORCED, FORMAT, SHAPE)


def of_message(tally: Tally, constants: tuple[float, ...]) -> float:
    """Of one message. Those of several add up: text that counts high in one counts high in the next."""
    amounts = tally.amounts
    words = amounts[TEXT] * constants[TEXT] * WORDS
    return words + (amounts[MESSAGE] + amounts[CALL] + amounts[RESULT]) * EACH + tally.risk


def of_frame(tally: Tally, constants: tuple[float, ...]) -> float:
    """Of what stands around the messages."""
    return FRAME + AROUND * sum(tally.amounts[place] * constants[place] for place in _AROUND)


def together(frame: float, messages: float) -> float:
    """Of a whole prompt: the two have nothing to do with each other."""
    return hypot(frame, messages)
