"""Tools of MCP servers, by the official `mcp` package (the extra `mcp`): over stdio, or streamable HTTP.

A server is connected for the length of a run, or for that of an `async with` block, if it is used in one. Its session
lives in a task of its own, because the package must enter and leave it in the same task.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from penstock import request as rq
from penstock._client.function_tools import read_json_object
from penstock._client.parameter_values import SECONDS, check_value, check_values
from penstock.errors import McpServerError, MissingExtra, ToolError
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from penstock._client.function_tools import NeedsApproval
    from penstock.events import FaultKind

MAX_TOOLS = 1000  # of one server
_CONNECT_SECONDS = 30.0
_CLOSE_SECONDS = 10.0
_CONNECTION_CODES = (-32000, -32001)  # of the package itself: the connection is closed, a request timed out


class McpServer:
    """An MCP server whose tools a run may call. Create one with `McpServer.stdio` or `McpServer.http`."""

    def __init__(
        self,
        name: str,
        enter: Callable[[AsyncExitStack], Any],
        *,
        timeout: float | None = None,
        needs_approval: NeedsApproval = False,
        only: Sequence[str] | None = None,
    ) -> None:
        check_values({"name": name, "needs_approval": needs_approval, "only": only})
        check_value("timeout", timeout, SECONDS)
        self.name = name
        self.timeout = timeout
        self.needs_approval = needs_approval
        self._enter = enter
        self._only = None if only is None else frozenset(only)
        self._connection: _McpConnection | None = None

    @classmethod
    def stdio(
        cls,
        command: str,
        *args: str,
        name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        timeout: float | None = None,
        needs_approval: NeedsApproval = False,
        only: Sequence[str] | None = None,
    ) -> McpServer:
        """Returns a server that is a program on this machine. `only`: the names of the tools that are offered."""
        check_values({"command": command, "args": args, "env": env})

        async def enter(stack: AsyncExitStack) -> Any:
            mcp = _import_mcp()
            program = mcp.StdioServerParameters(
                command=command, args=list(args), env=dict(env) if env is not None else None, cwd=cwd
            )
            return await stack.enter_async_context(mcp.stdio_client(program))

        title = name or command.replace("\\", "/").rpartition("/")[2].partition(".")[0]
        return cls(title, enter, timeout=timeout, needs_approval=needs_approval, only=only)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        name: str = "mcp",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        needs_approval: NeedsApproval = False,
        only: Sequence[str] | None = None,
    ) -> McpServer:
        """Returns a server at an address, over streamable HTTP. `headers` may hold its key."""
        check_values({"url": url, "headers": headers})

        async def enter(stack: AsyncExitStack) -> Any:
            transport = _import_mcp("mcp.client.streamable_http")
            client = transport.create_mcp_http_client(headers=dict(headers or {}))
            await stack.enter_async_context(client)
            return await stack.enter_async_context(transport.streamable_http_client(url, http_client=client))

        return cls(name, enter, timeout=timeout, needs_approval=needs_approval, only=only)

    def __repr__(self) -> str:
        return f"<McpServer {self.name}>"

    async def __aenter__(self) -> Self:
        self._connection = await _McpConnection.open(self.name, self._enter)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.aclose()

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[list[McpTool]]:
        """Connects the server if it is not yet, and returns its tools."""
        if self._connection is not None:
            yield self._tools(self._connection)
            return
        connection = await _McpConnection.open(self.name, self._enter)
        try:
            yield self._tools(connection)
        finally:
            await connection.aclose()

    def _tools(self, connection: _McpConnection) -> list[McpTool]:
        rows = [row for row in connection.listed if self._only is None or row.name in self._only]
        return [McpTool(self, connection, row) for row in rows]


class McpTool:
    """One tool of an MCP server."""

    def __init__(self, server: McpServer, connection: _McpConnection, row: Any, name: str = "") -> None:
        self._server, self._connection, self._row = server, connection, row
        self.name: str = name or row.name
        self.timeout: float | None = server.timeout
        self.needs_approval: NeedsApproval = server.needs_approval
        schema: dict[str, Any] = dict(row.input_schema or {"type": "object"})
        self.definition: rq.Tool = rq.Tool(self.name, row.description or "", schema)

    def renamed(self, name: str) -> McpTool:
        """Returns the same tool under another name."""
        return McpTool(self._server, self._connection, self._row, name)

    def read_arguments(self, json: str) -> dict[str, Any]:
        """Returns the arguments of a call. The server validates them."""
        return read_json_object(json)

    async def run(self, arguments: Mapping[str, Any]) -> list[rq.ResultPart]:
        result = await self._connection.call(self._row.name, arguments)
        parts = [part for block in result.content for part in _read_block(block)]
        structured = getattr(result, "structured_content", None)
        if result.is_error:
            raise ToolError("\n".join(part.text for part in parts if isinstance(part, rq.Text)) or "the tool failed")
        if structured is not None and not any(isinstance(part, rq.File) for part in parts):
            return [rq.Json(msgspec.json.encode(structured, enc_hook=str).decode())]
        return parts or [rq.Text("")]


class _McpConnection:
    """A session in a task of its own. `listed`: the tools of the server."""

    def __init__(self, name: str, enter: Callable[[AsyncExitStack], Any]) -> None:
        self._name, self._enter = name, enter
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(), name=f"penstock-mcp-{name}")
        self.session: Any = None
        self.listed: list[Any] = []

    @classmethod
    async def open(cls, name: str, enter: Callable[[AsyncExitStack], Any]) -> _McpConnection:
        """Connects, initializes the session and lists the tools."""
        connection = cls(name, enter)
        try:
            await asyncio.wait_for(asyncio.shield(connection._ready), _CONNECT_SECONDS)
        except TimeoutError:
            await connection.aclose()
            raise _failure(name, f"it did not answer within {_CONNECT_SECONDS:g} seconds", "timeout") from None
        except BaseException:
            await connection.aclose()
            raise
        return connection

    async def _hold(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                streams = await self._enter(stack)
                self.session = await stack.enter_async_context(_import_mcp().ClientSession(*streams[:2]))
                await self.session.initialize()
                await self._list()
                self._ready.set_result(None)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 — a program that does not start, an address that does not answer …
            if not self._ready.done():
                is_ours = isinstance(error, MissingExtra)
                self._ready.set_exception(error if is_ours else _failure(self._name, _describe(error)))

    async def _list(self) -> None:
        cursor: str | None = None
        while len(self.listed) < MAX_TOOLS:
            params = _import_mcp().types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self.session.list_tools(params=params)
            self.listed += page.tools
            cursor = page.next_cursor
            if not cursor:
                break

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Calls a tool. Raises `McpServerError` if the server breaks off, before the call or during it."""
        if self._task.done():
            raise _failure(self._name, "the connection is closed")
        try:
            return await self.session.call_tool(tool, dict(arguments))
        except Exception as error:
            code = getattr(error, "code", None)  # of the server's errors; RuntimeError: a result that cannot be used
            if code not in (None, *_CONNECTION_CODES) or isinstance(error, RuntimeError):
                raise ToolError(str(error)) from None
            raise _failure(self._name, f"it broke off during a call of {tool!r} ({_describe(error)})") from error

    async def aclose(self) -> None:
        """Ends the session and its program or connection."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        _, late = await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)
        for task in late:
            task.cancel()
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # it was raised by `open`


def _read_block(block: Any) -> list[rq.ResultPart]:
    """Returns a content block as parts: text, image, audio, an embedded resource or a link to one."""
    if block.type == "text":
        return [rq.Text(block.text)]
    if block.type in ("image", "audio"):
        return [rq.File(block.mime_type, data=block.data)]
    if block.type == "resource_link":
        return [rq.Text(f"{block.name}: {block.uri}")]
    if block.type != "resource":
        return []
    resource = block.resource
    text = getattr(resource, "text", None)
    if text is not None:
        return [rq.Text(text)]
    return [rq.File(resource.mime_type or "application/octet-stream", data=resource.blob, name=str(resource.uri))]


def _describe(error: BaseException) -> str:
    """Returns what went wrong first, out of a group of errors. Addresses and keys are not shown."""
    first: Any = error
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    return type(first).__name__


def _failure(name: str, why: str, kind: FaultKind = "network") -> McpServerError:
    return McpServerError(name, Fault(kind, f"the MCP server {name!r} cannot be used: {why}"))


def _import_mcp(module: str = "mcp") -> Any:
    """Returns a module of the package. It is optional, and slow to import."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra("mcp", "mcp") from None
