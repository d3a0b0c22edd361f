"""Handlers of the questions of a page. Every answer is a dictionary of plain values with the key of its question.

A key is the query of the address of a page: the view, its knobs, and the identifier of an uploaded file. It alone
determines what is solved, so an answer always belongs to the question that its key names.
"""

import secrets
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from onehead.app.drawing import alt_text, points
from onehead.app.knobs import KNOBS
from onehead.app.refusals import explain
from onehead.app.server.training_jobs import TrainedPoint, Trainer, realised_widths
from onehead.app.server.workers import TOO_EXTREME, Superseded, Workers
from onehead.app.state import State, read_state
from onehead.app.views import VIEWS
from onehead.app.views.base import Number, Picture, failure_report, refusal_picture
from onehead.errors import OneheadError
from onehead.results import plain

MAX_SURVEYS = 8  # surveys of uploaded files in memory; the files themselves are deleted
DRAFT_SLOTS = threading.BoundedSemaphore(6)  # drafts at once; more would slow each other down
MARKED_POINT_KNOBS = ("alpha", "samples")  # knobs that move a line in the picture and leave its axes alone
SAMPLE_NAME = "Random and trained heads"

Question = dict[str, Any]
Answer = dict[str, Any]


class InvalidKnob(OneheadError):
    """A knob has a value that is refused."""


class Handlers:
    """Handlers of questions, one method for each kind, with workers, training job and surveys of uploaded files."""

    def __init__(self, trainer: Trainer, workers: Workers) -> None:
        self.trainer = trainer
        self.workers = workers
        self._files: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._sample = ""

    def read(self, key: str) -> tuple[State, dict[str, str]]:
        """Return the state that a key describes, and a sentence for every refused knob of its view."""
        raw = dict(parse_qsl(key, keep_blank_values=True))
        file = raw.pop("file", "")
        state, wrong = read_state(raw)
        wrong = {name: text for name, text in wrong.items() if name in VIEWS[state.view].knobs or name == "view"}
        if state.view == "checkpoint" and file in self._files:
            state = State(state.view, state.values, self._files[file])
        return state, wrong

    # --- the questions

    def draw(self, question: Question) -> Answer:
        """Return a draft at once, and supersede the older questions of the page."""
        self.workers.supersede(question.get("page", ""))
        state, wrong = self.read(question["key"])
        answer: Answer = {"key": question["key"], "wrong": wrong, "adjusted": state.adjusted}
        if wrong and not question.get("first"):
            return answer
        try:
            with DRAFT_SLOTS:
                picture = VIEWS[state.view].draft(state)
        except (OneheadError, ArithmeticError) as error:
            picture = refusal_picture(explain(error) if isinstance(error, OneheadError) else TOO_EXTREME)
        code = VIEWS[state.view].code(state)
        answer |= self._picture(state, picture) | {"python": code.python, "shell": code.shell}
        return answer | ({"numbers": number_rows(picture.numbers)} if picture.numbers else {})

    def report(self, question: Question) -> Answer:
        """Return the numbers and the badge."""
        answer: Answer = {"key": question["key"]}
        try:
            _, found = self.exact("report", question)
        except Superseded:
            return answer | {"superseded": True}
        except OneheadError as error:
            found = failure_report(error)
        return answer | {"badge": plain(list(found.badge)), "numbers": number_rows(found.numbers)}

    def picture(self, question: Question) -> Answer:
        """Return the exact picture."""
        answer: Answer = {"key": question["key"]}
        try:
            state, found = self.exact("picture", question)
        except (Superseded, InvalidKnob):
            return answer | {"superseded": True}
        except OneheadError as error:
            state, _ = self.read(question["key"])
            instead = refusal_picture(explain(error))
            return answer | {"sentence": instead.refusal, "instead": picture_answer(state, instead, instead.figure)}
        return answer | self._picture(state, found) | {"numbers": number_rows(found.numbers)}

    def train(self, question: Question) -> Answer:
        """Start or cancel the training job, and return its status."""
        answer: Answer = {"key": question["key"]}
        command = question.get("do")
        if command == "start":
            state, wrong = self.read(question["key"])
            sentence = next(iter(wrong.values()), "")
            if not sentence and not VIEWS[state.view].trains:
                sentence = "This view has nothing to train."
            sentence = sentence or self.trainer.start(state)
            if sentence:
                return answer | self.trainer.status() | {"sentence": sentence}
        elif command == "cancel":
            self.trainer.cancel()
        return answer | self.trainer.status()

    def sample(self, question: Question) -> Answer:
        """Return a sample checkpoint: a layer of heads at their initialisation, and a layer of trained heads."""
        answer: Answer = {"key": question["key"]}
        if self._sample not in self._files:
            try:
                heads = self.workers.ask("sample", (), page="sample")
            except (OneheadError, Superseded) as error:
                return answer | {"sentence": str(error) or "The sample is being made; try again in a moment."}
            self._sample = self.remember(SAMPLE_NAME, heads)
        return answer | self.file_answer(self._sample)

    def exact(self, job: str, question: Question) -> tuple[State, Any]:
        """Return the state of a question and its exact answer, computed by a worker."""
        state, wrong = self.read(question["key"])
        if wrong:
            raise InvalidKnob(next(iter(wrong.values())))
        key = None if state.extra else (job, state.view, *state.key(*VIEWS[state.view].knobs))
        argument = (state.view, state.values, state.extra)
        return state, self.workers.ask(job, argument, page=question.get("page", ""), key=key)

    # --- files

    def survey(self, path: Path, name: str, heads: int) -> Answer:
        """Measure every head of a file and remember the result."""
        try:
            found = self.workers.ask("checkpoint", (str(path), heads), page="file-" + secrets.token_hex(4))
        except (OneheadError, Superseded) as error:
            return {"sentence": str(error) or "The upload was cancelled."}
        return self.file_answer(self.remember("".join(c for c in name[:80] if c.isprintable()), found))

    def remember(self, name: str, heads: list[dict[str, Any]]) -> str:
        """Remember the measured heads of a file and return a random identifier, which cannot be guessed."""
        file = secrets.token_hex(12)
        self._files[file] = {"name": name, "heads": plain(heads)}
        while len(self._files) > MAX_SURVEYS:
            self._files.popitem(last=False)
        return file

    def file_answer(self, file: str) -> Answer:
        """Return name, number of heads and number of layers of a remembered file."""
        found = self._files[file]
        heads = found["heads"]
        layers = 1 + max((head["layer"] for head in heads), default=0)
        return {"file": file, "name": found["name"], "heads": len(heads), "layers": layers}

    # --- pictures

    def _picture(self, state: State, picture: Picture) -> Answer:
        """Return a picture together with the stored training runs that belong to it."""
        figure = picture.figure
        if VIEWS[state.view].trains and not picture.refusal:
            figure = {**figure, "data": [*figure["data"], *trained_traces(state, self.trainer.trained_points(state))]}
        return picture_answer(state, picture, figure)


def trained_traces(state: State, trained: list[TrainedPoint]) -> list[dict[str, Any]]:
    """Return the training runs as markers with error bars: test error above, rank below."""
    traces = []
    for dim in sorted({point.dim for point in trained}):
        own = [point for point in trained if point.dim == dim]
        seeds = sorted({point.seeds for point in own})
        counted = f"{seeds[0] if len(seeds) == 1 else f'{seeds[0]} to {seeds[-1]}'} seeds"
        name = f"trained, d = {dim}, {realised_widths(state, dim)}{counted}"
        x = [point.alpha for point in own]
        for quantity, panel in (("test_error", "y"), ("rank", "y2")):
            y, error = [point.mean[quantity] for point in own], [point.error[quantity] for point in own]
            traces.append(points(x, y, name, error=error, size=7, yaxis=panel, showlegend=panel == "y"))
    return traces


def picture_answer(state: State, picture: Picture, figure: dict[str, Any]) -> Answer:
    """Return a picture as the page expects it; plotly keeps the zoom while ``uirevision`` is unchanged."""
    view = VIEWS[state.view]
    axes = [
        n
        for n in view.knobs
        if KNOBS[n].group == "picture" and n not in MARKED_POINT_KNOBS and KNOBS[n].parameter.kind != "switch"
    ]
    revision = " ".join(str(value) for value in (state.view, *state.key(*axes)))
    with_revision = {**figure, "layout": {**figure["layout"], "uirevision": revision}}
    return {
        "figure": plain(with_revision),
        "caption": picture.caption,
        "exact": picture.exact,
        "seconds": round(picture.seconds, 2),
        "refusal": picture.refusal,
        "missing": picture.missing,
        "empty": not figure["data"],
        "alt": alt_text(figure, picture.caption),
    }


def number_rows(numbers: tuple[Number, ...]) -> list[list[str]]:
    """Return the rows of the table of numbers as plain lists."""
    return [list(number) for number in numbers]
