"""The explorer as a Dash application: four questions a page can ask, two addresses it can fetch, one file it can send."""

import io
import os
import secrets
import socket
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from onehead.app.drawing import narrowed, paint, points
from onehead.app.page import index_page
from onehead.app.safety import (
    BODY_LIMIT,
    LOOPBACK,
    QUESTIONS,
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
from onehead.app.state import State, read_state
from onehead.app.training import Trainer, default_store, rounded
from onehead.app.views import VIEWS
from onehead.app.views.base import Picture, failed, refused
from onehead.app.wire import server_on
from onehead.app.work import BEYOND, INSIDE, Stopped, Workers
from onehead.errors import MissingExtra, OneheadError
from onehead.results import plain
from onehead.sweep.export import csv_rows

__all__ = ["Explorer", "serve"]

KEPT_FILES = 8  # surveys of dropped files kept in memory, the files themselves never
SKETCHES = threading.BoundedSemaphore(6)  # at once: more would only slow each other down
UPLOADS = threading.BoundedSemaphore(UPLOADS_AT_ONCE)
CHUNK = 1 << 20


class Wrong(OneheadError):
    """A knob has a value that is not allowed."""


def _dash() -> Any:
    try:
        import dash  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("dash", "app") from None
    return dash


class Explorer:
    """The application and what it owns: workers, the trainer, the surveys of dropped files."""

    def __init__(
        self, *, store: Path | None = None, hosts: tuple[str, ...] | None = LOOPBACK, workers: int | None = None
    ) -> None:
        self.trainer = Trainer(store if store is not None else default_store())
        self.workers = Workers(workers)
        self._files: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._hosts = hosts
        self.dash = self._build()

    def server(self, listener: socket.socket) -> Any:
        """The application behind a listening socket: ``run()`` serves until Ctrl-C, ``close()`` lets go."""

        def refuse(head: Head) -> Refusal | None:
            return strange(head, self._hosts)

        return server_on(listener, self.dash.server, refuse, self._headers)

    def close(self) -> None:
        """End everything that runs beside the server."""
        self.trainer.cancel()
        self.workers.close()

    # --- the application

    def _build(self) -> Any:
        dash = _dash()
        app = dash.Dash(
            "onehead.app",
            assets_folder=str(Path(__file__).parent / "assets"),
            serve_locally=True,
            update_title="",
            include_pages_meta=False,
            suppress_callback_exceptions=False,
        )
        app.index_string = index_page()
        app.layout = self._layout(dash)
        self._callbacks(app, dash)
        server = app.server
        server.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT
        server.add_url_rule("/data.csv", "data", self._csv)
        server.add_url_rule(UPLOAD, "checkpoint", self._checkpoint, methods=["POST"])
        self._protect(app)
        return app

    @staticmethod
    def _layout(dash: Any) -> Any:
        return dash.html.Div(
            [
                dash.dcc.Graph(
                    id="picture",
                    figure={"data": [], "layout": {"xaxis": {"visible": False}, "yaxis": {"visible": False}}},
                    config={"displaylogo": False, "responsive": True, "displayModeBar": False},
                    responsive=True,
                    style={"height": "100%"},
                ),
                *(dash.dcc.Store(id=f"{way}-{name}") for way in ("ask", "told") for name in QUESTIONS),
                dash.dcc.Store(id="sink"),
            ],
            id="stage",
        )

    def _callbacks(self, app: Any, dash: Any) -> None:
        once = {"prevent_initial_call": True}
        for name, parts in QUESTIONS.items():
            outputs = [dash.Output(*part.split(".")) for part in parts]
            app.callback(*outputs, dash.Input(f"ask-{name}", "data"), **once)(getattr(self, name))
        told = [dash.Input(f"told-{name}", "data") for name in QUESTIONS]
        app.clientside_callback(dash.ClientsideFunction("onehead", "told"), dash.Output("sink", "data"), *told, **once)

    def _protect(self, app: Any) -> None:
        """Refuse early, answer errors with a sentence, and add the headers to everything."""
        from dash.exceptions import DashException  # noqa: PLC0415
        from flask import request  # noqa: PLC0415
        from werkzeug.exceptions import HTTPException  # noqa: PLC0415

        server = app.server
        headers = self._headers = security_headers(app.csp_hashes())

        @server.before_request  # type: ignore[untyped-decorator]
        def refuse() -> Any:
            refusal = guard(request, self._hosts)
            return _says(*refusal) if refusal is not None else None

        @server.after_request  # type: ignore[untyped-decorator]
        def harden(response: Any) -> Any:
            response.headers.update(headers)
            return response

        def unknown(error: Any) -> Any:
            return _says("there is nothing under this address.", getattr(error, "code", None) or 404)

        def broken(error: Exception) -> Any:
            return _says(INSIDE.format(type(error).__name__), 500)

        server.register_error_handler(Exception, broken)
        server.register_error_handler(HTTPException, unknown)
        server.register_error_handler(DashException, unknown)

    # --- the questions of a page

    def _state(self, question: dict[str, Any]) -> tuple[State, dict[str, str], str]:
        """The state a question is about, the sentences for its bad values, and the page it comes from."""
        raw = question.get("query")
        state, wrong = read_state(raw if isinstance(raw, dict) else {})
        wrong = {name: text for name, text in wrong.items() if name in VIEWS[state.view].knobs or name == "view"}
        file = question.get("file")
        if state.view == "checkpoint" and isinstance(file, str) and file in self._files:
            state = State(state.view, state.values, self._files[file])
        page = question.get("page")
        return state, wrong, page if isinstance(page, str) and len(page) <= 40 else ""

    def draw(self, question: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The sketch, at once."""
        dash = _dash()
        state, wrong, _ = self._state(question)
        told = {"n": _number(question), "wrong": wrong, "query": state.query(), "moved": state.moved}
        if wrong and not question.get("first"):
            return dash.no_update, told
        try:
            with SKETCHES:
                picture = VIEWS[state.view].sketch(state)
        except (OneheadError, ArithmeticError) as error:
            picture = refused(str(error) if isinstance(error, OneheadError) else BEYOND)
        code = VIEWS[state.view].code(state)
        told |= {"caption": picture.caption, "exact": picture.exact, "python": code.python, "shell": code.shell}
        return self._figure(state, picture, question), told

    def report(self, question: dict[str, Any]) -> dict[str, Any]:
        """The numbers and the badge."""
        told: dict[str, Any] = {"n": _number(question)}
        try:
            _, found = self._exact("report", question)
        except Stopped:
            return told | {"stopped": True}
        except OneheadError as error:
            found = failed(error)
        return told | {"badge": list(found.badge), "numbers": [list(number) for number in found.numbers]}

    def picture(self, question: dict[str, Any]) -> dict[str, Any]:
        """The exact picture."""
        told: dict[str, Any] = {"n": _number(question)}
        try:
            state, found = self._exact("picture", question)
        except (Stopped, Wrong):
            return told | {"stopped": True}
        except OneheadError as error:
            return told | {"sentence": str(error)}
        return told | {
            "figure": self._figure(state, found, question),
            "caption": found.caption,
            "numbers": [list(number) for number in found.numbers],
        }

    def train(self, question: dict[str, Any]) -> dict[str, Any]:
        """Start, cancel or look at the training run."""
        told: dict[str, Any] = {"n": _number(question)}
        wish = question.get("do")
        if wish == "start":
            state, wrong, _ = self._state(question)
            sentence = next(iter(wrong.values()), "")
            if not sentence and not VIEWS[state.view].trains:
                sentence = "this view has nothing to train."
            sentence = sentence or self.trainer.start(state)
            if sentence:
                return told | self.trainer.look() | {"sentence": sentence}
        elif wish == "cancel":
            self.trainer.cancel()
        return told | self.trainer.look()

    def _exact(self, job: str, question: dict[str, Any]) -> tuple[State, Any]:
        """The library's own answer to a question, with the state it is about."""
        state, wrong, page = self._state(question)
        if wrong:
            raise Wrong(next(iter(wrong.values())))
        key = None if state.view == "checkpoint" else (job, state.view, *state.key(*VIEWS[state.view].knobs))
        return state, self.workers.ask(job, (state.view, state.values, state.extra), page=page, key=key)

    def _figure(self, state: State, picture: Picture, question: dict[str, Any]) -> Any:
        """The figure in the colours of the page, with the training runs that the store has for it."""
        figure = picture.figure
        if VIEWS[state.view].trains:
            figure = {**figure, "data": [*figure["data"], *self._runs(state)]}
        if question.get("narrow") is True:
            figure = narrowed(figure)
        theme = question.get("theme")
        figure = paint(figure, theme if theme in ("light", "dark") else "light")
        figure["layout"]["meta"] = {"n": _number(question), "exact": picture.exact}
        return plain(figure)

    def _runs(self, state: State) -> list[dict[str, Any]]:
        """Markers with error bars: test error above, rank below."""
        runs = self.trainer.runs(state)
        traces = []
        for dim in sorted({run.dim for run in runs}):
            own = [run for run in runs if run.dim == dim]
            seeds = sorted({run.seeds for run in own})
            counted = f"{seeds[0] if len(seeds) == 1 else f'{seeds[0]} to {seeds[-1]}'} seeds"
            name = f"trained, d = {dim}, {rounded(state, dim)}{counted}"
            x = [run.alpha for run in own]
            for quantity, panel in (("test_error", "y"), ("rank", "y2")):
                y, error = [run.mean[quantity] for run in own], [run.error[quantity] for run in own]
                traces.append(points(x, y, name, error=error, size=7, yaxis=panel, showlegend=panel == "y"))
        return traces

    # --- addresses

    def _csv(self) -> Any:
        from flask import Response, request  # noqa: PLC0415

        raw = request.args.to_dict()
        question = {"query": raw, "file": raw.pop("file", None), "page": "csv-" + secrets.token_hex(4)}
        try:
            state, found = self._exact("picture", question)
        except Wrong as error:
            return _says(str(error), 400)
        except (OneheadError, Stopped) as error:
            return _says(str(error) or "the page has moved on.", 422)
        table = io.StringIO()
        csv_rows(table, plain(found.rows))
        headers = {"Content-Disposition": f'attachment; filename="onehead-{state.view}.csv"'}
        return Response(table.getvalue(), mimetype="text/csv", headers=headers)

    def _checkpoint(self) -> Any:
        """Take a file, survey it with the safe reader, and delete it."""
        from flask import request  # noqa: PLC0415

        size = request.content_length or 0  # that there is one was looked at before
        request.max_content_length = UPLOAD_LIMIT
        state, wrong, _ = self._state({"query": {**request.args.to_dict(), "view": "checkpoint"}})
        if wrong:
            return _says(next(iter(wrong.values())), 400)
        if not UPLOADS.acquire(blocking=False):
            return _says("two files are being read already; try again in a moment.", 503)
        try:
            return self._survey(request, size, state["heads"])
        finally:
            UPLOADS.release()

    def _survey(self, request: Any, size: int, heads_wanted: int) -> Any:
        """The heads of the file in a request."""
        from flask import jsonify  # noqa: PLC0415

        with tempfile.TemporaryDirectory(prefix="onehead-") as folder:
            path = Path(folder) / "model.safetensors"  # the name on the page never reaches the file system
            if _receive(request.stream, path, size) != size:
                return _says("the file did not arrive completely.", 400)
            try:
                heads = self.workers.ask("checkpoint", (str(path), heads_wanted), page="file-" + secrets.token_hex(4))
            except (OneheadError, Stopped) as error:
                return _says(str(error), 200)  # the request was fine; what the file lacks is said on the page
        name = secrets.token_hex(12)
        shown = "".join(c for c in request.args.get("name", "file")[:80] if c.isprintable())
        self._files[name] = {"name": shown, "heads": plain(heads)}
        while len(self._files) > KEPT_FILES:
            self._files.popitem(last=False)
        return jsonify({"file": name, "heads": len(heads), "layers": 1 + max((h["layer"] for h in heads), default=0)})


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


def _number(question: dict[str, Any]) -> int:
    """The number a page gave its question."""
    n = question.get("n")
    return n if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**53 else 0


def _says(text: str, code: int) -> Any:
    """An answer that is one sentence."""
    from flask import Response  # noqa: PLC0415

    return Response(sentence(text), status=code, mimetype="application/json")


def _warm(explorer: Explorer) -> None:
    """Draw every view once, so that the first visitor does not wait for compiled code to load."""
    for view in VIEWS.values():
        state, _ = read_state({"view": view.name})
        for panel in view.panels.values():
            panel.sketch(state)
    for _ in range(2):
        threading.Thread(target=explorer.report, args=({"query": {"view": "curve"}},), daemon=True).start()


def serve(host: str, port: int, *, store: Path | None = None, ready: Any = None) -> None:
    """Serve until interrupted; ``ready`` is called with the address once pictures are quick."""
    os.environ.setdefault("ONEHEAD_THREADS", "1")  # requests run side by side; each keeps to one core
    hosts = LOOPBACK if host in LOOPBACK else None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)  # before anything else: a taken port is said at once
    explorer = Explorer(store=store, hosts=hosts)
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
