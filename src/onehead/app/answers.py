"""What a page may ask, and the answers: plain values, every one with the key of the question that it answers.

A key is the address of a page, after its question mark: the view, its knobs, and the name of a dropped file. It is all a question
says about what is to be solved, so that an answer cannot belong to another question than its key names.
"""

import secrets
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from onehead.app.drawing import described, points
from onehead.app.knobs import KNOBS
from onehead.app.state import State, read_state
from onehead.app.training import Trainer, rounded
from onehead.app.views import VIEWS
from onehead.app.views.base import Number, Picture, failed, refused
from onehead.app.work import BEYOND, Stopped, Workers
from onehead.errors import OneheadError
from onehead.results import plain

__all__ = ["Answers", "Wrong", "drawn", "told_numbers"]

KEPT_FILES = 8  # surveys of dropped files kept in memory, the files themselves never
SKETCHES = threading.BoundedSemaphore(6)  # at once: more would only slow each other down
MARKED = ("alpha", "samples")  # knobs that move a line in the picture and leave its axes alone
SAMPLE = "Random and trained heads"

Question = dict[str, Any]
Told = dict[str, Any]


class Wrong(OneheadError):
    """A knob has a value that is not allowed."""


class Answers:
    """The answers, and what they are made with: workers, the trainer, the surveys of dropped files."""

    def __init__(self, trainer: Trainer, workers: Workers) -> None:
        self.trainer = trainer
        self.workers = workers
        self._files: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._sample = ""

    def read(self, key: str) -> tuple[State, dict[str, str]]:
        """The state a key is about, and the sentences for its bad values."""
        raw = dict(parse_qsl(key, keep_blank_values=True))
        file = raw.pop("file", "")
        state, wrong = read_state(raw)
        wrong = {name: text for name, text in wrong.items() if name in VIEWS[state.view].knobs or name == "view"}
        if state.view == "checkpoint" and file in self._files:
            state = State(state.view, state.values, self._files[file])
        return state, wrong

    # --- the questions

    def draw(self, question: Question) -> Told:
        """The sketch, at once; what the page asked before is not solved any more."""
        self.workers.supersede(question.get("page", ""))
        state, wrong = self.read(question["key"])
        told: Told = {"key": question["key"], "wrong": wrong, "moved": state.moved}
        if wrong and not question.get("first"):
            return told
        try:
            with SKETCHES:
                picture = VIEWS[state.view].sketch(state)
        except (OneheadError, ArithmeticError) as error:
            picture = refused(str(error) if isinstance(error, OneheadError) else BEYOND)
        code = VIEWS[state.view].code(state)
        return told | self._picture(state, picture) | {"python": code.python, "shell": code.shell}

    def report(self, question: Question) -> Told:
        """The numbers and the badge."""
        told: Told = {"key": question["key"]}
        try:
            _, found = self.exact("report", question)
        except Stopped:
            return told | {"stopped": True}
        except OneheadError as error:
            found = failed(error)
        return told | {"badge": plain(list(found.badge)), "numbers": told_numbers(found.numbers)}

    def picture(self, question: Question) -> Told:
        """The exact picture."""
        told: Told = {"key": question["key"]}
        try:
            state, found = self.exact("picture", question)
        except (Stopped, Wrong):
            return told | {"stopped": True}
        except OneheadError as error:
            state, _ = self.read(question["key"])
            instead = refused(str(error))
            return told | {"sentence": str(error), "instead": drawn(state, instead, instead.figure)}
        return told | self._picture(state, found) | {"numbers": told_numbers(found.numbers)}

    def train(self, question: Question) -> Told:
        """Start, cancel or look at the training run."""
        told: Told = {"key": question["key"]}
        wish = question.get("do")
        if wish == "start":
            state, wrong = self.read(question["key"])
            sentence = next(iter(wrong.values()), "")
            if not sentence and not VIEWS[state.view].trains:
                sentence = "this view has nothing to train."
            sentence = sentence or self.trainer.start(state)
            if sentence:
                return told | self.trainer.look() | {"sentence": sentence}
        elif wish == "cancel":
            self.trainer.cancel()
        return told | self.trainer.look()

    def sample(self, question: Question) -> Told:
        """A checkpoint of our own: a layer as it was initialised, and a layer of trained heads."""
        told: Told = {"key": question["key"]}
        if self._sample not in self._files:
            try:
                heads = self.workers.ask("sample", (), page="sample")
            except (OneheadError, Stopped) as error:
                return told | {"sentence": str(error) or "the sample is being made; try again in a moment."}
            self._sample = self.keep(SAMPLE, heads)
        return told | self.kept(self._sample)

    def exact(self, job: str, question: Question) -> tuple[State, Any]:
        """The library's own answer to a question, with the state it is about."""
        state, wrong = self.read(question["key"])
        if wrong:
            raise Wrong(next(iter(wrong.values())))
        key = None if state.extra else (job, state.view, *state.key(*VIEWS[state.view].knobs))
        asked = (state.view, state.values, state.extra)
        return state, self.workers.ask(job, asked, page=question.get("page", ""), key=key)

    # --- files

    def survey(self, path: Path, name: str, heads: int) -> Told:
        """Measure every head of a file, and keep what was measured."""
        try:
            found = self.workers.ask("checkpoint", (str(path), heads), page="file-" + secrets.token_hex(4))
        except (OneheadError, Stopped) as error:
            return {"sentence": _knobbed(str(error))}
        return self.kept(self.keep("".join(c for c in name[:80] if c.isprintable()), found))

    def keep(self, name: str, heads: list[dict[str, Any]]) -> str:
        """Remember the heads of a file under a name that nobody guesses."""
        file = secrets.token_hex(12)
        self._files[file] = {"name": name, "heads": plain(heads)}
        while len(self._files) > KEPT_FILES:
            self._files.popitem(last=False)
        return file

    def kept(self, file: str) -> Told:
        """What a page has to know of a file."""
        found = self._files[file]
        heads = found["heads"]
        layers = 1 + max((head["layer"] for head in heads), default=0)
        return {"file": file, "name": found["name"], "heads": len(heads), "layers": layers}

    # --- pictures

    def _picture(self, state: State, picture: Picture) -> Told:
        """A picture with the training runs that the store has for it."""
        figure = picture.figure
        if VIEWS[state.view].trains and not picture.refusal:
            figure = {**figure, "data": [*figure["data"], *self._runs(state)]}
        return drawn(state, picture, figure)

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


def drawn(state: State, picture: Picture, figure: dict[str, Any]) -> Told:
    """A picture as the page takes it; a zoom is kept as long as the axes mean the same."""
    view = VIEWS[state.view]
    axes = [n for n in view.knobs if KNOBS[n].group == "picture" and n not in MARKED and KNOBS[n].said.kind != "switch"]
    revision = " ".join(str(value) for value in (state.view, *state.key(*axes)))
    shown = {**figure, "layout": {**figure["layout"], "uirevision": revision}}
    return {
        "figure": plain(shown),
        "caption": picture.caption,
        "exact": picture.exact,
        "refusal": picture.refusal,
        "empty": not figure["data"],
        "alt": described(figure, picture.caption),
    }


def told_numbers(numbers: tuple[Number, ...]) -> list[list[str]]:
    """Lines of the panel as plain values."""
    return [list(number) for number in numbers]


def _knobbed(sentence: str) -> str:
    """A sentence of the library in the words of the page: flags and arguments are knobs here."""
    label = KNOBS["heads"].said.label
    for word in ("--heads", "head_count"):
        sentence = sentence.replace(word, f"the knob “{label}”")
    return sentence
