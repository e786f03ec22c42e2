"""Another provider's search or program as an item of this protocol: what was asked, what was found, what was written.

The item is announced when its input is whole, and done when its answer comes.
https://platform.openai.com/docs/api-reference/responses-streaming/response/web_search_call
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import provider_tools

if TYPE_CHECKING:
    from penstock import events as ev
    from penstock.protocols.responses.output import Entry, Output

_TYPES: dict[str, tuple[str, str, str]] = {  # kind → the item's type, the beginning of its id, what it does meanwhile
    "search": ("web_search_call", "ws", "searching"),
    "page": ("web_search_call", "ws", "searching"),
    "program": ("code_interpreter_call", "ci", "interpreting"),
}


class ProviderRun:
    """One such item, from its announcement to its end."""

    def __init__(self, output: Output, kind: provider_tools.Kind, event: ev.CallEnd) -> None:
        self._output = output
        self._type, prefix, meanwhile = _TYPES[kind]
        item: dict[str, Any] = {"id": output.name(prefix), "type": self._type, "status": "in_progress"}
        if kind == "program":
            item.update(code=provider_tools.program(event.json), container_id="", outputs=None)
        else:
            item["action"] = _action(kind, event.json)
        self.entry: Entry = output.add(item)
        self._send_state("in_progress")
        if kind == "program":
            self._write_code(item["code"])
        self._send_state(meanwhile)

    def _send_state(self, state: str) -> None:
        self._output.send(f"response.{self._type}.{state}", output_index=self.entry.index, item_id=self.entry.id)

    def _write_code(self, code: str) -> None:
        where = {"output_index": self.entry.index, "item_id": self.entry.id}
        if code:
            self._output.send("response.code_interpreter_call_code.delta", **where, delta=code)
        self._output.send("response.code_interpreter_call_code.done", **where, code=code)

    def end(self, answer: ev.Result | None = None) -> None:
        """Its answer came, or the turn ended without one."""
        item = self.entry.item
        if answer is not None and "action" in item and item["action"]["type"] == "search":
            found = [{"type": "url", "url": address} for address, _ in provider_tools.pages(answer.json)]
            item["action"] = {**item["action"], **({"sources": found} if found else {})}
        elif answer is not None and "outputs" in item:
            item["outputs"] = [{"type": "logs", "logs": provider_tools.output(answer.json)}]
        failed = answer is not None and answer.failed
        if not failed:
            self._send_state("completed")
        self._output.end(self.entry, status="failed" if failed else "completed")


def _action(kind: provider_tools.Kind, given: str) -> dict[str, Any]:
    if kind == "page":
        return {"type": "open_page", "url": next(iter(provider_tools.addresses(given)), "")}
    asked = provider_tools.queries(given)
    return {"type": "search", "query": next(iter(asked), ""), "queries": asked}
