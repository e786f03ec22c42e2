"""The session of `penstock chat`: the model, the messages so far, and the next answer."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._cli import INTERRUPTED
from penstock._cli.chat_files import read_attachment
from penstock._cli.chat_tools import ToolApproval, load_tools
from penstock._cli.common_options import print_error
from penstock._cli.event_printer import EventPrinter, style_text
from penstock._cli.suggestions import suggest_model
from penstock._cli.terminal import wants_color
from penstock._client.api import Client
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import resolve_targets
from penstock._messages.convert import convert_request
from penstock._messages.request_codecs import reader
from penstock._printable_text import printable
from penstock.errors import InputError, ProviderError
from penstock.request import Message, Request, Text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from penstock._client.results import Answer, Stream
    from penstock._client.run import Run
    from penstock._engines.config import Config
    from penstock.events import Usage

_PROTOCOL = "openai-chat"  # of questions and of saved conversations
FAILED = 1


class ChatSession:
    """A conversation: the model, the messages so far, and what goes with the next question."""

    def __init__(self, options: Namespace, config: Config) -> None:
        self.options = options
        self.client = Client(config)
        self.printer = EventPrinter(sys.stdout, json=options.json)
        self.model: str = options.model
        self.system: str = options.system
        self.messages: list[Message] = []
        self.attachments = [read_attachment(Path(path)) for path in options.files or ()]
        self.tools = load_tools(options.tools or (), yes=options.yes)
        self.approval = ToolApproval()
        self.approval.before = self.printer.end_line
        self.printer.own_tools = frozenset(tool.name for tool in self.tools)
        self.printer.hides_calls = bool(self.tools) and not options.yes

    def set_model(self, name: str) -> None:
        """Asks another model from now on. Raises if there is no such model."""
        self._check_model(name)
        self.model = name

    def clear(self) -> None:
        """Forgets the messages, and files that were not sent."""
        self.messages, self.attachments = [], []

    def conversation(self) -> list[Message]:
        """Returns the messages with the system prompt."""
        return [*([Message("system", [Text(text=self.system)])] if self.system else []), *self.messages]

    def to_json(self) -> list[Any]:
        """Returns the conversation as messages of OpenAI's Chat API."""
        request = Request(model=self.model, messages=self.conversation())
        messages: list[Any] = convert_request(request, _PROTOCOL, _PROTOCOL).body["messages"]
        return messages

    async def ask(self, question: str) -> int:
        """Asks the model and prints the answer. Returns the exit code. What was answered stays in the conversation."""
        self._check_model(self.model)
        text = {"type": "text", "text": question}
        content: Any = [*self.attachments, text] if self.attachments else question
        before = list(self.messages)
        body = {"model": self.model, "messages": [{"role": "user", "content": content}]}
        self.messages += reader(_PROTOCOL)(body).messages
        self.printer.text, code = "", FAILED
        try:
            code = await (self._run_tools() if self.tools else self._print_answer())
        finally:
            if code and self.printer.text:  # an answer that was stopped, or broke off
                self.messages.append(Message("assistant", [Text(text=self.printer.text)]))
            elif code:
                self.messages = before  # a question without an answer is forgotten
        if not code:
            self.attachments = []
        return code

    async def _print_answer(self) -> int:
        stream = self.client.chat_stream(self.model, self.conversation(), **self._answer_settings())
        if code := await self._print_events(stream):
            return code
        answer = await stream.turn()
        self.messages.append(answer.message)
        reply = await stream.open()
        self._print_footer(f"{reply.provider}/{reply.model}, {reply.engine}", answer.usage, answer.cost, [answer])
        return 0

    async def _run_tools(self) -> int:
        """Lets the model call the tools until it answers."""
        settings = self._answer_settings()
        run = self.client.run(self.model, self.conversation(), tools=self.tools, approve=self.approval, **settings)
        self.approval.abort, self.approval.interrupted = run.abort, False
        code = await self._print_events(run)
        if self.approval.interrupted:
            return INTERRUPTED
        if code or not run.steps:
            return code or FAILED
        self.messages = [message for message in run.messages if message.role != "system"]
        answers = [step.answer for step in run.steps]
        who = f"{self.model}, {len(answers)} step{'s' * (len(answers) != 1)}"
        self._print_footer(who, run.usage, run.cost, answers)
        return 0

    async def _print_events(self, events: Stream | Run[str]) -> int:
        """Prints an answer as it comes. Returns the exit code."""
        try:
            async with aclosing(events.batches()) as batches:
                async for batch in batches:
                    self.printer.print_events(batch)
        except ProviderError as error:
            self.printer.end_answer()
            hint = error.hint
            if error.kind == "not-found":
                hint = suggest_model(self.model, self.client.router.config, LIVE).lstrip("; ") or hint
            print_error(error, FAILED, hint)
            return FAILED
        self.printer.end_answer()
        return FAILED if self.printer.failed else 0

    def _answer_settings(self) -> dict[str, Any]:
        options = self.options
        settings = {
            "max_output_tokens": options.max_output,
            "temperature": options.temperature,
            "reasoning_effort": options.effort or None,
            "engine": options.engine or None,
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

    def _print_footer(self, who: str, usage: Usage | None, cost: float | None, answers: Sequence[Answer]) -> None:
        """Prints who answered, the tokens and the cost; with `--verbose`, how the answers came to be."""
        if self.printer.json:
            return
        lines = [f"{who}: {_format_usage(usage)}{f', {_format_cost(cost)}' if cost is not None else ''}"]
        for answer in answers if self.options.verbose else ():
            lines += answer.record.lines() if answer.record is not None else []
            lines += [f"{row.code}: {row.message}" for row in answer.diagnostics]
        for line in lines:
            print(style_text(printable(line), "dim", on=wants_color(sys.stderr)), file=sys.stderr)


def _format_usage(usage: Usage | None) -> str:
    names = {"in": "input", "out": "output", "cached": "cached", "written": "written", "reasoning": "reasoning"}
    counts = {label: getattr(usage, name, None) for label, name in names.items()}
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count is not None) or "usage unknown"


def _format_cost(dollars: float) -> str:
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.6f}".rstrip("0").rstrip(".")
