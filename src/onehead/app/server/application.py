"""The explorer as a Flask application: page, assets, questions, CSV table and upload of checkpoints."""

import gzip
import hashlib
import io
import mimetypes
import os
import secrets
import socket
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from onehead.app.page import ASSETS, index_page
from onehead.app.refusals import explain
from onehead.app.server.handlers import Handlers, InvalidKnob
from onehead.app.server.http_server import make_server
from onehead.app.server.request_guard import (
    BODY_LIMIT,
    LOOPBACK,
    MAX_UPLOADS,
    QUESTION_PATHS,
    UPLOAD_LIMIT,
    UPLOAD_PATH,
    Refusal,
    RequestHead,
    check_head,
    check_request,
    security_headers,
    sentence_body,
)
from onehead.app.server.training_jobs import Trainer, default_store
from onehead.app.server.workers import INTERNAL_ERROR, Superseded, Workers
from onehead.app.state import read_state
from onehead.app.views import VIEWS
from onehead.errors import MissingExtra, OneheadError
from onehead.results import plain
from onehead.sweep.export import csv_rows

UPLOAD_SLOTS = threading.BoundedSemaphore(MAX_UPLOADS)
CHUNK = 1 << 20  # bytes of an upload read at once
MIN_COMPRESSED = 800  # bytes; smaller answers are not compressed
COMPRESSIBLE = ("text/", "application/json", "application/javascript", "image/svg")
NOT_FOUND = "There is nothing under this address."
CACHE_FOR_A_YEAR = "public, max-age=31536000, immutable"


def _flask() -> Any:
    try:
        import flask
    except ImportError:
        raise MissingExtra("flask", "app") from None
    return flask


class Asset(NamedTuple):
    """A file of the page: its type, its content, its content compressed (empty if not), and a tag of its version."""

    kind: str
    body: bytes
    compressed: bytes
    tag: str


@lru_cache(maxsize=1)
def _assets() -> dict[str, Asset]:
    """Return every file of the page by its name; only these are served."""
    found = {}
    for path in sorted(ASSETS.rglob("*")):
        if path.is_file():
            body = path.read_bytes()
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            compressed = gzip.compress(body, 6, mtime=0) if path.suffix in (".js", ".css", ".svg") else b""
            tag = hashlib.sha256(body).hexdigest()[:16]
            found[path.relative_to(ASSETS).as_posix()] = Asset(kind, body, compressed, tag)
    return found


class Explorer:
    """The application with its worker processes, its training job and its handlers of questions."""

    def __init__(
        self,
        *,
        store: Path | None = None,
        hosts: tuple[str, ...] | None = LOOPBACK,
        workers: int | None = None,
        base: str = "",
    ) -> None:
        self.trainer = Trainer(store if store is not None else default_store())
        self.workers = Workers(workers)
        self.handlers = Handlers(self.trainer, self.workers)
        self._hosts = hosts
        self._headers = security_headers()
        self._page = index_page(base=base, tags={name: asset.tag for name, asset in _assets().items()})
        self.application = self._build()

    def server(self, listener: socket.socket) -> Any:
        """Return a server on a listening socket: ``run()`` serves until Ctrl-C, ``close()`` closes the socket."""

        def refuse(head: RequestHead) -> Refusal | None:
            return check_head(head, self._hosts)

        return make_server(listener, self.application, refuse, self._headers)

    def close(self) -> None:
        """End the training job and all worker processes."""
        self.trainer.cancel()
        self.workers.close()

    # --- the application

    def _build(self) -> Any:
        flask = _flask()
        app = flask.Flask("onehead.app", static_folder=None)
        app.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT
        app.add_url_rule("/", "page", lambda: flask.Response(self._page, mimetype="text/html"))
        app.add_url_rule("/alive", "alive", lambda: flask.Response(status=204))
        app.add_url_rule("/assets/<path:name>", "asset", self._asset)
        for path, name in QUESTION_PATHS.items():
            app.add_url_rule(path, name, self._question_handler(name), methods=["POST"])
        app.add_url_rule("/data.csv", "data", self._csv)
        app.add_url_rule(UPLOAD_PATH, "checkpoint", self._checkpoint, methods=["POST"])
        self._protect(app, flask)
        return app

    def _protect(self, app: Any, flask: Any) -> None:
        """Register checks before, headers and compression after every request, and sentences for errors."""
        from werkzeug.exceptions import HTTPException

        @app.before_request  # type: ignore[untyped-decorator]
        def refuse() -> Any:
            refusal = check_request(flask.request, self._hosts)
            return _sentence_response(*refusal) if refusal is not None else None

        @app.after_request  # type: ignore[untyped-decorator]
        def harden(response: Any) -> Any:
            response.headers.update(self._headers)
            response.headers.setdefault("Cache-Control", "no-store")
            return _compressed(response, flask.request)

        def unknown(error: Any) -> Any:
            return _sentence_response(NOT_FOUND, getattr(error, "code", None) or 404)

        def broken(error: Exception) -> Any:
            return _sentence_response(INTERNAL_ERROR.format(type(error).__name__), 500)

        app.register_error_handler(Exception, broken)
        app.register_error_handler(HTTPException, unknown)

    # --- addresses

    def _asset(self, name: str) -> Any:
        flask = _flask()
        asset = _assets().get(name)
        if asset is None:
            return _sentence_response(NOT_FOUND, 404)
        compressed = bool(asset.compressed) and "gzip" in flask.request.headers.get("Accept-Encoding", "")
        headers = {
            "Cache-Control": CACHE_FOR_A_YEAR if "v" in flask.request.args else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if compressed:
            headers["Content-Encoding"] = "gzip"
        return flask.Response(asset.compressed if compressed else asset.body, mimetype=asset.kind, headers=headers)

    def _question_handler(self, name: str) -> Any:
        """Return the handler of one kind of question; `check_request` has validated the question before."""

        def answer() -> Any:
            flask = _flask()
            return flask.jsonify(getattr(self.handlers, name)(flask.request.get_json()))

        return answer

    def _csv(self) -> Any:
        flask = _flask()
        key = flask.request.query_string.decode("ascii", "replace")
        try:
            state, found = self.handlers.exact("picture", {"key": key, "page": "csv-" + secrets.token_hex(4)})
        except InvalidKnob as error:
            return _sentence_response(str(error), 400)
        except (OneheadError, Superseded) as error:
            return _sentence_response(
                explain(error) if isinstance(error, OneheadError) else "The page has moved on.", 422
            )
        table = io.StringIO()
        csv_rows(table, plain(found.rows))
        headers = {"Content-Disposition": f'attachment; filename="onehead-{state.view}.csv"'}
        return flask.Response(table.getvalue(), mimetype="text/csv", headers=headers)

    def _checkpoint(self) -> Any:
        """Receive a checkpoint, survey it with the safe reader in a worker, and delete it."""
        flask = _flask()
        request = flask.request
        size = request.content_length or 0  # a request without one was refused before
        request.max_content_length = UPLOAD_LIMIT
        state, wrong = read_state({**request.args.to_dict(), "view": "checkpoint"})
        if "heads" in wrong:
            return _sentence_response(wrong["heads"], 400)
        if not UPLOAD_SLOTS.acquire(blocking=False):
            return _sentence_response("Two files are being read already; try again in a moment.", 503)
        try:
            with tempfile.TemporaryDirectory(prefix="onehead-") as folder:
                path = (
                    Path(folder) / "model.safetensors"
                )  # a fixed name: no name from the browser reaches the file system
                if _receive(request.stream, path, size) != size:
                    return _sentence_response("The file did not arrive completely.", 400)
                return flask.jsonify(self.handlers.survey(path, request.args.get("name", "file"), state["heads"]))
        finally:
            UPLOAD_SLOTS.release()


def _compressed(response: Any, request: Any) -> Any:
    """Compress an answer if it is large enough and the browser accepts it."""
    small = response.direct_passthrough or (response.content_length or 0) < MIN_COMPRESSED
    if small or "Content-Encoding" in response.headers or not response.mimetype.startswith(COMPRESSIBLE):
        return response
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response.set_data(gzip.compress(response.get_data(), 3, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
    return response


def _receive(stream: Any, path: Path, size: int) -> int:
    """Write the body of an upload to a file, at most ``size`` bytes, and return how many arrived."""
    received = 0
    with path.open("wb") as file:
        while received < size:
            chunk = stream.read(min(CHUNK, size - received))
            if not chunk:
                break
            file.write(chunk)
            received += len(chunk)
    return received


def _sentence_response(text: str, code: int) -> Any:
    """Return an answer that consists of one sentence."""
    return _flask().Response(sentence_body(text), status=code, mimetype="application/json")


def _warm_up(explorer: Explorer) -> None:
    """Draw every view once, so that the first visitor does not wait for compiled code to be loaded."""
    _assets()
    for view in VIEWS.values():
        state, _ = read_state({"view": view.name})
        for panel in view.panels.values():
            panel.draft(state)
    for n in range(2):
        question = {"key": "view=curve", "page": f"warm-{n}"}
        threading.Thread(target=explorer.handlers.report, args=(question,), daemon=True).start()


def serve(host: str, port: int, *, store: Path | None = None, base: str = "", ready: Any = None) -> None:
    """Serve until interrupted; ``ready`` is called with the address once every view has been drawn."""
    os.environ.setdefault("ONEHEAD_THREADS", "1")  # requests run in parallel, each on one core
    hosts = LOOPBACK if host in LOOPBACK else None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)  # first, so that a port in use is reported at once
    explorer = Explorer(store=store, hosts=hosts, base=base)
    try:
        http = explorer.server(listener)
        _warm_up(explorer)
        if ready is not None:
            ready(f"http://{host if ':' not in host else f'[{host}]'}:{listener.getsockname()[1]}/")
        try:
            http.run()
        finally:
            http.close()
    finally:
        explorer.close()
