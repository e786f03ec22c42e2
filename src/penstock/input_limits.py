"""The one policy for the depth and size of input. Every reader of untrusted data takes its limits from here.

`docs/limits.md` lists each limit, what happens beyond it, and the setting that changes it.
"""

from __future__ import annotations

MAX_JSON_DEPTH = 256
"""Levels of nesting in JSON. A deeper body of a client is refused; a deeper payload of a provider is a fault."""

MAX_PATH = 2048
"""Bytes in the path of a request to the gateway, as sent. A longer one is refused with 414 before routing."""

MAX_QUERY = 8192
"""Bytes in the query string of a request to the gateway. A longer one is refused with 414 before routing."""

MAX_HEADER_NAME = 256
"""Bytes in the name of a header, sent or received."""

MAX_HEADER_VALUE = 16 * 1024
"""Bytes in the value of a header that is sent upstream, and in a key that a client sends."""

MAX_HEADERS = 128
"""Header lines in one request, sent or received."""

MAX_PIPELINED = 32
"""Requests that wait on one connection for the answer to an earlier one. With more the connection is closed."""

MAX_REQUEST_HEAD = 64 * 1024
"""Bytes in the request line and headers of a request that is sent upstream."""

MAX_MODEL_NAME = 1024
"""Characters in the name of a model."""

MAX_BODY_TOTAL_BYTES = 256 * 2**20
"""Bytes of all requests over HTTP that are not answered yet (`serve.body_total`). Beyond it, the largest that is still
arriving is refused with 503."""

MAX_WEBSOCKET_BYTES = 32 * 2**20
"""Bytes of requests that one WebSocket may have in flight (`serve.websocket_bytes`). Beyond it, reading pauses."""

MAX_WEBSOCKET_TOTAL_BYTES = 256 * 2**20
"""Bytes of requests that all WebSockets hold (`serve.websocket_total`). Beyond it, the largest is closed."""

MAX_DEEP_TEXT = 1024 * 1024
"""Bytes of JSON that may be searched bracket by bracket because it is deeper than MAX_JSON_DEPTH."""

MAX_TOML_BYTES = 2**20
"""Bytes of a configuration file."""

MAX_TOML_KEY_PARTS = 32
"""Parts of one dotted key in a configuration file."""

MAX_PARTS = 100_000
"""Parts (texts, calls, sources, files …) of one turn. More is a fault."""

MAX_CHOICES = 256
"""Choices of one turn whose finish reasons are told apart. Further ones have none, and a diagnostic says so."""

MAX_COUNT = 2**53 - 1
"""The largest count of tokens, and the latest time, that is believed: what every JSON reader holds exactly."""
