"""The content of an answer, also of one that is a coroutine, read within the test's own transaction."""

import asyncio
import queue
import threading
from concurrent.futures import Executor, Future
from unittest.mock import patch

from web.database import row_threads
from workflows import state_feed
from workflows.logs import follow


class _ThisThread(Executor):
    """The test's thread does what coroutines give to threads, since that needs the test's connection."""

    def __init__(self):
        self.calls = queue.SimpleQueue()

    def submit(self, function, /, *args):
        future = Future()
        self.calls.put((future, function, args))
        return future

    def serve(self, until):
        while not until.is_set() or not self.calls.empty():
            try:
                future, function, args = self.calls.get(timeout=0.01)
            except queue.Empty:
                continue
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*args))
            except Exception as error:  # noqa: BLE001 -- handed on
                future.set_exception(error)


def content_of(answer, *, pieces=None):
    """All of it, or as many pieces of a stream; then the caller is gone."""
    if not answer.streaming:
        return answer.content
    if not answer.is_async:
        return b"".join(answer.streaming_content)

    async def collect():
        stream, content = aiter(answer.streaming_content), []
        async for piece in stream:
            content.append(piece)
            if pieces is not None and len(content) >= pieces:
                break
        await stream.aclose()
        return b"".join(content)

    executor, ended, result = _ThisThread(), threading.Event(), Future()

    def run():
        try:
            result.set_result(asyncio.run(collect()))
        except Exception as error:  # noqa: BLE001 -- handed on
            result.set_exception(error)
        finally:
            ended.set()

    with (
        patch.object(follow, "_threads", executor),
        patch.object(state_feed, "_thread", executor),
        patch.object(row_threads, "close_old_connections", lambda: None),
    ):
        reader = threading.Thread(target=run)
        reader.start()
        executor.serve(ended)
        reader.join()
    return result.result()
