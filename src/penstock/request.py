"""A request to a model (`Request`: messages, parts, tools, settings) and its complete answer (`Turn`).

Part kinds are the nouns of the events: text, reasoning, call, result, file, source, opaque. Raw JSON stays text.
Readers keep unknown fields in `extra`, at the same level and under the protocol's name, so that the same
protocol gets them back. Plain Structs: nothing here reads or writes a wire format.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Literal, Self, TypeAlias

import msgspec

from penstock._diagnostics import Diagnostic
from penstock.events import By, CallForm, Data, Extra, Fault, Finish, ReasoningForm, Unknown, Usage, kebab

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ToolKind: TypeAlias = Literal["function", "custom", "provider", "unknown"]
ChoiceMode: TypeAlias = Literal["auto", "none", "required", "tool"]
FormatKind: TypeAlias = Literal["text", "json", "schema"]


class Part(msgspec.Struct, tag_field="type", tag=kebab, omit_defaults=True, kw_only=True, gc=False):
    """The root of all part kinds. `cache`: the prompt up to and with this part is worth caching ("5m", "1h")."""

    cache: str = ""


class Text(Part):
    """Text; `refusal` if the model declined."""

    text: str = ""
    refusal: bool = False
    choice: int = 0
    item: str = ""
    logprobs: list[Any] = []
    extra: Extra | None = None


class Reasoning(Part):
    """The model's reasoning; `extra` holds state that must be sent back unchanged."""

    text: str = ""
    form: ReasoningForm = "full"
    choice: int = 0
    item: str = ""
    extra: Extra | None = None


class Call(Part):
    """A tool call. `cut`: its input is incomplete, so it must not be run."""

    id: str
    name: str
    json: str = ""
    by: By = "client"
    form: CallForm = "json"
    cut: bool = False
    choice: int = 0
    item: str = ""
    extra: Extra | None = None


class Json(Part):
    """A JSON value as content, in a tool's result."""

    json: str
    extra: Extra | None = None


class File(Part):
    """An image, a sound, a document: by `data` (base64), by `url`, or by the provider's own `id`."""

    media: str
    url: str = ""
    data: str = ""
    choice: int = 0
    item: str = ""
    name: str = ""
    id: str = ""
    detail: str = ""  # how closely an image should be looked at: low, high, auto
    extra: Extra | None = None

    @classmethod
    def from_bytes(cls, data: bytes, media: str, *, name: str = "") -> Self:
        """Returns a file with these bytes: `File.from_bytes(path.read_bytes(), "image/png")`."""
        return cls(media, data=b64encode(data).decode(), name=name)


class Result(Part):
    """The result of a tool: text, JSON and files, in order."""

    call: str
    name: str = ""
    content: list[ResultPart] = []
    failed: bool = False
    partial: bool = False
    by: By = "client"
    form: CallForm = "json"
    extra: Extra | None = None

    @property
    def json(self) -> str:
        """The content as one JSON value, where it is one."""
        only = self.content[0] if len(self.content) == 1 else None
        if isinstance(only, Json):
            return only.json
        said = [part.text if isinstance(part, Text) else msgspec.to_builtins(part) for part in self.content]
        return msgspec.json.encode(said[0] if len(said) == 1 else said).decode()


class Ask(Part):
    """A request for approval of a call; in a message of the user's, its answer."""

    call: str
    id: str
    approved: bool | None = None
    extra: Extra | None = None


class Source(Part):
    """A citation. `of` is the place of the cited part in the same list."""

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
ResultPart: TypeAlias = Text | Json | File | Source | Opaque


class Message(msgspec.Struct, omit_defaults=True, gc=False):
    """One message. Results stand in messages of role `tool`; a system message stays at its position."""

    role: Role
    parts: list[AnyPart] = []
    name: str = ""
    extra: Extra | None = None


class Tool(msgspec.Struct, omit_defaults=True, gc=False):
    """A tool on offer. `schema` is the JSON Schema of a function's input; a custom tool takes free text.

    `provider` tools are run upstream, `unknown` ones are of a kind that this version does not know: both are kept
    in `extra`. `namespace` groups tools whose names are only unique inside it.
    """

    name: str
    description: str = ""
    schema: dict[str, Any] | None = None
    kind: ToolKind = "function"
    strict: bool | None = None
    namespace: str = ""
    cache: str = ""
    extra: Extra | None = None


class ToolChoice(msgspec.Struct, omit_defaults=True):
    """Which tools may or must be called. `names`: the one that must (`tool`), or those that may."""

    mode: ChoiceMode = "auto"
    names: list[str] = []
    extra: Extra | None = None


class Format(msgspec.Struct, omit_defaults=True):
    """The form of the answer: free text, any JSON, or JSON of a schema."""

    kind: FormatKind = "text"
    name: str = ""
    schema: dict[str, Any] | None = None
    description: str = ""
    strict: bool | None = None


class Settings(msgspec.Struct, omit_defaults=True):
    """Settings that most protocols have in some form. None: not set, the provider's default applies."""

    max_output: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] = []
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    choices: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    format: Format | None = None
    parallel_calls: bool | None = None
    effort: str = ""  # none, minimal, low, medium, high, xhigh, max … as the protocols spell it
    budget: int | None = None  # reasoning tokens; 0 switches reasoning off
    thoughts: bool | None = None  # whether reasoning (or its summary) should be shown
    thinking: str = ""  # the form in which the model takes effort and budget, once that is decided
    verbosity: str = ""
    tier: str = ""
    user: str = ""
    metadata: dict[str, Any] | None = None
    cache_key: str = ""
    store: bool | None = None


class Request(msgspec.Struct, omit_defaults=True):
    """A request to a model. `options` are provider options, keyed by provider, passed on untouched.

    Examples:
        >>> request = Request(model="m", messages=[Message("user", [Text(text="Hi")])])
        >>> request.messages[0].parts[0].text
        'Hi'
    """

    model: str = ""
    messages: list[Message] = []
    tools: list[Tool] = []
    choice: ToolChoice | None = None
    settings: Settings = msgspec.field(default_factory=Settings)
    stream: bool = False
    usage: bool | None = None  # whether a stream should end with its usage; None: not set
    options: dict[str, Any] = {}
    extra: Extra | None = None
    diagnostics: list[Diagnostic] = []


class Turn(msgspec.Struct, omit_defaults=True):
    """One complete model response. Parts stand in the order they opened; exactly one of `finish` and `fault` is set."""

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
    broken: list[int] = []  # numbers of the parts that were open at the fault

    @property
    def text(self) -> str:
        """The answer: all text of the first choice, refusals left out."""
        return "".join(p.text for p in self.parts if isinstance(p, Text) and not p.refusal and not p.choice)

    @property
    def reasoning(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, Reasoning) and not p.choice)

    @property
    def refusal(self) -> str:
        """The words with which the model declined. Some providers give none: see `refused`."""
        return "".join(p.text for p in self.parts if isinstance(p, Text) and p.refusal and not p.choice)

    @property
    def refused(self) -> bool:
        """True if the model declined: it wrote a `refusal`, or the provider names that as the finish reason."""
        return bool(self.refusal) or (self.finish is not None and self.finish.reason == "refusal")

    @property
    def calls(self) -> list[Call]:
        """The calls the client must run: whole ones of the first choice."""
        return [p for p in self.parts if isinstance(p, Call) and p.by == "client" and not p.cut and not p.choice]

    @property
    def sources(self) -> list[Source]:
        return [p for p in self.parts if isinstance(p, Source)]

    @property
    def message(self) -> Message:
        """The answer as a message for the next request: the first choice, with reasoning and signatures.

        Calls whose input is incomplete are left out.
        """
        kept = [at for at, part in enumerate(self.parts) if not getattr(part, "choice", 0) and not _is_cut(part)]
        if len(kept) == len(self.parts):
            return Message("assistant", list(self.parts))
        moved = {old: new for new, old in enumerate(kept)}
        return Message("assistant", [_move_source(self.parts[at], moved) for at in kept])


def _is_cut(part: AnyPart) -> bool:
    return isinstance(part, Call) and part.cut


def _move_source(part: AnyPart, moved: dict[int, int]) -> AnyPart:
    """Returns a part whose reference to another part of the list is up to date."""
    if not isinstance(part, Source) or part.of is None:
        return part
    return msgspec.structs.replace(part, of=moved.get(part.of))
