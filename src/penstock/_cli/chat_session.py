"""The session of `penstock chat`: the model, the messages so far, and the next answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._cli.chat_files import read_attachment
from penstock._cli.common_options import print_error
from penstock._cli.event_printer import EventPrinter, style_text
from penstock._cli.suggestions import suggest_model
from penstock._cli.terminal import printable, wants_color
from penstock._client.api import Client
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import resolve_targets
from penstock.errors import InputError, ProviderError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from penstock import events as ev
    from penstock._client.results import Stream
    from penstock._engines.config import Config

FAILED = 1


class ChatSession:
    """A conversation: the model, the messages so far, and what goes with the next question."""

    def __init__(self, options: Namespace, config: Config) -> None:
        self.options = options
        self.client = Client(config)
        self.printer = EventPrinter(sys.stdout, json=options.json)
        self.model: str = options.model
        self.system: str = options.system
        self.messages: list[Any] = []
        self.attachments = [read_attachment(Path(path)) for path in options.files or ()]
        self.tools: list[Callable[..., Any]] = []

    def set_model(self, name: str) -> None:
        """Asks another model from now on. Raises if there is no such model."""
        self._check_model(name)
        self.model = name

    def clear(self) -> None:
        """Forgets the messages, and files that were not sent."""
        self.messages, self.attachments = [], []

    def conversation(self) -> list[Any]:
        """Returns the messages with the system prompt."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, *self.messages]

    def describe_tools(self) -> list[tuple[str, str]]:
        """Returns the names of the tools, and the first line of what they do."""
        return [(tool.__name__, (tool.__doc__ or "").strip().partition("\n")[0]) for tool in self.tools]

    async def ask(self, question: str) -> int:
        """Asks the model and prints the answer. Returns the exit code. What was answered stays in the conversation."""
        self._check_model(self.model)
        text = {"type": "text", "text": question}
        content: Any = [*self.attachments, text] if self.attachments else question
        self.messages.append({"role": "user", "content": content})
        answered = False
        try:
            code = await self._print_answer()
            answered = code == 0
        finally:
            self._end_exchange(complete=answered)
        self.attachments = [] if answered else self.attachments
        return code

    def _end_exchange(self, *, complete: bool) -> None:
        """Keeps the answer, also one that was stopped. A question without an answer is forgotten."""
        if complete or self.printer.text:
            self.messages.append({"role": "assistant", "content": self.printer.text or "(nothing)"})
        else:
            self.messages.pop()
        self.printer.text = ""

    async def _print_answer(self) -> int:
        stream = self.client.chat_stream(
            self.model, self.conversation(), engine=self.options.engine, **self._answer_settings()
        )
        try:
            async for batch in stream.batches():
                self.printer.print_events(batch)
        except ProviderError as error:
            self.printer.end_answer()
            hint = error.hint
            if error.kind == "not-found":
                hint = suggest_model(self.model, self.client.router.config, LIVE).lstrip("; ") or hint
            print_error(error, FAILED, hint)
            return FAILED
        finally:
            await stream.aclose()
        self.printer.end_answer()
        self._print_footer(stream)
        return FAILED if self.printer.failed else 0

    def _answer_settings(self) -> dict[str, Any]:
        settings = {
            "max_completion_tokens": self.options.max_output,
            "temperature": self.options.temperature,
            "reasoning_effort": self.options.effort or None,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def _check_model(self, name: str) -> None:
        """Raises for a name that means no model, with a suggestion."""
        config = self.client.router.config
        try:
            resolve_targets(name, config, LIVE)
        except InputError as error:
            hint = suggest_model(name, config, LIVE)
            raise InputError(f"{str(error).partition('. ')[0]}{hint}" if hint else str(error)) from None

    def _print_footer(self, stream: Stream) -> None:
        reply = stream.reply
        if reply is None or self.printer.json:
            return
        lines = [f"{reply.provider}/{reply.model}, {reply.engine}: {_format_usage(stream.usage)}"]
        if self.options.verbose:
            lines += [*reply.record.lines(), *(f"{row.code}: {row.message}" for row in reply.diagnostics)]
        for line in lines:
            print(style_text(printable(line), "dim", on=wants_color(sys.stderr)), file=sys.stderr)


def _format_usage(usage: ev.Usage | None) -> str:
    names = {"in": "input", "out": "output", "cached": "cached", "written": "written", "reasoning": "reasoning"}
    counts = {label: getattr(usage, name, None) for label, name in names.items()}
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count is not None) or "usage unknown"
