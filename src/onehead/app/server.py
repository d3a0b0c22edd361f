"""The explorer as a web application: one page, the questions it can ask, a table to fetch, a file to send."""

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

from onehead.app.answers import Answers, Wrong
from onehead.app.page import ASSETS, index_page
from onehead.app.safety import (
    ASKED,
    BODY_LIMIT,
    LOOPBACK,
    UPLOAD,
    UPLOAD_LIMIT,
    UPLOADS_AT_ONCE,
    Head,
    Refusal,
    guard,
    security_headers,
    sentence,
    strange,
)
from onehead.app.state import read_state
from onehead.app.training import Trainer, default_store
from onehead.app.views import VIEWS
from onehead.app.wire import server_on
from onehead.app.work import INSIDE, Stopped, Workers
from onehead.errors import MissingExtra, OneheadError
from onehead.results import plain
from onehead.sweep.export import csv_rows

__all__ = ["Explorer", "serve"]

UPLOADS = threading.BoundedSemaphore(UPLOADS_AT_ONCE)
CHUNK = 1 << 20
WORTH = 800  # bytes from which compressing is worth it
PACKED = ("text/", "application/json", "application/javascript", "image/svg")
YEAR = "public, max-age=31536000, immutable"


def _flask() -> Any:
    try:
        import flask  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("flask", "app") from None
    return flask


class Asset(NamedTuple):
    """A file of the page, as it is and compressed."""

    kind: str
    body: bytes
    packed: bytes
    tag: str


@lru_cache(maxsize=1)
def _assets() -> dict[str, Asset]:
    """Every file of the page by its name; nothing else can be asked for."""
    found = {}
    for path in sorted(ASSETS.rglob("*")):
        if path.is_file():
            body = path.read_bytes()
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            packed = gzip.compress(body, 6, mtime=0) if path.suffix in (".js", ".css", ".svg") else b""
            tag = hashlib.sha256(body).hexdigest()[:16]
            found[path.relative_to(ASSETS).as_posix()] = Asset(kind, body, packed, tag)
    return found


class Explorer:
    """The application and what it owns: workers, the trainer, the answers."""

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
        self.answers = Answers(self.trainer, self.workers)
        self._hosts = hosts
        self._headers = security_headers()
        self._page = index_page(base=base, tags={name: asset.tag for name, asset in _assets().items()})
        self.application = self._build()

    def server(self, listener: socket.socket) -> Any:
        """The application behind a listening socket: ``run()`` serves until Ctrl-C, ``close()`` lets go."""

        def refuse(head: Head) -> Refusal | None:
            return strange(head, self._hosts)

        return server_on(listener, self.application, refuse, self._headers)

    def close(self) -> None:
        """End everything that runs beside the server."""
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
        for path, name in ASKED.items():
            app.add_url_rule(path, name, self._asked(name), methods=["POST"])
        app.add_url_rule("/data.csv", "data", self._csv)
        app.add_url_rule(UPLOAD, "checkpoint", self._checkpoint, methods=["POST"])
        self._protect(app, flask)
        return app

    def _protect(self, app: Any, flask: Any) -> None:
        """Refuse early, answer errors with a sentence, compress, and add the headers to everything."""
        from werkzeug.exceptions import HTTPException  # noqa: PLC0415

        @app.before_request  # type: ignore[untyped-decorator]
        def refuse() -> Any:
            refusal = guard(flask.request, self._hosts)
            return _says(*refusal) if refusal is not None else None

        @app.after_request  # type: ignore[untyped-decorator]
        def harden(response: Any) -> Any:
            response.headers.update(self._headers)
            response.headers.setdefault("Cache-Control", "no-store")
            return _compressed(response, flask.request)

        def unknown(error: Any) -> Any:
            return _says("there is nothing under this address.", getattr(error, "code", None) or 404)

        def broken(error: Exception) -> Any:
            return _says(INSIDE.format(type(error).__name__), 500)

        app.register_error_handler(Exception, broken)
        app.register_error_handler(HTTPException, unknown)

    # --- addresses

    def _asset(self, name: str) -> Any:
        flask = _flask()
        asset = _assets().get(name)
        if asset is None:
            return _says("there is nothing under this address.", 404)
        packed = bool(asset.packed) and "gzip" in flask.request.headers.get("Accept-Encoding", "")
        headers = {"Cache-Control": YEAR if "v" in flask.request.args else "no-cache", "Vary": "Accept-Encoding"}
        if packed:
            headers["Content-Encoding"] = "gzip"
        return flask.Response(asset.packed if packed else asset.body, mimetype=asset.kind, headers=headers)

    def _asked(self, name: str) -> Any:
        """One question of the page, which `guard` has looked at."""

        def answer() -> Any:
            flask = _flask()
            return flask.jsonify(getattr(self.answers, name)(flask.request.get_json()))

        return answer

    def _csv(self) -> Any:
        flask = _flask()
        key = flask.request.query_string.decode("ascii", "replace")
        try:
            state, found = self.answers.exact("picture", {"key": key, "page": "csv-" + secrets.token_hex(4)})
        except Wrong as error:
            return _says(str(error), 400)
        except (OneheadError, Stopped) as error:
            return _says(str(error) or "the page has moved on.", 422)
        table = io.StringIO()
        csv_rows(table, plain(found.rows))
        headers = {"Content-Disposition": f'attachment; filename="onehead-{state.view}.csv"'}
        return flask.Response(table.getvalue(), mimetype="text/csv", headers=headers)

    def _checkpoint(self) -> Any:
        """Take a file, survey it with the safe reader, and delete it."""
        flask = _flask()
        request = flask.request
        size = request.content_length or 0  # that there is one was looked at before
        request.max_content_length = UPLOAD_LIMIT
        state, wrong = read_state({**request.args.to_dict(), "view": "checkpoint"})
        if "heads" in wrong:
            return _says(wrong["heads"], 400)
        if not UPLOADS.acquire(blocking=False):
            return _says("two files are being read already; try again in a moment.", 503)
        try:
            with tempfile.TemporaryDirectory(prefix="onehead-") as folder:
                path = Path(folder) / "model.safetensors"  # the name on the page never reaches the file system
                if _receive(request.stream, path, size) != size:
                    return _says("the file did not arrive completely.", 400)
                return flask.jsonify(self.answers.survey(path, request.args.get("name", "file"), state["heads"]))
        finally:
            UPLOADS.release()


def _compressed(response: Any, request: Any) -> Any:
    """The answer in fewer bytes, where the browser can read them."""
    small = response.direct_passthrough or (response.content_length or 0) < WORTH
    if small or "Content-Encoding" in response.headers or not response.mimetype.startswith(PACKED):
        return response
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response.set_data(gzip.compress(response.get_data(), 3, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
    return response


def _receive(stream: Any, path: Path, size: int) -> int:
    """Write a body to a file, never more than announced."""
    received = 0
    with path.open("wb") as file:
        while received < size:
            chunk = stream.read(min(CHUNK, size - received))
            if not chunk:
                break
            file.write(chunk)
            received += len(chunk)
    return received


def _says(text: str, code: int) -> Any:
    """An answer that is one sentence."""
    return _flask().Response(sentence(text), status=code, mimetype="application/json")


def _warm(explorer: Explorer) -> None:
    """Draw every view once, so that the first visitor does not wait for compiled code to load."""
    _assets()
    for view in VIEWS.values():
        state, _ = read_state({"view": view.name})
        for panel in view.panels.values():
            panel.sketch(state)
    for n in range(2):
        asked = {"key": "view=curve", "page": f"warm-{n}"}
        threading.Thread(target=explorer.answers.report, args=(asked,), daemon=True).start()


def serve(host: str, port: int, *, store: Path | None = None, base: str = "", ready: Any = None) -> None:
    """Serve until interrupted; ``ready`` is called with the address once pictures are quick."""
    os.environ.setdefault("ONEHEAD_THREADS", "1")  # requests run side by side; each keeps to one core
    hosts = LOOPBACK if host in LOOPBACK else None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)  # before anything else: a taken port is said at once
    explorer = Explorer(store=store, hosts=hosts, base=base)
    try:
        http = explorer.server(listener)
        _warm(explorer)
        if ready is not None:
            ready(f"http://{host if ':' not in host else f'[{host}]'}:{listener.getsockname()[1]}/")
        try:
            http.run()
        finally:
            http.close()
    finally:
        explorer.close()
