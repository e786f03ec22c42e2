"""The parts of a message and the whole of a turn: what events fold into.

Part kinds are the nouns of the events: text, reasoning, call, result, file, source, opaque. Raw JSON stays text.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from penstock.events import By, CallForm, Data, Extra, Fault, Finish, ReasoningForm, Unknown, Usage, kebab


class Part(msgspec.Struct, tag_field="type", tag=kebab, omit_defaults=True):
    """The root of all part kinds."""


class Text(Part):
    """What the model said; `refusal` when it declined."""

    text: str = ""
    refusal: bool = False
    choice: int = 0
    item: str = ""
    logprobs: list[Any] = []
    extra: Extra | None = None


class Reasoning(Part):
    """What the model thought; `extra` holds the state that must be sent back."""

    text: str = ""
    form: ReasoningForm = "full"
    choice: int = 0
    item: str = ""
    extra: Extra | None = None


class Call(Part):
    """A tool call. `cut`: its input never became whole, so it must not be run."""

    id: str
    name: str
    json: str = ""
    by: By = "client"
    form: CallForm = "json"
    cut: bool = False
    choice: int = 0
    item: str = ""
    extra: Extra | None = None


class Result(Part):
    """What a tool answered."""

    call: str
    name: str
    json: str
    failed: bool = False
    partial: bool = False
    extra: Extra | None = None


class Ask(Part):
    """A request for approval of a call."""

    call: str
    id: str
    extra: Extra | None = None


class File(Part):
    """`data` is base64; `url` stands alone."""

    media: str
    url: str = ""
    data: str = ""
    choice: int = 0
    item: str = ""
    extra: Extra | None = None


class Source(Part):
    """`of` is the place of the cited part in the turn's list."""

    url: str = ""
    title: str = ""
    of: int | None = None
    span: tuple[int, int] | None = None
    quote: str = ""
    id: str = ""
    media: str = ""
    filename: str = ""
    extra: Extra | None = None


class Opaque(Part):
    """State that only its protocol understands."""

    protocol: str
    kind: str
    data: Any = None


AnyPart: TypeAlias = Text | Reasoning | Call | Result | Ask | File | Source | Opaque


class Turn(msgspec.Struct, omit_defaults=True):
    """One model response, whole. Parts stand in the order they opened; exactly one of `finish` and `fault` is set."""

    id: str = ""
    model: str = ""
    created: int | None = None
    parts: list[AnyPart] = []
    usage: Usage | None = None
    steps: list[Usage] = []
    finish: Finish | None = None
    fault: Fault | None = None
    data: list[Data] = []
    unknown: list[Unknown] = []
    extra: Extra | None = None

    @property
    def text(self) -> str:
        """The answer: all text of the first choice, refusals left out."""
        return "".join(p.text for p in self.parts if isinstance(p, Text) and not p.refusal and not p.choice)

    @property
    def reasoning(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, Reasoning) and not p.choice)

    @property
    def refusal(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, Text) and p.refusal and not p.choice)

    @property
    def calls(self) -> list[Call]:
        """The calls the client must run: whole ones of the first choice."""
        return [p for p in self.parts if isinstance(p, Call) and p.by == "client" and not p.cut and not p.choice]

    @property
    def sources(self) -> list[Source]:
        return [p for p in self.parts if isinstance(p, Source)]
