"""Program of a proxy between a client and an HTTP server, which refuses, fails, delays or loses
requests.

The proxy reads one mode per line from its standard input, and confirms each mode with a line:

| mode | behavior |
|---|---|
| `pass` | forwards everything |
| `refuse` | closes its port and all connections |
| `errors` | responds to each request with 503 |
| `slow` | forwards each piece of a response after `SLOW_SECONDS` |
| `lose` | forwards requests, and closes the connection when the response arrives |
| `stall` | accepts connections, and forwards nothing |
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

SLOW_SECONDS = 2.0
_PIECE = 1 << 16
_BODY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_ERROR = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class Proxy:
    """Hands connections on to a port of this machine.

    Args:
        target: that port.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._mode = "pass"
        self._server: asyncio.Server | None = None
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> int:
        """Starts to listen, always at the same port; returns the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self._port

    async def set_mode(self, mode: str) -> None:
        """Changes the mode; closes connections that were opened in another mode."""
        if mode == self._mode:
            return
        was_refusing, self._mode = self._mode == "refuse", mode
        for writer in list(self._writers):
            writer.transport.abort()
        if mode == "refuse" and self._server is not None:
            self._server.close()
        elif was_refusing:
            await self.open()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._mode == "errors":
                await _answer_with_error(reader, writer)
            elif self._mode == "stall":
                await asyncio.Event().wait()
            else:
                await self._hand_on(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.add(requests)
        try:
            asking = asyncio.create_task(_copy(reader, requests))
            while piece := await answers.read(_PIECE):
                if self._mode == "lose":
                    writer.transport.abort()
                    break
                if self._mode == "slow":
                    await asyncio.sleep(SLOW_SECONDS)
                writer.write(piece)
                await writer.drain()
            asking.cancel()
        finally:
            self._writers.discard(requests)
            requests.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()


async def _answer_with_error(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            await reader.readexactly(int(value))
    writer.write(_ERROR)
    await writer.drain()


async def main(target: int) -> None:
    """Serves until the standard input closes."""
    proxy = Proxy(target)
    print(await proxy.open(), flush=True)
    while mode := (await asyncio.to_thread(sys.stdin.readline)).strip():
        await proxy.set_mode(mode)
        print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
