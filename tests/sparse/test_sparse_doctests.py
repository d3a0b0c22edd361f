"""Every example in a docstring of the room says what it shows."""

import doctest
import importlib
import pkgutil

import pytest

import onehead.sparse

MODULES = [f"onehead.sparse.{module.name}" for module in pkgutil.iter_modules(onehead.sparse.__path__)]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_main_verbs_have_examples():
    for verb in (
        "align",
        "capacity",
        "compare",
        "curve",
        "finite_size",
        "landscape",
        "oracle",
        "predict",
        "train",
        "tune",
    ):
        assert ">>>" in getattr(onehead.sparse, verb).__doc__
