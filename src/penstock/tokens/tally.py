"""What there is to be paid for in a message, and around all messages: a tally, one number for each fitted constant.

A tally times its family's constants is the estimate; so the same tallies serve counting and fitting. Leans on `classes`
for text, `schemas` for tools, `pictures` for the rest.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.jsontext import as_json
from penstock.request import Call, File, Json, Message, Opaque, Reasoning, Request, Result, Source, Text
from penstock.tokens import pictures
from penstock.tokens.classes import weigh
from penstock.tokens.model import FITTED
from penstock.tokens.schemas import held, rendered, schema_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.request import Tool
    from penstock.tokens.model import Constants, Family, Picture

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
            size = pictures.size_of(pictures.head(part.data), part.url)
            tally.file(pictures.cost(self._picture, size.width, size.height, _detail(part)), sure=size.sure)
        elif media == "application/pdf":
            number, sure = pictures.pages(part.data)
            tally.file(number * costs.page, sure=sure)
        elif media.startswith("audio/"):
            tally.file(costs.second * max(1.0, len(part.data) * 0.75 / pictures.SOUND), sure=False)
        elif media.startswith("video/"):
            tally.file(costs.video, sure=False)
        else:
            self._document(tally, part)

    def _document(self, tally: Tally, part: File) -> None:
        """A file that is text is read as such; of any other kind a provider makes pages, or refuses it."""
        if part.data and part.media.startswith(_TEXTUAL):
            said = pictures.head(part.data, len(part.data) + 3).decode("utf-8", "replace")
            tally.amounts[TEXT] += self.text(said) + self.text(part.name)
        else:
            tally.file(self.family.media.page * pictures.pages(part.data)[0], sure=False)

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
