"""OpenAI Chat Completions, and the many who imitate it."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.openai_chat.decode import ChatDecoder
from penstock.protocols.openai_chat.encode import ChatEncoder
from penstock.protocols.openai_chat.whole import body


def looks(name: str, payload: dict[str, Any]) -> bool:
    if str(payload.get("object", "")).startswith("chat.completion"):
        return True
    choices = payload.get("choices")
    return bool(choices) and isinstance(choices, list) and bool({"delta", "message"} & set(choices[0]))  # pyright: ignore[reportUnknownArgumentType]


PROTOCOL = Protocol("openai-chat", looks, ChatDecoder, ChatEncoder, body=body)
