"""HTTP server of the explorer, with fixed numbers of threads and connections; it refuses before a body is read."""

import logging
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from onehead.app.server.request_guard import MAX_UPLOADS, UPLOAD_LIMIT, UPLOAD_PATH, Refusal, RequestHead, sentence_body
from onehead.errors import MissingExtra

THREADS = 24  # questions answered at once; most of the time each waits for a worker
MAX_CONNECTIONS = 2000  # open at once; an idle connection needs no thread
IDLE_TIMEOUT = 75  # seconds after which an idle connection is closed
HEADER_LIMIT = 64 * 1024  # bytes


class RefusedRequest:
    """The error of a request that is answered with a sentence and not read further."""

    def __init__(self, refusal: Refusal, headers: Mapping[str, str]) -> None:
        self._sentence, self._code = refusal
        self._headers = headers

    def to_response(self, _: Any = None) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return status, headers and body of the answer."""
        status = f"{self._code} {HTTPStatus(self._code).phrase}"
        return status, [("Content-Type", "application/json"), *self._headers.items()], sentence_body(self._sentence)


def make_server(
    listener: socket.socket,
    application: Any,
    refuse: Callable[[RequestHead], Refusal | None],
    headers: Mapping[str, str],
) -> Any:
    """Return a server on a listening socket; ``refuse`` checks the head of a request, ``headers`` go with refusals."""
    try:
        from waitress.channel import HTTPChannel
        from waitress.parser import HTTPRequestParser
        from waitress.server import create_server
    except ImportError:
        raise MissingExtra("waitress", "app") from None

    class Parser(HTTPRequestParser):  # type: ignore[misc]
        """A parser that checks the head of a request as soon as it has arrived."""

        def __init__(self, adjustments: Any, uploads: Callable[[], int]) -> None:
            super().__init__(adjustments)
            self._uploads, self._checked = uploads, False

        def received(self, data: bytes) -> int:
            consumed: int = super().received(data)
            fine = self.headers_finished and not self.empty and getattr(self, "error", None) is None
            if fine and not self._checked:
                self._checked = True
                refusal = refuse(_waitress_head(self))
                if refusal is None and self.path == UPLOAD_PATH and self._uploads() >= MAX_UPLOADS:
                    refusal = "Two files are being read already; try again in a moment.", 503
                if refusal is not None:
                    self.error, self.completed, self.expect_continue = RefusedRequest(refusal, headers), True, False
            return consumed

    class Channel(HTTPChannel):  # type: ignore[misc]
        """A connection that knows how many files other connections are uploading."""

        def parser_class(self, adjustments: Any) -> Parser:
            return Parser(adjustments, self._other_uploads)

        def _other_uploads(self) -> int:
            others = [channel for channel in self.server.active_channels.values() if channel is not self]
            requests = [request for channel in others for request in (channel.request, *channel.requests)]
            return sum(getattr(request, "path", None) == UPLOAD_PATH and not request.error for request in requests)

    logging.getLogger("waitress").setLevel(logging.CRITICAL + 1)  # requests are not logged
    server = create_server(
        application,
        sockets=[listener],
        ident=None,  # no Server header
        threads=THREADS,
        connection_limit=MAX_CONNECTIONS,
        channel_timeout=IDLE_TIMEOUT,
        cleanup_interval=10,
        max_request_header_size=HEADER_LIMIT,
        max_request_body_size=UPLOAD_LIMIT + 1,
        recv_bytes=1 << 18,
        asyncore_use_poll=True,  # select() is limited to about a thousand files
        backlog=128,
    )
    server.channel_class = Channel
    return server


def _waitress_head(request: Any) -> RequestHead:
    """Return the head of a waitress request."""
    header = request.headers.get
    length = header("CONTENT_LENGTH")
    return RequestHead(
        method=request.command,
        path=request.path,
        host=header("HOST", ""),
        origin=header("ORIGIN"),
        site=header("SEC_FETCH_SITE"),
        length=int(length) if length is not None else None,
        chunked=request.chunked,
    )
