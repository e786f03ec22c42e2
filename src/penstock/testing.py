"""For tests of programs that use models: an upstream that sends scripted replies in any dialect, with any fault.

The pytest plugin gives tests these things as fixtures: docs/testing-your-app.md.

`play`, `wire` and `answer` return the packaged streams of the replay provider (docs/replay.md). penstock's own tests
use this module, too. `Upstream` and `scripted` need aiohttp (the extra `client`).
"""

from penstock._gateway.recordings import paced_chunks
from penstock._replay import FULL, NATURAL, Pace, answer, paced, play, scripts, wire
from penstock._replay.wire_encoding import encode_events, error_body, media_type
from penstock._store.recordings import Recording, RecordingHeader, read_recording, write_recording
from penstock._stream_redaction import redact_chunks
from penstock._testing.cassettes import Cassette, CassetteMode, UnrecordedRequest
from penstock._testing.dialects import Dialect
from penstock._testing.exchange_log import ExchangeLog, LoggedRequest
from penstock._testing.replies import Reply, iterate_splits, split_at
from penstock._testing.upstream import Answer, ReceivedRequest, Upstream, scripted

__all__ = [
    "FULL",
    "NATURAL",
    "Answer",
    "Cassette",
    "CassetteMode",
    "Dialect",
    "ExchangeLog",
    "LoggedRequest",
    "Pace",
    "ReceivedRequest",
    "Recording",
    "RecordingHeader",
    "Reply",
    "UnrecordedRequest",
    "Upstream",
    "answer",
    "encode_events",
    "error_body",
    "iterate_splits",
    "media_type",
    "paced",
    "paced_chunks",
    "play",
    "read_recording",
    "redact_chunks",
    "scripted",
    "scripts",
    "split_at",
    "wire",
    "write_recording",
]
