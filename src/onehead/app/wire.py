"""HTTP for the explorer: a fixed number of threads, a limit of connections, and refusals before a body is read."""

import logging
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from onehead.app.safety import UPLOAD, UPLOAD_LIMIT, UPLOADS_AT_ONCE, Head, Refusal, sentence
from onehead.errors import MissingExtra

__all__ = ["server_on"]

THREADS = 24  # questions at once; each waits for a worker most of its time
CONNECTIONS = 2000  # at once; an open connection that says nothing costs no thread
SILENCE = 75  # seconds after which it is closed
HEADER_LIMIT = 64 * 1024  # bytes


class Refused:
    """A request that is answered by a sentence instead of being read."""

    def __init__(self, refusal: Refusal, headers: Mapping[str, str]) -> None:
        self._sentence, self._code = refusal
        self._headers = headers

    def to_response(self, _: Any = None) -> tuple[str, list[tuple[str, str]], bytes]:
        """Status, headers and body."""
        status = f"{self._code} {HTTPStatus(self._code).phrase}"
        return status, [("Content-Type", "application/json"), *self._headers.items()], sentence(self._sentence)


def server_on(
    listener: socket.socket,
    application: Any,
    refuse: Callable[[Head], Refusal | None],
    headers: Mapping[str, str],
) -> Any:
    """A server on a listening socket; ``refuse`` sees the head of every request, ``headers`` go with its refusals."""
    try:
        from waitress.channel import HTTPChannel  # noqa: PLC0415
        from waitress.parser import HTTPRequestParser  # noqa: PLC0415
        from waitress.server import create_server  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("waitress", "app") from None

    class Parser(HTTPRequestParser):  # type: ignore[misc]
        """Looks at the head of a request as soon as it is there."""

        def __init__(self, adjustments: Any, uploads: Callable[[], int]) -> None:
            super().__init__(adjustments)
            self._uploads, self._seen = uploads, False

        def received(self, data: bytes) -> int:
            consumed: int = super().received(data)
            fine = self.headers_finished and not self.empty and getattr(self, "error", None) is None
            if fine and not self._seen:
                self._seen = True
                refusal = refuse(_head(self))
                if refusal is None and self.path == UPLOAD and self._uploads() >= UPLOADS_AT_ONCE:
                    refusal = "two files are being read already; try again in a moment.", 503
                if refusal is not None:
                    self.error, self.completed, self.expect_continue = Refused(refusal, headers), True, False
            return consumed

    class Channel(HTTPChannel):  # type: ignore[misc]
        """A connection; the files that others are sending are counted."""

        def parser_class(self, adjustments: Any) -> Parser:
            return Parser(adjustments, self._others)

        def _others(self) -> int:
            others = [channel for channel in self.server.active_channels.values() if channel is not self]
            asked = [request for channel in others for request in (channel.request, *channel.requests)]
            return sum(getattr(request, "path", None) == UPLOAD and not request.error for request in asked)

    logging.getLogger("waitress").setLevel(logging.CRITICAL + 1)  # a request is nobody's business
    server = create_server(
        application,
        sockets=[listener],
        ident=None,  # what we are made of is nobody's business either
        threads=THREADS,
        connection_limit=CONNECTIONS,
        channel_timeout=SILENCE,
        cleanup_interval=10,
        max_request_header_size=HEADER_LIMIT,
        max_request_body_size=UPLOAD_LIMIT + 1,
        recv_bytes=1 << 18,
        asyncore_use_poll=True,  # the other way ends at a thousand files
        backlog=128,
    )
    server.channel_class = Channel
    return server


def _head(request: Any) -> Head:
    """What the head of a request says."""
    said = request.headers.get
    length = said("CONTENT_LENGTH")
    return Head(
        method=request.command,
        path=request.path,
        host=said("HOST", ""),
        origin=said("ORIGIN"),
        site=said("SEC_FETCH_SITE"),
        length=int(length) if length is not None else None,
        chunked=request.chunked,
    )
