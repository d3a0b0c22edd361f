"""Rules of the code base: imports in one direction, light imports, no output from the theory, serialisable results."""

import ast
import inspect
import json
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import numpy as np
import pytest
from tests.support.programs import python

import onehead
from onehead.errors import InvalidArgument, MissingExtra, SolveError
from onehead.results import Certificate, Result

SOURCE = Path(onehead.__file__).parent

# a part of the package may import itself and the parts listed for it
FOUNDATION = (
    "sanitize", "atomic_io", "errors", "deprecation", "approximation", "lazy", "fields", "problem", "validation",
    "results",
)  # fmt: skip
THEORY = (*FOUNDATION, "numerics", "spectra")
PARTS = {
    "sanitize": (),
    "atomic_io": ("errors",),
    "errors": ("sanitize",),
    "deprecation": (),
    "approximation": ("deprecation", "errors"),
    "lazy": ("deprecation", "sanitize"),
    "fields": (),
    "validation": ("approximation", "errors", "numerics", "sanitize"),
    "problem": ("fields", "validation", "errors", "sanitize"),
    "results": ("validation", "fields", "errors", "numerics", "sanitize"),
    "citation": ("sanitize", "__version__"),
    "numerics": ("errors",),
    "spectra": ("numerics", "errors"),
    "aim": THEORY,
    "sparse": THEORY,
    "weights": (*THEORY, "aim"),
    "plot": (*FOUNDATION, "aim", "sparse", "weights"),
    "sweep": (*THEORY, "aim", "sparse", "__version__"),
    "figures": (*THEORY, "aim", "sparse", "sweep", "weights", "plot", "__version__"),
    "app": (*THEORY, "aim", "sparse", "sweep", "weights", "plot", "citation", "__version__"),
    "cli": (*THEORY, "aim", "sparse", "sweep", "weights", "plot", "figures", "app", "citation", "__version__"),
    "__main__": ("cli",),
}
# the layers of a theory, lowest first: a module imports its own layer and those before it
LAYERS = (
    "kernels", "logits", "losses", "targets", "task", "flat_parameters", "theory", "solve", "verbs", "training",
)  # fmt: skip
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
def test_packages_import_in_one_direction(path):
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    allowed = {part, *PARTS[part]}
    for name, _ in imports(path):
        if name.startswith("onehead."):
            assert name.split(".")[1] in allowed, f"{part} must not import {name}"


@pytest.mark.parametrize("theory", ["aim", "sparse"])
def test_layers_of_a_theory_import_downwards(theory):
    for path in sorted((SOURCE / theory).rglob("*.py")):
        own = path.relative_to(SOURCE / theory).parts[0].removesuffix(".py")
        below = LAYERS[: LAYERS.index(own) + 1] if own in LAYERS else ()
        for name, _ in imports(path):
            layer = (
                name.removeprefix(f"onehead.{theory}.").split(".")[0] if name.startswith(f"onehead.{theory}.") else ""
            )
            assert layer not in LAYERS or layer in below, f"{path.relative_to(SOURCE)} must not import {name}"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_theory_neither_prints_nor_draws(path):
    if path.relative_to(SOURCE).parts[0] not in (
        "numerics",
        "spectra",
        "aim",
        "sparse",
        "results",
        "problem.py",
    ):
        return
    for name, lazy in imports(path):
        if name.split(".")[0] in HEAVY:
            assert name == "pandas" and lazy, f"{path.name} imports {name}"


@pytest.mark.parametrize(
    ("package", "heavy"),
    [
        ("onehead", (*HEAVY, "numba", "scipy", "pydantic", "numpy")),
        ("onehead.aim", HEAVY),
        ("onehead.sparse", (*HEAVY, "numba", "scipy.optimize", "scipy.stats")),
    ],
)
def test_import_is_light(package, heavy):
    code = "import sys; from importlib import import_module; import_module(sys.argv[1]); print(*sys.modules)"
    assert [name for name in python(code, package).split() if name in heavy or name.split(".")[0] in heavy] == []


# abstract classes whose subclasses are kinds: who needs to know a kind asks the object, not its class
KINDS = ("Block", "Target", "OutputChannel", "InputChannel", "Directions", "Loss", "Parametrisation")


def classes_of_theory():
    """Every class that is defined in `onehead.aim`."""
    modules = [import_module(found.name) for found in walk_packages(onehead.aim.__path__, "onehead.aim.")]
    return {
        found
        for module in modules
        for found in vars(module).values()
        if inspect.isclass(found) and found.__module__.startswith("onehead.aim")
    }


def test_the_theory_does_not_ask_for_kinds():
    """`isinstance` on a kind of block, target, channel, loss or parametrisation: what differs belongs to the class."""
    classes = classes_of_theory()
    kinds = {
        found.__name__ for found in classes for base in found.__mro__[1:] if base.__name__ in KINDS and base in classes
    }
    assert {"Row", "Discrete", "SectorOutput", "Factorised"} <= kinds
    for path in sorted((SOURCE / "aim").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass", "type"):
                names = {part.id for argument in node.args[1:] for part in ast.walk(argument) if hasattr(part, "id")}
                assert not names & kinds, f"{path.relative_to(SOURCE)}:{node.lineno} asks for {names & kinds}"


# concrete methods and properties that a class replaces, and why
REPLACED = {
    ("Discrete", "values"): "a target of one's own states only what differs from a limiting law (docs/extend.md)",
    ("Discrete", "atoms"): "as `values`",
    ("Discrete", "draw"): "as `values`",
    ("Discrete", "excess_kurtosis"): "as `values`",
    ("Discrete", "mean"): "as `values`",
    ("Discrete", "free_eigenvector_share"): "as `values`",
    ("Discrete", "free_singular_vector_share"): "as `values`",
    ("Discrete", "unsigned"): "as `values`",
    ("Discrete", "unrepresentable_spectrum"): "as `values`",
    ("MarchenkoPastur", "draw"): "as `values`",
    ("MarchenkoPastur", "at_dimension"): "as `values`",
    ("Product", "draw"): "as `values`",
    ("Product", "at_dimension"): "as `values`",
    ("Product", "within_subspace"): "as `values`",
    ("CrossEntropy", "pair"): "a loss of one's own has one static method; all others have a default (docs/channel.md)",
    ("CrossEntropy", "response"): "as `pair`",
    ("CrossEntropy", "fresh_formula"): "as `pair`",
    ("CrossEntropy", "pair_losses"): "as `pair`",
    ("Squared", "pair"): "as `pair`",
    ("Squared", "response"): "as `pair`",
    ("Squared", "fresh_formula"): "as `pair`",
    ("Squared", "pair_losses"): "as `pair`",
    ("Squared", "single_minimum_sigma"): "as `pair`",
    ("LevelledSingularValues", "sampled_maps"): "the only channel that sampled maps replace; all others have none",
}


def test_no_concrete_method_is_replaced():
    """A class is abstract or final; variants are data. Exceptions have a reason."""
    classes, replaced = classes_of_theory(), set()
    for found in classes:
        for name, member in vars(found).items():
            method = inspect.isroutine(member) or isinstance(member, (property, cached_property, staticmethod))
            if name.startswith("__") or not method:
                continue
            base = next((base for base in found.__mro__[1:] if base in classes and name in vars(base)), None)
            if base is not None and not getattr(vars(base)[name], "__isabstractmethod__", False):
                replaced.add((found.__name__, name))
    assert replaced == set(REPLACED)
    parents = {base for found in classes for base in found.__mro__[1:]} & classes
    for found in classes - parents:
        if parents & set(found.__mro__) and found.__module__.startswith(("onehead.aim.theory", "onehead.aim.logits")):
            assert getattr(found, "__final__", False), f"{found.__name__} is neither abstract nor final"


def test_public_names_exist():
    for package in ("aim", "errors", "plot", "sparse", "sweep", "weights"):
        module = getattr(onehead, package)
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


def test_results_have_an_html_table():
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
    assert "&lt;b&gt;" in shown  # text of a certificate is escaped
    assert "a &amp; b" in shown


def test_error_messages_name_what_is_allowed():
    assert str(InvalidArgument("x", 3, "a number < 2")) == "x must be a number < 2; got 3."
    assert "pip install 'onehead[app]'" in str(MissingExtra("flask", "app"))
    assert issubclass(InvalidArgument, ValueError)
    assert SolveError("no.", residual=0.1).residual == 0.1
