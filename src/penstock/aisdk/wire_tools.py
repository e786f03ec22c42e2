"""The chunks of the AI SDK about tools, as sent, and the union of all chunks.

A call is named by `id` while it streams in a full stream, by `toolCallId` everywhere else.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET

from penstock.aisdk import wire


class CallChunk(wire.Chunk):
    """What every chunk about a call may say."""

    tool_call_id: str | None = None
    id: str | None = None
    tool_name: str | None = None
    provider_executed: bool | None = None
    dynamic: bool | None = None
    title: str | None = None
    provider_metadata: Any = None
    tool_metadata: Any = None

    @property
    def call(self) -> str:
        """The call's own id."""
        return self.tool_call_id or self.id or ""


class OpenCall(CallChunk):
    """A call begins."""

    input_encoding: str | None = None


class ToolInputStart(OpenCall, tag="tool-input-start"):
    """Since 5."""


class ToolCallStreamingStart(OpenCall, tag="tool-call-streaming-start"):
    """Version 4."""


class CallPiece(CallChunk):
    """A fragment of its input: `delta` in a full stream, `inputTextDelta` in a UI stream, `argsTextDelta` in 4."""

    delta: str | None = None
    input_text_delta: str | None = None
    args_text_delta: str | None = None


class ToolInputDelta(CallPiece, tag="tool-input-delta"):
    """Since 5."""


class ToolCallDelta(CallPiece, tag="tool-call-delta"):
    """Version 4."""


class ToolInputEnd(CallChunk, tag="tool-input-end"):
    """No more fragments; the whole call follows."""


class WholeCall(CallChunk):
    """`input` (a value, or in `doStream` its JSON text); `args` in version 4."""

    input: Any = UNSET
    args: Any = UNSET
    invalid: bool | None = None
    error: Any = None
    error_text: str | None = None


class ToolCall(WholeCall, tag="tool-call"):
    """In full streams."""


class ToolInputAvailable(WholeCall, tag="tool-input-available"):
    """In UI streams."""


class ToolInputError(WholeCall, tag="tool-input-error"):
    """In UI streams: a call that cannot be run."""


class Answer(WholeCall):
    """`output`, or `result` in `doStream` and in version 4; `error` or `errorText` where it failed."""

    output: Any = UNSET
    result: Any = UNSET
    is_error: bool | None = None
    preliminary: bool | None = None


class ToolResult(Answer, tag="tool-result"):
    """In full streams."""


class ToolError(Answer, tag="tool-error"):
    """In full streams since 5."""


class ToolOutputAvailable(Answer, tag="tool-output-available"):
    """In UI streams."""


class ToolOutputError(Answer, tag="tool-output-error"):
    """In UI streams."""


class ToolOutputDenied(Answer, tag="tool-output-denied"):
    """Since 6: someone said no."""


class ToolApprovalRequest(CallChunk, tag="tool-approval-request"):
    """Since 6: with the whole call in a full stream, its id elsewhere."""

    approval_id: str = ""
    tool_call: Any = None
    reason: str | None = None
    is_automatic: bool | None = None
    signature: str | None = None


class ToolApprovalResponse(wire.Chunk, tag="tool-approval-response"):
    """Since 7: what was said to a request."""


Payload: TypeAlias = (
    wire.TextDelta | wire.Text | wire.ReasoningDelta | wire.Reasoning | wire.TextStart | wire.TextEnd
    | wire.ReasoningStart | wire.ReasoningEnd | wire.ReasoningPartFinish | wire.ReasoningSignature
    | wire.RedactedReasoning | wire.Source | wire.SourceUrl | wire.SourceDocument | wire.File | wire.ReasoningFile
    | wire.Start | wire.StreamStart | wire.ResponseMetadata | wire.StartStep | wire.StepStart | wire.FinishStep
    | wire.StepFinish | wire.Finish | wire.MessageMetadata | wire.Error | wire.Abort | wire.Custom
    | wire.SteeringMessage | wire.Raw | wire.Ping | wire.ResetStep
    | ToolInputStart | ToolCallStreamingStart | ToolInputDelta | ToolCallDelta | ToolInputEnd | ToolCall
    | ToolInputAvailable | ToolInputError | ToolResult | ToolError | ToolOutputAvailable | ToolOutputError
    | ToolOutputDenied | ToolApprovalRequest | ToolApprovalResponse
)  # fmt: skip
