"""`convert_messages`: from a VS Code host to every target protocol."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import BadRequest, UnknownProtocol
from penstock.messages import convert_messages
from penstock.vscode import DataPart, TextPart, ToolCallPart
from tests.cli.command_runner import environment
from tests.core.messages.test_convert import TARGETS
from tests.support.each_case import each

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
IMAGE = {"mimeType": "image/jpeg", "data": b64encode(PNG).decode()}


def says(role: int, *parts: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"value": part} if isinstance(part, str) else part for part in parts]}


TALK = [
    says(2, "You are terse."),
    says(1, "What is in a.py?"),
    says(2, "Let me look.", {"callId": "gw-toolu_1", "name": "read", "input": {"path": "a.py"}}),
    says(1, {"callId": "gw-toolu_1", "content": [{"$mid": 21, "value": "print(1)"}], "isError": False}),
    says(1, "And now?"),
]


def test_a_conversation_for_the_ai_sdk() -> None:
    made = convert_messages(TALK)
    assert made.system == "You are terse."
    assert made == [
        {"role": "user", "content": "What is in a.py?"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool-call", "toolCallId": "toolu_1", "toolName": "read", "input": {"path": "a.py"}},
        ]},
        {"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "toolu_1", "toolName": "read", "output": {"type": "text", "value": "print(1)"}},
        ]},
        {"role": "user", "content": "And now?"},
    ]  # fmt: skip
    assert made.diagnostics == []


@each("target", [name for name in TARGETS if name != "completions"])
def test_the_same_for_everybody(target: str) -> None:
    made = convert_messages(TALK, {"target": target})
    text = json.dumps(made.body)
    assert all(word in text for word in ("You are terse.", "What is in a.py?", "Let me look.", "print(1)", "And now?"))
    assert "gw-" not in text
    assert made


def test_results_keep_json_pictures_and_failures() -> None:
    talk = [
        says(1, "look"),
        says(2, {"callId": "a", "name": "look", "input": {}}, {"callId": "b", "name": "try", "input": {}}),
        says(1, {"callId": "a", "content": [{"mimeType": "application/json", "data": b64encode(b'{"n":1}').decode()}, IMAGE]},
             {"callId": "b", "content": [{"value": "no such file"}], "isError": True}),
    ]  # fmt: skip
    made = convert_messages(talk, target="anthropic")
    first, second = made[-1]["content"]
    assert '{"n":1}' in json.dumps(first["content"]).replace("\\", "")
    assert first["content"][1]["source"]["media_type"] == "image/png"
    assert second["is_error"] is True
    assert [note.code for note in made.diagnostics if not note.code.startswith("loss-")] == ["media-type"]


def test_a_host_that_sends_a_system_role_is_believed() -> None:
    made = convert_messages(
        [says(3, "Be terse."), says(2, "Hello."), says(1, "hi"), says(3, "Now be verbose."), says(1, "ok")],
        target="openai-chat",
    )
    assert [one["role"] for one in made] == ["system", "assistant", "user", "system", "user"]


@each("images, content", [("placeholder", "I drew\n[image, image/png, 48 bytes]"), ("skip", "I drew")])
def test_pictures_where_none_may_be(images: Any, content: str) -> None:
    talk = [says(1, "draw", IMAGE), says(2, "I drew", IMAGE), says(1, "thanks")]
    made = convert_messages(talk, target="openai-chat", images=images)
    said = made[1]["content"]
    assert (said if isinstance(said, str) else "\n".join(one["text"] for one in said)) == content
    assert made[0]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "file-refused" in [note.code for note in made.diagnostics]


def test_a_placeholder_is_the_default_and_an_error_names_the_place() -> None:
    talk = [says(1, "draw"), says(2, "I drew", IMAGE), says(1, "thanks")]
    assert "[image, image/png, 48 bytes]" in json.dumps(convert_messages(talk, target="anthropic"))
    with pytest.raises(BadRequest, match=r"messages\[1\].content\[1\]"):
        convert_messages(talk, target="anthropic", images="error")


def test_what_could_not_be_said_is_logged() -> None:
    lines: list[str] = []
    convert_messages(
        [says(1, {"callId": "x", "content": [{"value": "lost"}]})], logger=SimpleNamespace(warning=lines.append)
    )
    assert ["orphan-result" in line for line in lines] == [True]


def test_objects_of_that_shape_will_do() -> None:
    talk = [
        SimpleNamespace(role=1, content=[TextPart("hi"), DataPart.image(PNG, "image/png")]),
        SimpleNamespace(role=2, content=[ToolCallPart("a", "read", {"n": 1})]),
        SimpleNamespace(role=1, content=[SimpleNamespace(callId="a", content=(TextPart("ok"),))]),
    ]
    made = convert_messages(talk, target="openai-chat")
    assert [one["role"] for one in made] == ["user", "assistant", "tool"]
    assert made[1]["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"n":1}'}


def test_tools_go_along_and_come_back() -> None:
    made = convert_messages(
        TALK,
        target="anthropic",
        tools=[{"name": "fs.read", "description": "Reads.", "inputSchema": {"type": "object"}}],
    )
    assert made.body["tools"][0]["name"] == "fs_read"
    assert made.restore.names["fs_read"].name == "fs.read"


def test_a_wrong_name_is_an_error() -> None:
    with pytest.raises(UnknownProtocol):
        convert_messages(TALK, target="nobody")


def test_it_needs_msgspec_alone() -> None:
    code = "import sys, json, penstock.messages as m; m.convert_messages([{'role': 1, 'content': 'hi'}]); print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    third = {
        name for name in loaded if name not in sys.stdlib_module_names and not name.startswith(("_", "sitecustomize"))
    }
    assert third <= {"msgspec", "penstock", "typing_extensions"}
    assert not loaded & {"asyncio", "socket", "logging", "aiohttp"}
