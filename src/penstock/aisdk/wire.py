"""The chunks of the AI SDK as sent: `fullStream` parts of versions 4 to 7, `doStream` parts, UI message chunks.

One shape per meaning, with every spelling as a field of its own; a chunk's type says what it means. Only what is read
is declared. Metadata is `Any` on purpose: text must not be lost because something beside it is odd.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, Struct

Id: TypeAlias = str | int | None


class Chunk(Struct, tag_field="type"):
    """The root of all chunks."""


# ── text and reasoning ────────────────────────────────────────────────────────────────────────────


class Say(Chunk, gc=False):
    id: Id = None
    text: str | None = None
    delta: str | None = None
    textDelta: str | None = None
    providerMetadata: Any = None


class TextDelta(Say, tag="text-delta", gc=False):
    pass


class Text(Say, tag="text", gc=False):
    pass


class ReasoningDelta(Say, tag="reasoning-delta", gc=False):
    pass


class Reasoning(Say, tag="reasoning", gc=False):
    pass


class Border(Chunk):
    id: Id = None
    providerMetadata: Any = None
    citations: Any = None


class TextStart(Border, tag="text-start"):
    pass


class TextEnd(Border, tag="text-end"):
    pass


class ReasoningStart(Border, tag="reasoning-start"):
    pass


class ReasoningEnd(Border, tag="reasoning-end"):
    pass


class ReasoningPartFinish(Border, tag="reasoning-part-finish"):
    pass


class ReasoningSignature(Chunk, tag="reasoning-signature"):
    signature: str = ""


class RedactedReasoning(Chunk, tag="redacted-reasoning"):
    data: str = ""


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


class CallChunk(Chunk):
    """What every chunk about a call may say."""

    toolCallId: str | None = None
    id: str | None = None
    toolName: str | None = None
    providerExecuted: bool | None = None
    dynamic: bool | None = None
    title: str | None = None
    providerMetadata: Any = None
    toolMetadata: Any = None


class OpenCall(CallChunk):
    inputEncoding: str | None = None


class ToolInputStart(OpenCall, tag="tool-input-start"):
    pass


class ToolCallStreamingStart(OpenCall, tag="tool-call-streaming-start"):
    pass


class CallPiece(CallChunk):
    delta: str | None = None
    inputTextDelta: str | None = None
    argsTextDelta: str | None = None


class ToolInputDelta(CallPiece, tag="tool-input-delta"):
    pass


class ToolCallDelta(CallPiece, tag="tool-call-delta"):
    pass


class ToolInputEnd(CallChunk, tag="tool-input-end"):
    pass


class WholeCall(CallChunk):
    input: Any = UNSET
    args: Any = UNSET
    invalid: bool | None = None
    error: Any = None
    errorText: str | None = None


class ToolCall(WholeCall, tag="tool-call"):
    pass


class ToolInputAvailable(WholeCall, tag="tool-input-available"):
    pass


class ToolInputError(WholeCall, tag="tool-input-error"):
    pass


class Answer(WholeCall):
    output: Any = UNSET
    result: Any = UNSET
    isError: bool | None = None
    preliminary: bool | None = None


class ToolResult(Answer, tag="tool-result"):
    pass


class ToolError(Answer, tag="tool-error"):
    pass


class ToolOutputAvailable(Answer, tag="tool-output-available"):
    pass


class ToolOutputError(Answer, tag="tool-output-error"):
    pass


class ToolOutputDenied(Answer, tag="tool-output-denied"):
    pass


class ToolApprovalRequest(CallChunk, tag="tool-approval-request"):
    approvalId: str = ""
    toolCall: Any = None
    reason: str | None = None
    isAutomatic: bool | None = None
    signature: str | None = None


# ── sources, files ────────────────────────────────────────────────────────────────────────────────


class SourceChunk(Chunk):
    id: Id = None
    sourceId: Id = None
    url: str | None = None
    title: str | None = None
    mediaType: str | None = None
    filename: str | None = None
    source: Any = None
    providerMetadata: Any = None


class Source(SourceChunk, tag="source"):
    pass


class SourceUrl(SourceChunk, tag="source-url"):
    pass


class SourceDocument(SourceChunk, tag="source-document"):
    pass


class FileChunk(Chunk):
    """A file in itself, or under `file`; its bytes are read by `penstock.aisdk.files`."""

    file: Any = None
    url: str | None = None
    mediaType: str | None = None
    mimeType: str | None = None
    base64: Any = None
    base64Data: Any = None
    data: Any = None
    uint8Array: Any = None
    uint8ArrayData: Any = None
    providerMetadata: Any = None


class File(FileChunk, tag="file"):
    pass


class ReasoningFile(FileChunk, tag="reasoning-file"):
    pass


# ── the turn ──────────────────────────────────────────────────────────────────────────────────────


class Start(Chunk, tag="start"):
    messageId: str | None = None
    messageMetadata: Any = None


class StreamStart(Chunk, tag="stream-start"):
    warnings: Any = None


class ResponseMetadata(Chunk, tag="response-metadata"):
    id: str | None = None
    modelId: str | None = None
    timestamp: Any = None


class StepBegin(Chunk):
    messageId: str | None = None
    warnings: Any = None


class StartStep(StepBegin, tag="start-step"):
    pass


class StepStart(StepBegin, tag="step-start"):
    pass


class Ending(Chunk):
    """What the end of a step and the end of all may say."""

    finishReason: Any = None
    rawFinishReason: str | None = None
    usage: Any = None
    totalUsage: Any = None
    response: Any = None
    providerMetadata: Any = None
    messageMetadata: Any = None


class FinishStep(Ending, tag="finish-step"):
    pass


class StepFinish(Ending, tag="step-finish"):
    pass


class Finish(Ending, tag="finish"):
    pass


class MessageMetadata(Chunk, tag="message-metadata"):
    messageMetadata: Any = None


class Error(Chunk, tag="error"):
    error: Any = None
    errorText: str | None = None


class Abort(Chunk, tag="abort"):
    reason: Any = None


# ── state, framing ────────────────────────────────────────────────────────────────────────────────


class Custom(Chunk, tag="custom"):
    kind: str = ""
    providerMetadata: Any = None


class SteeringMessage(Chunk, tag="steering-message"):
    pass


class ToolApprovalResponse(Chunk, tag="tool-approval-response"):
    pass


class Raw(Chunk, tag="raw"):
    pass


class Ping(Chunk, tag="ping"):
    pass


class ResetStep(Chunk, tag="reset-step"):
    pass


class Data(Struct):
    """`data-*`: its name is part of its type, so it cannot be one of the tagged chunks."""

    type: str
    data: Any = UNSET
    id: str | None = None
    transient: bool | None = None


Payload: TypeAlias = (
    TextDelta | Text | ReasoningDelta | Reasoning | TextStart | TextEnd | ReasoningStart | ReasoningEnd
    | ReasoningPartFinish | ReasoningSignature | RedactedReasoning | ToolInputStart | ToolCallStreamingStart
    | ToolInputDelta | ToolCallDelta | ToolInputEnd | ToolCall | ToolInputAvailable | ToolInputError | ToolResult
    | ToolError | ToolOutputAvailable | ToolOutputError | ToolOutputDenied | ToolApprovalRequest | Source | SourceUrl
    | SourceDocument | File | ReasoningFile | Start | StreamStart | ResponseMetadata | StartStep | StepStart
    | FinishStep | StepFinish | Finish | MessageMetadata | Error | Abort | Custom | SteeringMessage
    | ToolApprovalResponse | Raw | Ping | ResetStep
)  # fmt: skip
