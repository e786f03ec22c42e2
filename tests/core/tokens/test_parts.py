"""The parts of a prompt: tools, framing, hidden additions, text and files add up to the count of the whole."""

from __future__ import annotations

import base64

import pytest

from penstock._tokens.estimate import ModelCounter
from penstock._tokens.families import load_tables
from penstock._tokens.text_features import FeatureCounter
from penstock.request import File, Format, Message, Request, Settings, Text, Tool, ToolChoice
from tests.core.tokens.samples import PROSE
from tests.core.tokens.test_pictures import png
from tests.support.each_case import each

TOOL = Tool("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
MODELS = ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "qwen3-8b", "never-seen-1"]


def counter_of(model: str) -> ModelCounter:
    family = load_tables().find_family(model)
    return ModelCounter(f"/{model}", family, FeatureCounter(family, load_tables().pictures), b"", exact=False)


@each("model", MODELS)
def test_the_parts_of_a_frame_add_up(model: str) -> None:
    counter = counter_of(model)
    schema = Settings(format=Format("schema", schema={"type": "object"}))
    request = Request(tools=[TOOL], choice=ToolChoice("required"), settings=schema)
    parts = counter.split_frame(request)
    assert sum(tokens for tokens, _ in parts) == pytest.approx(counter.count_frame(request)[0])
    assert parts.tools[0] > 0
    bare = counter.split_frame(Request())
    assert (bare.tools, bare.hidden[0], bare.framing) == ((0, 0), 0, parts.framing)


@each("model", MODELS)
def test_files_are_apart_from_the_text(model: str) -> None:
    counter = counter_of(model)
    picture = File(media="image/png", data=base64.b64encode(png(1024, 1024)).decode())
    text, both = Message("user", [Text(text=PROSE)]), Message("user", [Text(text=PROSE), picture])
    parts = counter.split_message(both)
    assert parts.text == pytest.approx(counter.count_message(text))
    assert parts.text[0] + parts.files[0] == pytest.approx(counter.count_message(both)[0])
    assert parts.files[0] > 200
    assert counter.split_message(text).files == (0, 0)
