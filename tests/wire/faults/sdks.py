"""The official SDKs as clients of the fault matrix: what they give, or the error of their own that they raise.

The AI SDK's UI stream has no SDK in Python; its cells are read by the reader of `readers` alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.wire.faults import readers
from tests.wire.faults.readers import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WORDS = "Read the gauge."
_LIMIT = 60.0  # seconds; the matrix has its own, shorter limit


class Sdks:
    """One client of each SDK, made for a gateway and closed at the end."""

    def __init__(self, port: int) -> None:
        import anthropic
        import openai
        from google import genai
        from google.genai import types

        base = f"http://127.0.0.1:{port}"
        self._openai = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0, timeout=_LIMIT)
        self._anthropic = anthropic.AsyncAnthropic(base_url=base, api_key="any", max_retries=0, timeout=_LIMIT)
        self._genai = genai.Client(
            api_key="any", http_options=types.HttpOptions(base_url=base, timeout=int(_LIMIT * 1000))
        )
        from google.genai import errors

        self._own: dict[str, type[Exception]] = {
            "openai-chat": openai.APIError, "responses": openai.APIError, "anthropic": anthropic.APIError,
            "gemini": errors.APIError,
        }  # fmt: skip
        self._asking: dict[str, Callable[[Outcome, str, bool], Awaitable[None]]] = {
            "openai-chat": self._chat, "responses": self._responses, "anthropic": self._messages, "gemini": self._google,
        }  # fmt: skip

    async def aclose(self) -> None:
        await self._openai.close()
        await self._anthropic.close()
        await self._genai.aio.aclose()
        self._genai.close()

    async def ask(self, client: str, model: str, *, stream: bool) -> Outcome:
        """What the SDK of a dialect makes of an answer. An exception that is not its own error is `broken`."""
        out = Outcome()
        try:
            await self._asking[client](out, model, stream)
        except self._own[client] as error:
            out.error = str(error) or repr(error)
            out.status = 0  # not every SDK tells the status of the response from the one in its body
        except Exception as error:  # noqa: BLE001 — whatever it is, it is the finding
            out.broken = f"{type(error).__module__}.{type(error).__name__}: {error}"
        return out

    async def _chat(self, out: Outcome, model: str, stream: bool) -> None:
        said: Any = [{"role": "user", "content": WORDS}]
        made: Any = await self._openai.chat.completions.create(model=model, messages=said, stream=stream)
        if not stream:
            readers.WHOLE["openai-chat"](out, made.model_dump(mode="json"))
            return
        async for chunk in made:
            readers.STREAMED["openai-chat"](out, chunk.model_dump(mode="json"))

    async def _responses(self, out: Outcome, model: str, stream: bool) -> None:
        """This SDK gives errors in a stream as events of its own types, which is how it raises them."""
        made: Any = await self._openai.responses.create(model=model, input=WORDS, stream=stream, store=False)
        if not stream:
            readers.WHOLE["responses"](out, made.model_dump(mode="json"))
            return
        async for event in made:
            readers.STREAMED["responses"](out, event.model_dump(mode="json"))

    async def _messages(self, out: Outcome, model: str, stream: bool) -> None:
        said: Any = [{"role": "user", "content": WORDS}]
        if not stream:
            whole: Any = await self._anthropic.messages.create(model=model, max_tokens=99, messages=said)
            readers.WHOLE["anthropic"](out, whole.model_dump(mode="json"))
            return
        made: Any = await self._anthropic.messages.create(model=model, max_tokens=99, messages=said, stream=True)
        async for event in made:
            readers.STREAMED["anthropic"](out, event.model_dump(mode="json", exclude_none=True))

    async def _google(self, out: Outcome, model: str, stream: bool) -> None:
        if not stream:
            self._heard(out, await self._genai.aio.models.generate_content(model=model, contents=WORDS))
            return
        async for chunk in await self._genai.aio.models.generate_content_stream(model=model, contents=WORDS):
            self._heard(out, chunk)

    def _heard(self, out: Outcome, reply: Any) -> None:
        for candidate in reply.candidates or ():
            for part in (candidate.content.parts if candidate.content else ()) or ():
                if part.function_call:
                    out.calls.append((part.function_call.name, json.dumps(part.function_call.args)))
                elif part.thought:
                    out.reasoning += part.text or ""
                else:
                    out.text += part.text or ""
            out.finish = candidate.finish_reason.value if candidate.finish_reason else out.finish
