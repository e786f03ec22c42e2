"""Another provider's search or program as server tools of this protocol: `server_tool_use` and its result.

Their ids begin with the mark of a call that a provider ran. So a request that brings them back is read as it was, and
never sent to Anthropic as its own: the results have none of its ciphertext.
https://docs.claude.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import provider_tools
from penstock.carrying.marks import RAN

if TYPE_CHECKING:
    from penstock import events as ev

NAMES: dict[str, str] = {"search": "web_search", "program": "code_execution"}  # kind → the tool of this protocol


def name_of(tool: str) -> str:
    """The server tool that another provider's tool is written as; nothing where there is none."""
    return NAMES.get(provider_tools.KINDS.get(tool, ""), "")


def call_block(event: ev.CallStart | ev.CallEnd) -> dict[str, Any]:
    """The call, its input apart."""
    return {"type": "server_tool_use", "id": RAN + event.id, "name": name_of(event.name), "input": {}}


def call_input(event: ev.CallEnd) -> dict[str, Any]:
    """What was asked."""
    if name_of(event.name) == "code_execution":
        return {"code": provider_tools.program(event.json)}
    return {"query": ", ".join(provider_tools.queries(event.json))}


def result_block(event: ev.Result, tool: str) -> dict[str, Any]:
    """What was found, or what a program wrote."""
    name = name_of(tool)
    made = {"type": f"{name}_tool_result", "tool_use_id": RAN + event.call}
    if name == "code_execution":
        wrote = provider_tools.output(event.json)
        streams = {"stdout": "", "stderr": wrote} if event.failed else {"stdout": wrote, "stderr": ""}
        done: dict[str, Any] = {
            "type": "code_execution_result",
            **streams,
            "return_code": int(event.failed),
            "content": [],
        }
        return {**made, "content": done}
    if event.failed:
        return {**made, "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}
    return {**made, "content": [_page(*page) for page in provider_tools.pages(event.json)]}


def _page(address: str, title: str) -> dict[str, Any]:
    return {
        "type": "web_search_result", "url": address, "title": title or address, "encrypted_content": "",
        "page_age": None,
    }  # fmt: skip
