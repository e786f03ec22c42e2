"""A real forward proxy on loopback: CONNECT for https, absolute URLs for http. It records what passes through."""

from __future__ import annotations

import asyncio
import base64
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """Speaks just enough of RFC 9110 to be one. With a password it wants to hear it.

    `answers`: it asks nobody, and refuses by itself.
    """

    def __init__(self, password: str = "", *, answers: bool = False) -> None:
        self.seen: list[str] = []
        self._password, self._answers = password, answers
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def host(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"http://user:{self._password}@{self.host}" if self._password else f"http://{self.host}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            if not self._allowed(head):
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
                return
            self.seen.append(f"{method} {target}")
            if self._answers:
                writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
                return
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                upstream = await asyncio.open_connection(host, int(port))
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                parts = urlsplit(target)
                upstream = await asyncio.open_connection(parts.hostname, parts.port)
                path = parts.path + (f"?{parts.query}" if parts.query else "")
                upstream[1].write(head.replace(target.encode(), path.encode(), 1))
            await asyncio.gather(_pump(reader, upstream[1]), _pump(upstream[0], writer))
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two has left
        finally:
            writer.close()

    def _allowed(self, head: bytes) -> bool:
        shown = base64.b64encode(f"user:{self._password}".encode())
        return not self._password or b"Basic " + shown in head


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
