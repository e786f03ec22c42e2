"""The session token: on a gateway without keys, only who has it sees the content of turns.

Any user of the machine can connect to a loopback address. The token is in a file that only its owner can read, and in
the link that `penstock serve` prints. It stays the same over restarts.
"""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from functools import lru_cache
from hmac import compare_digest
from typing import TYPE_CHECKING

from penstock._gateway.access import SESSION_HEADER
from penstock._gateway.callers import make_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock._gateway.callers import Caller

FILE = "inspector-session"
HEADER = SESSION_HEADER
SESSION_NEEDED = "session_needed"  # the code of the refusal
TOKEN_BYTES = 24
_MIN_LENGTH = 32  # characters: a shorter one is not ours
_NEEDED = f"open the link that `penstock serve` printed (the token in it is also in the file {FILE} of the data folder)"
log = logging.getLogger("penstock.inspector")


@lru_cache(16)
def open_session_token(folder: Path | None) -> str:
    """Returns the token of a data folder. Creates it, if there is none or others can read it.

    Without a folder, or if that cannot be written, the token ends with the process.
    """
    if folder is None:
        return secrets.token_urlsafe(TOKEN_BYTES)
    path = folder / FILE
    try:
        return _read_token(path) or _create_token(path)
    except OSError as error:
        log.warning("the session token is not kept: %s", error)
        return secrets.token_urlsafe(TOKEN_BYTES)


def _read_token(path: Path) -> str:
    """Returns the token of a file; empty if there is none, or if it was not private."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
            status = os.fstat(descriptor)
            private = os.name == "nt" or (status.st_mode & 0o077 == 0 and status.st_uid == os.getuid())
            token = file.read(200).strip()
        if private and len(token) >= _MIN_LENGTH and token.isascii():
            return token
    return ""


def _create_token(path: Path) -> str:
    """Writes a new token. The file appears when it is complete; a worker that starts too may have been faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    fresh = path.with_name(f".{FILE}.{os.getpid()}")
    with suppress(FileNotFoundError):
        fresh.unlink()
    try:
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(f"{token}\n")
        return _publish_token(fresh, path, token)
    finally:  # also if the disk is full
        fresh.unlink(missing_ok=True)


def _publish_token(fresh: Path, path: Path, token: str) -> str:
    """Gives the complete file its name. Returns the token that counts."""
    try:
        os.link(fresh, path)  # fails if another process was faster
    except FileExistsError:
        other = _read_token(path)
        if other:
            return other
        fresh.replace(path)
        return token
    except OSError:  # a file system without links
        fresh.replace(path)
    return token


def check_session(caller: Caller, headers: Mapping[str, str], token: str) -> None:
    """Raises if a caller without a key has not sent the token. Takes the same time wherever the two differ."""
    if caller.key_hash or caller.sees != "all":  # a key is enough, and who sees only what a key has asked has sent it
        return
    sent = headers.get(HEADER, "").encode("utf-8", "replace")
    if not compare_digest(sent, token.encode()):
        raise make_refusal(401, "auth", _NEEDED, code=SESSION_NEEDED)
