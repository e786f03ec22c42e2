"""What sessions remember of messages and answers: digests, never the texts."""

from __future__ import annotations

from typing import NamedTuple


class CallDigest(NamedTuple):
    """A tool call: its id, the tool, the digest of name and arguments, and how the arguments begin."""

    id: str
    name: str
    digest: bytes
    preview: str


class ResultDigest(NamedTuple):
    """The result of a call."""

    call: str
    digest: bytes
    failed: bool


class MessageDigest(NamedTuple):
    """What is remembered of a message. `answer`: the model wrote it. `characters`: of its text and calls."""

    digest: bytes
    answer: bool = False
    characters: int = 0
    calls: tuple[CallDigest, ...] = ()
    results: tuple[ResultDigest, ...] = ()


class AnswerDigest(NamedTuple):
    """The digest of a turn's answer, as that of the message that the next turn sends back; and those of its lines."""

    digest: bytes = b""
    lines: frozenset[bytes] = frozenset()
    calls: tuple[CallDigest, ...] = ()
    characters: int = 0
