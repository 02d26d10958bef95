"""Of what runs at once in a session the first that ends ends the others; each ends by raising."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

from scheduling.sentences import one_line
from web.server.sockets import NORMAL
from workflows.sessions.open_session import OpenSession


class Over(Exception):
    """The session ends with a sentence, or the command's status, and a code of the socket.

    A cluster's words may be in the sentence, and a terminal prints it.
    """

    def __init__(
        self, sentence: str = "", *, status: dict[str, Any] | None = None, code: int = NORMAL
    ) -> None:
        super().__init__(sentence)
        self.sentence, self.status, self.code = one_line(sentence), status, code


async def first_end(*works: Coroutine[Any, Any, None]) -> NoReturn:
    """Run all of them until one ends, by raising; then none runs any more."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        errors = [error for task in done if (error := task.exception()) is not None]
        raise next((error for error in errors if isinstance(error, Over)), errors[0])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def told_to_end(session: OpenSession) -> NoReturn:
    sentence, code = await session.over
    raise Over(sentence, code=code)
