"""Streams for the page's tests: one with everything that a lane can show, a hostile one, and a long one.

Made of Anthropic's frames, because that protocol may interleave; the words are about a reservoir and mean nothing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

THOUGHT = (
    "The question is whether the gate at station 4 must be opened before the evening. For that I need the level in the "
    "reservoir now, what is flowing in, and the forecast of rain. The two readings do not depend on each other, so I "
    "can ask for both at once and look for the rule in the meantime."
)
ANSWER = """## Before I decide

I ask for **two readings at once**, and read the rule beside them:

| Gate | Sill | Limit |
|------|-----:|------:|
| 3 | 411.20 m | 415.00 m |
| 4 | 410.80 m | 414.60 m |

1. The level behind gate 4, as `level(station=4)`.
2. The rain of the next *six* hours.

```python
def must_open(level: float, rain: float) -> bool:
    return level + 0.012 * rain > 414.60
```

By the rule the gate opens when the level is expected above 414.60 m.
"""
RULE = "https://rules.test/gates"
PIECES = re.compile(r"\S+\s*")


def frame(kind: str, **rest: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **rest}, ensure_ascii=False)}\n\n".encode()


def begin(model: str = "claude-test-1") -> bytes:
    message: dict[str, Any] = {
        "id": "msg_01", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 1204, "cache_read_input_tokens": 900, "output_tokens": 1},
    }  # fmt: skip
    return frame("message_start", message=message)


def opened(index: int, **block: Any) -> bytes:
    return frame("content_block_start", index=index, content_block=block)


def grown(index: int, **delta: Any) -> bytes:
    return frame("content_block_delta", index=index, delta=delta)


def closed(index: int) -> bytes:
    return frame("content_block_stop", index=index)


def ended(reason: str, tokens: int = 400) -> list[bytes]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [frame("message_delta", delta=delta, usage={"output_tokens": tokens}), frame("message_stop")]


def said(index: int, text: str) -> Iterator[bytes]:
    for piece in PIECES.findall(text):
        yield grown(index, type="text_delta", text=piece)


def asked(index: int, text: str, size: int = 7) -> Iterator[bytes]:
    for at in range(0, len(text), size):
        yield grown(index, type="input_json_delta", partial_json=text[at : at + size])


def interleaved(model: str = "claude-test-1") -> list[bytes]:
    """Thinking, a search that the provider runs, text with a citation, and two calls that grow side by side."""
    made = [begin(model), opened(0, type="thinking", thinking="", signature="")]
    made += [grown(0, type="thinking_delta", thinking=piece) for piece in PIECES.findall(THOUGHT)]
    made += [grown(0, type="signature_delta", signature="c2lnbmVkIGJ5IG5vYm9keQ=="), closed(0), frame("ping")]
    made += [opened(1, type="server_tool_use", id="srvtoolu_1", name="web_search", input={})]
    made += [*asked(1, '{"query": "gate rule station 4"}'), closed(1)]
    found = {"type": "web_search_result", "url": RULE, "title": "Rules of the gates", "encrypted_content": "ZW5j"}
    made += [opened(2, type="web_search_tool_result", tool_use_id="srvtoolu_1", content=[found]), closed(2)]
    made += [opened(3, type="text", text="", citations=[]), *said(3, ANSWER)]
    cited = {"type": "web_search_result_location", "cited_text": "414.60 m", "url": RULE, "title": "Rules of the gates"}
    made += [grown(3, type="citations_delta", citation={**cited, "encrypted_index": "aWR4"}), closed(3)]
    made += [opened(4, type="tool_use", id="toolu_level", name="level", input={})]
    made += [opened(5, type="tool_use", id="toolu_rain", name="rain_forecast", input={})]
    level = asked(4, '{"station": 4, "unit": "m", "since": "2026-05-04T06:00:00Z"}')
    rain = asked(5, '{"hours": 6, "places": ["upper valley", "north ridge"], "unit": "mm"}')
    for pair in zip(level, rain, strict=False):
        made += pair
    made += [*level, *rain, closed(4), closed(5), *ended("tool_use")]
    return made


# ── hostile ───────────────────────────────────────────────────────────────────────────────────────

HOSTILE = """<script>window.ran = 1</script><img src=x onerror="window.ran = 2"><svg onload="window.ran = 3">
[press me](javascript:window.ran=4) <javascript:window.ran=5> ![x](javascript:window.ran=6)
[data](data:text/html,<script>window.ran=7</script>) <iframe srcdoc="<script>parent.ran=8</script>"></iframe>
{{constructor.constructor('window.ran=9')()}} ${window.ran=10} </script></textarea><!-- \u202e\u0000 -->
"""
HUGE = 2_000_000


def hostile(events: int = 10_000) -> list[bytes]:
    """Markup in every place that holds text, two million letters in one frame, and many events."""
    name = '"><script>window.ran=11</script>'
    made = [begin(model=name), opened(0, type="text", text=""), *said(0, HOSTILE)]
    made += [
        opened(1, type="tool_use", id=name, name=name, input={}),
        *asked(1, json.dumps({"x": HOSTILE}), 40),
        closed(1),
    ]
    made += [grown(0, type="text_delta", text="A" * HUGE)]
    made += [grown(0, type="text_delta", text=f"w{number} ") for number in range(events)]
    made += [closed(0), frame(name, x=HOSTILE), *ended("tool_use")]
    return made


def many(events: int = 10_000) -> list[bytes]:
    """A text of so many pieces."""
    made = [begin(), opened(0, type="text", text="")]
    made += [grown(0, type="text_delta", text=f"word {number} ") for number in range(events)]
    return [*made, closed(0), *ended("end_turn", events)]
