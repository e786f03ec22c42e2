"""What streams of Chat Completions and Completions share: chunks with choices, their usage, the body they fold into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock._codec import Encoder
from penstock._lenient_fields import Object, as_object
from penstock._lenient_json import decode_trusted, encode
from penstock._text_runs import NO_TEMPLATE, FrameTemplate
from penstock._vendor_errors import build_openai_error_body

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._framing.base import Frame
    from penstock._vendor_errors import ErrorTable
    from penstock.events import Extra, Fault, Start, Usage

GAP = b"\x00"  # where the text goes in a template; JSON contains no NUL
KEEP_ALIVE_TYPES = frozenset({"ping", "keepalive"})  # of some gateways
encode_json = msgspec.json.Encoder().encode


class CompletionChunkEncoder(Encoder):
    """Writes chunks. State: the fields that are the same in every chunk of a turn, and the usage so far."""

    object_name: ClassVar[str]
    errors: ClassVar[ErrorTable]

    def __init__(self, id: str, model: str, created: int, *, include_usage: bool) -> None:
        super().__init__()
        self._id, self._model, self._created, self._include_usage = id, model, created, include_usage
        self._chunk_start = b""
        self._usage: Object | None = None

    def _get_extras(self, extra: Extra | None) -> Object:
        return (extra or {}).get(self.protocol, {})

    def _start_chunks(self, event: Start) -> None:
        self.template, self._usage = NO_TEMPLATE, None
        head = {
            "id": event.id or self._id,
            "object": self.object_name,
            "created": event.created or self._created,
            "model": event.model or self._model,
            **self._get_extras(event.extra),
        }
        self._chunk_start = encode_json(head)[:-1] + b","

    def _make_template(self, event: Any, keep: Callable[[str], None] | None = None) -> None:
        """Makes a template of the last chunk, which has a gap instead of the text, and writes the text with it."""
        before, after = self.out.pop()[1].split(GAP)
        self.template = FrameTemplate(type(event), event.index, b"", before, after, keep)
        self.write(event)

    def _end_chunks(self) -> None:
        if self._include_usage and self._usage is not None:
            self.out.append((b"", b'%b"choices":[],"usage":%b}' % (self._chunk_start, encode_json(self._usage))))
        self.out.append((b"", b"[DONE]"))

    def write_fault(self, event: Fault) -> None:
        """Writes the error, with the usage in the same chunk.

        A separate usage chunk would say that the answer is complete: Goose then runs a call that was cut.
        """
        body = build_openai_error_body(event, self.protocol, self.errors)
        if self._include_usage and self._usage is not None:
            body["usage"] = self._usage
        self.out.append((b"", encode_json(body)))


def build_chunk_usage(usage: Usage, protocol: str, written: int | None = None) -> Object:
    """Returns the usage object of a body or a last chunk; an object of the same protocol is kept."""
    extras = (usage.extra or {}).get(protocol)
    if extras:
        return {"prompt_tokens": usage.input, "completion_tokens": usage.output, **extras}
    prompt, completion = usage.input or 0, usage.output or 0
    fields: Object = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if usage.cached is not None or written is not None:
        fields["prompt_tokens_details"] = {"cached_tokens": usage.cached or 0}
        if written is not None:
            fields["prompt_tokens_details"]["cache_write_tokens"] = written
    if usage.reasoning is not None:
        fields["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return fields


def fold_chunks(
    frames: Sequence[Frame], merge_choice: Callable[[dict[int, Object], Object], None], finish: Callable[[Object], None]
) -> bytes:
    """Folds an encoder's frames into one body, so that stream and body cannot differ.

    `merge_choice` adds the choice of a chunk to the choices so far; `finish` completes the body.
    """
    body: Object = {}
    choices: dict[int, Object] = {}
    for _, data in frames:
        chunk = {} if data == b"[DONE]" else as_object(decode_trusted(data))
        if "error" in chunk:
            return data
        if "choices" in chunk:  # else an unknown payload, which a body cannot contain
            for choice in chunk.pop("choices"):
                merge_choice(choices, choice)
            body.update(chunk)
    body["choices"] = [choices[index] for index in sorted(choices)]
    finish(body)
    return encode(body)
