"""Reasons why mutants survive: they name files and functions that exist."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_reasons_are_given_for_functions_that_exist():
    reasons = tomllib.loads((ROOT / "checks" / "survivors.toml").read_text(encoding="utf-8"))
    assert reasons
    for file, functions in reasons.items():
        tree = ast.parse((ROOT / "src" / "onehead" / file).read_text(encoding="utf-8"))
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert set(functions) <= defined, file
