"""Options: unknown and wrong ones are refused when the thing is made, with the nearest name."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.errors import InputError
from penstock.messages import ConvertOptions
from penstock.vscode import AdapterOptions, VSCodeStreamAdapter
from tests.support.each_case import each

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Ahoy"}]}
UNKNOWN: Any = {"zzz": 1}
HOST_MESSAGES: list[Any] = [{"role": 1, "content": [{"value": "Ahoy"}]}]


# ── the adapter ───────────────────────────────────────────────────────────────────────────────────────────────────────


@each(
    "given, meant",
    [
        ("enableReasoning", "reasoning"), ("enable_reasoning", "reasoning"), ("onUnknownChunk", "on_unknown"),
        ("on_unknown_chunk", "on_unknown"), ("sorce", "source"), ("callIdPrefix", "call_id_prefix"),
        ("citation", "citations"), ("CALL_ID_PREFIX", "call_id_prefix"), ("on unknown", "on_unknown"), ("loger", "logger"), ("fetch_files", "fetch"),
    ],
)  # fmt: skip
def test_an_unknown_option_of_the_adapter_is_refused_with_the_nearest_name(given: str, meant: str) -> None:
    options: Any = {given: None}
    with pytest.raises(InputError, match=f"no option '{given}'; did you mean '{meant}'"):
        VSCodeStreamAdapter(options)
    with pytest.raises(InputError, match=f"no option '{given}'; did you mean '{meant}'"):
        VSCodeStreamAdapter(**options)


@each(
    "options",
    [
        {"host": ["foo"]}, {"host": "text"}, {"host": 5}, {"host": [["text"]]}, {"call_id_prefix": 5}, {"logger": 5},
        {"logger": "stderr"}, {"on_unknown": 5}, {"reasoning": True}, {"reasoning": ["drop"]}, {"citations": None},
        {"errors": {}}, {"source": None}, {"source": 5}, {"fetch": "yes"}, {"fetch": 1},
    ],
)  # fmt: skip
def test_an_option_of_the_wrong_kind_is_refused_by_the_adapter(options: Any) -> None:
    [name] = options
    with pytest.raises(InputError, match=f"VSCodeStreamAdapter: {name} must be "):
        VSCodeStreamAdapter(options)


@each("options", ["reasoning", ["reasoning"], 5])
def test_options_that_are_no_mapping_are_refused(options: Any) -> None:
    with pytest.raises(InputError, match="options must be a mapping"):
        VSCodeStreamAdapter(options)


def test_a_name_that_is_near_to_nothing_lists_all_names() -> None:
    with pytest.raises(InputError, match=r"no option 'zzz'; there are: .*reasoning"):
        VSCodeStreamAdapter(**UNKNOWN)


def test_a_message_shows_no_object_of_the_caller() -> None:
    class Client:
        def __repr__(self) -> str:
            return "Client(key=sk-1234567890abcdef)"

    client: Any = Client()
    with pytest.raises(InputError, match=r"an object of type Client$"):
        VSCodeStreamAdapter(call_id_prefix=client)


def test_every_option_is_checked() -> None:
    odd: Any = object()
    for name in AdapterOptions.__annotations__:
        with pytest.raises(InputError, match=f"{name} must be"):
            VSCodeStreamAdapter(**{name: odd})
    for name in set(ConvertOptions.__annotations__) - {"quirks"}:
        with pytest.raises(InputError, match=f"{name} must be"):
            penstock.convert(ASK, "openai-chat", "anthropic", **{name: odd})


# ── the encoders and decoders ─────────────────────────────────────────────────────────────────────────────────────────


@each(
    "target, options, message",
    [
        ("vscode", {"host": ["foo"]}, "host must be a collection"),
        ("vscode", {"call_id_prefix": 5}, "call_id_prefix must be a string or None"),
        ("vscode", {"reasoning": "loud"}, "reasoning must be one of thinking, text, drop"),
        ("vscode", {"enableReasoning": False}, "did you mean 'reasoning'"),
        ("openai-chat", {"includeUsage": True}, "did you mean 'include_usage'"),
        ("openai-chat", {"include_usage": "no"}, "include_usage must be True or False"),
        ("openai-chat", {"reasoning": "loud"}, "reasoning must be one of reasoning_content, reasoning, thinking"),
        ("responses", {"renames": "some"}, "renames must be one of none, foreign, all"),
        ("anthropic", {"created": 7}, "has no option 'created'"),
        ("aisdk@5", {"modle": "m"}, "did you mean 'model'"),
        ("uistream", {"metadata": "no"}, "metadata must be True or False"),
    ],
)
def test_options_of_an_encoder(target: str, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        penstock.encoder(target, **options)
    with pytest.raises(InputError, match=message):
        penstock.bridge("openai-chat", target, target_options=options)


def test_options_of_a_decoder() -> None:
    with pytest.raises(InputError, match="did you mean 'think'"):
        penstock.bridge("openai-chat", "events", source_options={"thinking": False})
    with pytest.raises(InputError, match="it has none"):
        penstock.bridge("anthropic", "events", source_options={"think": False})


# ── bridge, translate, convert, convert_messages ──────────────────────────────────────────────────────────────────────


@each(
    "options, message",
    [
        ({"targetOptions": {}}, "did you mean 'target_options'"), ({"frame": "sse"}, "did you mean 'framing'"),
        ({"limit": "1"}, "limit must be a whole number"), ({"framing": None}, "framing must be a string"),
        ({"shaping": [5]}, "shaping must be a tuple of stages"), ({"source_options": 5}, "must be a mapping"),
    ],
)  # fmt: skip
def test_options_of_bridge_and_translate(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        penstock.bridge("openai-chat", "events", **options)
    with pytest.raises(InputError, match=message):
        penstock.translate(b"", "openai-chat", "events", **options)


@each(
    "options, message",
    [
        ({"on_diagnostics": print}, "did you mean 'on_diagnostic'"), ({"on_diagnostic": 5}, "must be a function"),
        ({"turns": "1"}, "turns must be a whole number"), ({"errors": "ignore"}, "errors must be one of raise, fault"),
    ],
)  # fmt: skip
def test_options_of_translate(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        penstock.translate(b"", "openai-chat", "events", **options)


@each(
    "options, message",
    [
        ({"bogus": 1}, "convert has no option 'bogus'"), ({"images": "foo"}, "images must be one of placeholder, skip"),
        ({"imageInNonUserMessage": "skip"}, "did you mean 'images'"), ({"max_tokens": 5}, "did you mean 'max_output'"),
        ({"contextManagement": True}, "did you mean 'context_management'"), ({"orphans": "keeps"}, "orphans must be"),
        ({"prompt_caching": "yes"}, "prompt_caching must be True or False"), ({"store": {}}, "store must be an object"),
        ({"max_output": -1}, "max_output must be"), ({"profile": "openai"}, "profile must be a Profile"),
    ],
)  # fmt: skip
def test_options_of_convert(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        penstock.convert(ASK, "openai-chat", "anthropic", **options)


@each(
    "options, message",
    [
        ({"image_in_non_user_message": "skip"}, "convert_messages has no option .* did you mean 'images'"),
        ({"imageInNonUserMessage": "skip"}, "did you mean 'images'"), ({"images": "foo"}, "images must be one of"),
        ({"logger": 5}, "logger must be an object"), ({"target": None}, "target must be a string"),
        ({"tools": 5}, "tools must be an iterable"),
    ],
)  # fmt: skip
def test_options_of_convert_messages(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        penstock.convert_messages(HOST_MESSAGES, options)


def test_right_options_are_taken() -> None:
    VSCodeStreamAdapter(host={"text", "data"}, reasoning=None, logger=None, on_unknown=None, fetch=False)
    penstock.convert(ASK, "openai-chat", "anthropic", max_output=None, store=None, profile=None, images="skip")
    penstock.bridge("auto", "vscode", target_options={"host": ("text",), "citations": "link"}, shaping=())
