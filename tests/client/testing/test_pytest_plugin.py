"""The pytest plugin, loaded by its entry point in a process of its own: a small program is tested with its fixtures."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from tests.cli.command_runner import environment
from tests.client.testing.plugin_runner import run_inside, run_pytest

if TYPE_CHECKING:
    from pathlib import Path

APP = """
    '''A program that uses models: it answers questions about the tide, with a tool.'''
    TOOLS = [{"type": "function", "function": {"name": "get_tide", "parameters": {"type": "object"}}}]

    def ask(client, question, model="openai/gpt-4o"):
        messages = [{"role": "user", "content": question}]
        answer = client.chat(model, messages, tools=TOOLS)
        while answer.calls:
            messages.append(answer.to("openai-chat")["choices"][0]["message"])
            messages += [{"role": "tool", "tool_call_id": call.id, "content": "at 06:12"} for call in answer.calls]
            answer = client.chat(model, messages, tools=TOOLS)
        return answer.text

    async def ask_stream(client, question, model="anthropic/claude-sonnet-4-5"):
        return "".join([text async for text in client.chat_stream(model, question).text()])
"""
FIXTURES = """
    import pytest
    import app
    from penstock.errors import RateLimited
    from penstock.testing import Reply

    MODELS = ["openai/gpt-4o", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash", "bedrock/m", "cohere/m", "ollama/m"]

    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    def test_text(penstock_upstream, penstock_sync_client):
        penstock_upstream.script("At six.")
        assert app.ask(penstock_sync_client, "When?") == "At six."
        assert penstock_upstream.last.prompt == "When?"

    @pytest.mark.parametrize("model", MODELS)
    def test_tools(model, penstock_upstream, penstock_sync_client):
        penstock_upstream.script(Reply.calls([("get_tide", {"day": 1})], usage=(5, 1)), Reply.text("Soon.", usage=(9, 2)))
        assert app.ask(penstock_sync_client, "When?", model) == "Soon."
        penstock_upstream.assert_request_count(2)
        penstock_upstream.assert_call("get_tide", {"day": 1})
        penstock_upstream.assert_result("get_tide", "06:12")
        assert penstock_upstream.usage.input == 14

    def test_faults(penstock_upstream, penstock_sync_client):
        penstock_upstream.script(Reply.rate_limit(retry_after=5), "At six.")
        assert app.ask(penstock_sync_client, "When?") == "At six."
        penstock_upstream.assert_request_count(2)
        penstock_upstream.script(Reply.rate_limit(retry_after=5))
        with pytest.raises(RateLimited):
            app.ask(penstock_sync_client, "When?")

    @pytest.mark.anyio
    async def test_async(penstock_upstream, penstock_client):
        penstock_upstream.script("At six.")
        assert await app.ask_stream(penstock_client, "When?") == "At six."

    def test_environment(penstock_upstream, penstock_sdk_environment):
        import os
        assert os.environ["OPENAI_BASE_URL"] == penstock_upstream.url + "/v1" == penstock_upstream.base_url("openai")
        assert os.environ["ANTHROPIC_BASE_URL"] == penstock_upstream.url == penstock_upstream.base_url("anthropic")
"""


def test_the_configuration_is_a_fixture(tmp_path: Path) -> None:
    tests = """
        import pytest

        @pytest.fixture
        def penstock_config():
            return {"aliases": {"fast": ["groq/some-model"]}}

        def test_alias(penstock_upstream, penstock_sync_client):
            penstock_upstream.script("At six.")
            assert penstock_sync_client.chat("fast", "?").text == "At six."
            assert penstock_upstream.last.host == "api.groq.com"
    """
    done = run_inside(tmp_path, files={"test_app.py": tests})
    assert done.code == 0, done.text


def test_a_request_without_a_reply_fails_the_test_even_if_the_program_hides_it(tmp_path: Path) -> None:
    tests = """
        def test_hidden(penstock_sync_client):
            try:
                penstock_sync_client.chat("openai/gpt-4o", "?")
            except Exception:
                pass
    """
    done = run_inside(tmp_path, files={"test_app.py": tests})
    assert done.code == 1, done.text
    assert "has no reply: give it one with `script(…)`" in done.text
    assert "1 passed, 1 error" in done.text


def test_the_fixtures_in_a_test_suite_under_xdist(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "-n", "1", files={"app.py": APP, "test_app.py": FIXTURES})
    assert done.code == 0, done.text
    assert "10 passed" in done.text


LOAD = """
import json, sys, pytest
from importlib.metadata import entry_points
(plugin,) = entry_points(group="pytest11", name="penstock")
before = set(sys.modules)
plugin.load()
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_loading_the_plugin_imports_nothing_of_penstock() -> None:
    done = subprocess.run([sys.executable, "-c", LOAD], env=environment(), capture_output=True, timeout=60, check=True)
    loaded = json.loads(done.stdout)
    assert len([name for name in loaded if name.startswith("penstock")]) <= 4  # its own file, and the packages above it
    assert len(loaded) < 10, loaded


def test_the_plugin_has_no_automatic_fixture_and_names_of_its_own() -> None:
    (plugin,) = entry_points(group="pytest11", name="penstock")
    fixtures = {
        name: one for name, one in vars(plugin.load()).items() if type(one).__name__ == "FixtureFunctionDefinition"
    }
    assert len(fixtures) >= 5
    assert all(name.startswith("penstock_") for name in fixtures)
    assert not any(one._fixture_function_marker.autouse for one in fixtures.values())
