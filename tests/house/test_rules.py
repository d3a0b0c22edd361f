"""The house rules: light import, arrows that point one way, results that hold what they promise."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.support.programs import python

import onehead
from onehead.errors import InvalidArgument, MissingExtra, SolveError
from onehead.results import Certificate, Result

SOURCE = Path(onehead.__file__).parent

# a room may import the rooms on its right, and itself
FOUNDATION = (
    "text", "files", "errors", "renamed", "lazy", "fields", "problem", "arguments", "shown", "results", "best", "measured",
)  # fmt: skip
THEORY = (*FOUNDATION, "maps", "numerics", "spectra")
ROOMS = {
    "text": (),
    "files": ("errors",),
    "errors": ("text",),
    "renamed": (),
    "lazy": ("renamed", "text"),
    "fields": (),
    "arguments": ("errors", "text"),
    "problem": ("fields", "arguments", "errors", "text"),
    "shown": ("errors",),
    "results": ("shown", "errors", "text"),
    "best": ("results",),
    "citation": ("text", "__version__"),
    "measured": ("results", "errors"),
    "maps": ("results", "arguments", "fields", "errors", "numerics"),
    "numerics": ("errors",),
    "spectra": ("numerics", "errors"),
    "aim": THEORY,
    "sparse": THEORY,
    "weights": (*THEORY, "aim"),
    "plot": (*FOUNDATION, "maps", "aim", "sparse", "weights"),
    "sweep": (*THEORY, "aim", "sparse", "__version__"),
    "figures": (*THEORY, "aim", "sparse", "sweep", "weights", "plot", "__version__"),
    "app": (*THEORY, "aim", "sparse", "sweep", "weights", "plot", "citation", "__version__"),
    "cli": (*THEORY, "aim", "sparse", "sweep", "weights", "plot", "figures", "app", "citation", "__version__"),
    "__main__": ("cli",),
}
# within the room of a theory, too: equations know nothing of solving, solving nothing of the verbs, verbs nothing of training
STAIRS = ("equations", "solve", "verbs", "sketch", "training")
HEAVY = ("matplotlib", "pandas", "flask", "plotly", "distributed", "dask", "torch", "jax", "rich", "click")


def imports(path):
    """(name, inside a function or a type-checking block) for every import in a file."""
    tree = ast.parse(path.read_text())
    lazy = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.If))
        for child in ast.walk(node)
        if child is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in lazy
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "onehead":
                for alias in node.names:
                    yield f"onehead.{alias.name}", id(node) in lazy
            else:
                yield node.module, id(node) in lazy


def files():
    return [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_arrows_point_one_way(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    allowed = {room, *ROOMS[room]}
    for name, _ in imports(path):
        if name.startswith("onehead."):
            assert name.split(".")[1] in allowed, f"{room} must not import {name}"


@pytest.mark.parametrize("half", ["aim", "sparse"])
def test_stairs_of_a_theory_lead_one_way(half):
    for path in sorted((SOURCE / half).rglob("*.py")):
        own = path.relative_to(SOURCE / half).parts[0]
        below = STAIRS[: STAIRS.index(own) + 1] if own in STAIRS else ()
        for name, _ in imports(path):
            stair = (name.removeprefix(f"onehead.{half}.").split(".")[0]) if name.startswith(f"onehead.{half}.") else ""
            assert stair not in STAIRS or stair in below, f"{path.relative_to(SOURCE)} must not import {name}"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_theory_neither_prints_nor_draws(path):
    if path.relative_to(SOURCE).parts[0] not in ("numerics", "spectra", "aim", "sparse", "results.py", "problem.py"):
        return
    for name, lazy in imports(path):
        if name.split(".")[0] in HEAVY:
            assert name == "pandas" and lazy, f"{path.name} imports {name}"


@pytest.mark.parametrize(
    ("room", "heavy"),
    [
        ("onehead", (*HEAVY, "numba", "scipy", "pydantic", "numpy")),
        ("onehead.aim", HEAVY),
        ("onehead.sparse", (*HEAVY, "numba", "scipy.optimize", "scipy.stats")),
    ],
)
def test_import_is_light(room, heavy):
    code = "import sys; from importlib import import_module; import_module(sys.argv[1]); print(*sys.modules)"
    assert [name for name in python(code, room).split() if name in heavy or name.split(".")[0] in heavy] == []


def test_public_names_exist():
    for room in ("aim", "errors", "plot", "sparse", "sweep", "weights"):
        module = getattr(onehead, room)
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'aimm'"):
        _ = onehead.aimm
    assert "aim" in dir(onehead)


def test_results_become_plain_values():
    @dataclass(frozen=True, kw_only=True)
    class Sample(Result):
        number: float
        values: object
        certificate: Certificate

    result = Sample(
        number=float("inf"),
        values={"a": np.arange(2.0), "b": np.float64("nan"), "c": (1, None, "x")},
        certificate=Certificate(status="fine", kind="claim"),
    )
    row = result.to_dict()
    assert row["number"] is None
    assert row["values"] == {"a": [0.0, 1.0], "b": None, "c": [1, None, "x"]}
    assert row["status"] == "fine"
    assert json.loads(result.to_json()) == row
    assert result.to_series()["values.b"] is None


def test_results_show_themselves_in_a_notebook():
    point = onehead.aim.predict(onehead.aim.Task(), onehead.aim.Learner(), 0.5)
    html = point._repr_html_()
    assert "converged" in html
    assert "claim" in html
    assert "0.13599" in html
    assert "more</td>" in html

    @dataclass(frozen=True, kw_only=True)
    class Sample(Result):
        number: float
        certificate: Certificate

    shown = Sample(number=2.0, certificate=Certificate(status="<b>", kind="claim", warnings=("a & b",)))._repr_html_()
    assert "&lt;b&gt;" in shown  # words of a certificate are text, not markup
    assert "a &amp; b" in shown


def test_errors_say_what_is_allowed():
    assert str(InvalidArgument("x", 3, "a number < 2")) == "x must be a number < 2; got 3."
    assert "pip install 'onehead[app]'" in str(MissingExtra("flask", "app"))
    assert issubclass(InvalidArgument, ValueError)
    assert SolveError("no.", residual=0.1).residual == 0.1
