"""The one policy for the depth and size of input. Every reader of untrusted data takes its limits from here.

`docs/limits.md` lists each limit, what happens beyond it, and the setting that changes it.
"""

from __future__ import annotations

MAX_JSON_DEPTH = 256
"""Levels of nesting in JSON. A deeper body of a client is refused; a deeper payload of a provider is a fault."""
