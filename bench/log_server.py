"""An API server that has one log for every pod: a line, and then silence for as long as somebody follows.

kwok watches a file for each follower, and Linux gives a user 128 such watches (``max_user_instances``). So
the streams of a thousand followers come from here, over TLS with the certificate of the real API server.
"""

import asyncio
import ssl
import threading
from pathlib import Path
from typing import Self

from localcluster.ports import LOOPBACK

LINE = b"a line of a log\n"
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    + f"{len(LINE):x}\r\n".encode()
    + LINE
    + b"\r\n"
)
BACKLOG = 1024


class LogServer:
    """Runs in a thread of this process; ``url`` is where it is."""

    def __init__(self, certificates: Path) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(_answer, LOOPBACK, 0, ssl=self._context, backlog=BACKLOG)
        server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        self.url = f"https://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await reader.read()  # until the follower leaves
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()
