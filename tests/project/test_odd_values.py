"""Odd values of every flag, sweep parameter and field of a config are accepted or refused in one line, without
traceback.
"""

import json
import math
from contextlib import contextmanager, suppress

import click
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.checkpoints import safetensors_bytes
from tests.support.hostile import checkpoint
from tests.support.programs import program

from onehead import aim, sparse
from onehead.cli.main import COMMANDS, cli
from onehead.errors import InvalidArgument, OutsideDomain, SolveError
from onehead.sweep import CALLS, Spec, sweep
from onehead.sweep.executors.dask import Dask
from onehead.sweep.spec_file import RUN_PARAMETERS, SLURM_PARAMETERS, parse_spec
from onehead.weights import survey

ODD_TEXTS = [
    "", " ", "nan", "inf", "-inf", "0", "-1", "1e-300", "1e150", "1e300", "1e400", "9" * 30, "9" * 400, "9" * 5000, "٣", "0x10",
    "1_000", "1,5", "[1,2]", "{}", "true", "None", "0+", "\x1b]0;x\x07", "\u202eabc", "a\nb", "\udcff", "/dev/zero", "log:1:2:3",
    "log:0:1:3", "1:2:99999999999", "log:1e-300:1e300:3", ":::", "x=1", "beta=", "beta=nan", "d^999", "1/d", "x" * 10_000,
]  # fmt: skip
HUGE = 16**6000  # a hexadecimal number of TOML has no limit
ODD_OBJECTS = [
    True, False, 0, -1, HUGE, -HUGE, 1.5, 1e-300, 1e300, math.nan, math.inf, "", "x", "9" * 5000, "0:1:3", "1:2:0", "\x1b[2J", [],
    [[]], [[1.0]], [True], [HUGE], [1, "x"], {}, {"a": 1}, {"a": {"b": []}}, [{}], ["0:1:3"], [math.nan],
]  # fmt: skip


def commands(group=cli, words=()):
    """Every command with its full name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))
        else:
            yield " ".join((*words, name)), found


FLAGS = [
    (name, found, flag) for name, found in commands() for flag in found.params if not getattr(flag, "is_flag", False)
]


def test_every_command_is_covered():
    assert {name.split()[0] for name, _ in commands()} == set(COMMANDS)
    assert len(FLAGS) > 300


@pytest.mark.parametrize(("name", "command", "flag"), FLAGS, ids=[f"{name} {flag.opts[0]}" for name, _, flag in FLAGS])
def test_an_odd_value_of_a_flag_is_read_or_refused(name, command, flag):
    for value in ODD_TEXTS:
        context = click.Context(command, info_name=name)
        with suppress(click.ClickException):
            flag.type_cast_value(context, value if flag.nargs == 1 else (value,))


def toml(value):
    """A value as TOML, hexadecimal where it is an integer."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return hex(value) if value >= 0 else "-1"
    if isinstance(value, float):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return f"{{{', '.join(f'{key} = {toml(item)}' for key, item in value.items())}}}"


PARTS = ["call", "fixed", "grid", "zip", "seeds", "repeats", "run", "slurm"]


@pytest.mark.parametrize("part", PARTS)
def test_an_odd_part_of_a_sweep_file_is_read_or_refused(part):
    for value in ODD_OBJECTS:
        text = "" if part == "call" else 'call = "aim.train"\n'
        with_grid = "" if part in ("grid", "fixed") else "grid = {alpha = [1.0]}\nfixed = {dim = 20}\n"
        read_or_refused(f"{part} = {toml(value)}\n{text}{with_grid}")


@pytest.mark.parametrize("call", CALLS)
def test_an_odd_parameter_of_a_sweep_file_is_read_or_refused(call):
    for name in CALLS[call].parameters:
        for value in ODD_OBJECTS:
            read_or_refused(f'call = "{call}"\n[fixed]\n{name} = {toml(value)}\n')
            if not isinstance(value, dict):
                read_or_refused(f'call = "{call}"\n[grid]\n{name} = {toml(value)}\n')


@pytest.mark.parametrize(
    ("section", "name"), [("run", name) for name in RUN_PARAMETERS] + [("slurm", name) for name in SLURM_PARAMETERS]
)
def test_an_odd_setting_of_a_sweep_file_is_read_or_refused(section, name):
    for value in ODD_OBJECTS:
        read_or_refused(f'call = "sparse.align"\n[{section}]\n{name} = {toml(value)}\n[grid]\nalpha0 = [1.0]\n')


def read_or_refused(text):
    with accepted_or_refused():
        parse_spec(text)


@contextmanager
def accepted_or_refused(kind=InvalidArgument):
    """Allow a refusal, if it is one short line."""
    message = ""
    try:
        yield
    except kind as refusal:
        message = str(refusal)
    assert "\n" not in message and len(message) < 1500


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
@settings(max_examples=150)
def test_any_text_is_a_sweep_file_or_is_refused(text):
    read_or_refused(text)
    read_or_refused(f'call = "sparse.align"\n[grid]\n{text}')


@pytest.mark.parametrize("values", [[True], [np.True_], np.array([True, False]), True])
def test_booleans_are_not_numbers(values):
    one = values if isinstance(values, bool) else values[0]
    for wrong in (
        lambda: aim.Task(noise=one),
        lambda: aim.Task(tokens=one),
        lambda: aim.Learner(weight_decay=one),
        lambda: aim.Atoms(eigenvalues=values),
        lambda: sparse.Protocol(ridge=one),
        lambda: aim.Task.read({"noise": one}),
        lambda: aim.predict(aim.Task(), aim.Learner(), one),
        lambda: aim.curve(aim.Task(), aim.Learner(), values),
        lambda: sweep("sparse.align", {"alpha0": values}),
        lambda: sweep("aim.predict", {"samples": values}, fixed={"target": "power-law"}),
        lambda: parse_spec('call = "sparse.align"\n[grid]\nalpha0 = true\n'),
        lambda: parse_spec('call = "aim.predict"\n[grid]\nalpha = [true]\n'),
    ):
        with pytest.raises(InvalidArgument):
            wrong()


# --- limits of a sweep


def test_a_sweep_has_a_million_points_unless_its_limit_is_raised(tmp_path):
    axes = {"alpha0": "0.1:1:1000", "alpha1": "0.1:1:1001"}
    with pytest.raises(InvalidArgument, match=r"at most 1000000 points; raise its limit .* got 1001000"):
        Spec(call="sparse.align", axes=axes)
    assert len(Spec(call="sparse.align", axes=axes, limit=1_001_000)) == 1_001_000
    grid = '[grid]\nalpha0 = "0.1:1:10"\nalpha1 = "0.1:1:10"\n'
    with pytest.raises(InvalidArgument, match="line 2: grid must be a sweep of at most 99 points"):
        parse_spec(f'call = "sparse.align"\n{grid}[run]\nlimit = 99\n')
    assert len(parse_spec(f'call = "sparse.align"\n{grid}[run]\nlimit = 99\n', limit=100)) == 100
    with pytest.raises(InvalidArgument, match="at most 7 points"):
        sweep("sparse.align", {"alpha0": "1:2:8"}, limit=7)
    for limit in (0, -1, True, 1.5, "9", 10**10):
        with pytest.raises(InvalidArgument, match="limit must be an integer from 1 to 1000000000"):
            sweep("sparse.align", {"alpha0": [1.0]}, limit=limit)


def test_the_limit_is_a_flag_of_check_and_run(tmp_path):
    (tmp_path / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = "1:2:8"\n[run]\nlimit = 7\n')
    store = ("--store", "s.db")
    for words in (("check", "s.toml"), ("run", "s.toml", *store)):
        done = program("sweep", *words, cwd=tmp_path)
        assert done.returncode == 2 and "at most 7 points" in done.stderr
        assert not (tmp_path / "s.db").exists()
    assert (
        program("sweep", "run", "s.toml", *store, "--limit", "8", cwd=tmp_path).stdout
        == "done 8, failed 0, missing 0\n"
    )


def test_files_that_would_take_the_parser_too_long_are_refused():
    for key in ("a." * 100_000 + "a", '"a".' * 50_000 + "a", "'a' . " * 50_000 + "a", f"[{'a.' * 100_000}a]"):
        with pytest.raises(InvalidArgument, match="has too many parts"):
            parse_spec(f'call = "sparse.align"\n{key} = 1\n')
    for fine in ("a" * 300_000, "'" * 300_000, '"' * 300_000, "-" * 300_000, "a-" * 150_000, " ." * 150_000):
        with pytest.raises(InvalidArgument):
            parse_spec(fine)


# --- config.json

CONFIG = (
    "model_type",
    "num_attention_heads",
    "n_head",
    "num_key_value_heads",
    "head_dim",
    "text_config",
    "multi_query",
)


@pytest.mark.parametrize("key", CONFIG)
@pytest.mark.parametrize("family", ["bert", "falcon"])
def test_an_odd_value_of_a_config_is_read_or_refused(tmp_path, family, key):
    file = tmp_path / "model.safetensors"
    if family == "bert":
        checkpoint(file)
    else:
        name = "transformer.h.0.self_attention.query_key_value.weight"
        file.write_bytes(safetensors_bytes({name: np.ones((12, 4), "<f4")}, "F32"))
    for value in [*ODD_OBJECTS, None, ["bert"], {"bert": 1}, 100_000]:
        if value in (HUGE, -HUGE, [HUGE]):
            continue  # cannot be written as JSON
        config = {"num_attention_heads": 2, "model_type": family, key: value}
        (tmp_path / "config.json").write_text(json.dumps(config))
        with accepted_or_refused():
            assert len(survey(file, fit=False)) <= 4


def test_more_heads_than_rows_are_refused(tmp_path):
    checkpoint(tmp_path / "model.safetensors", size=64)
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 100, "model_type": "bert"}))
    with pytest.raises(InvalidArgument, match=r"heads in config.json must be at most 64, the rows of .*; got 100"):
        survey(tmp_path, fit=False)
    (tmp_path / "config.json").unlink()
    with pytest.raises(InvalidArgument, match="head_count must be at most 64"):
        survey(tmp_path, head_count=65, fit=False)
    assert len(survey(tmp_path, head_count=64, fit=False)) == 64


# --- eigenvalues, and values at the limits of double precision

SIZE_LIMITS = (1e-6, 100.0)


@pytest.mark.parametrize("size", SIZE_LIMITS)
@pytest.mark.parametrize("kind", ["atoms", "spikes"])
def test_targets_of_the_smallest_and_largest_size_are_solved(kind, size):
    own = (1.5, 1.0, 0.5, 0.0) if kind == "atoms" else (7.0,)
    own = np.array(own) / math.sqrt(np.mean(np.square(own)) if kind == "atoms" else 1.0)

    def at(size):
        values = tuple((size * own).tolist())
        return aim.Atoms(eigenvalues=values) if kind == "atoms" else aim.Spikes(spikes=values, dim=49)

    def error(target):
        task, learner = aim.Task(target=target), aim.Learner(weight_decay=0.01)
        found = aim.predict(task, learner, alpha=2.0 if size < 1.0 else 0.1)
        assert found.status.startswith("converged")
        return found.test_error

    inside = size * (1.0 + 1e-9 if size < 1.0 else 1.0 - 1e-9)  # within the limits after rounding
    assert at(inside).second_moment == pytest.approx(size**2, rel=1e-8)
    assert 0.0 < error(at(inside)) < 1.0
    if size < 1.0:  # a target too small to matter: labels are noise
        assert error(at(inside)) == pytest.approx(error(at(10.0 * size)), rel=1e-3)  # ten times the accuracy of a point


@pytest.mark.parametrize("size", [1e-300, 1e-160, 9e-7, 101.0, 1e150, 1e300])
def test_targets_of_other_sizes_are_refused(size):
    for wrong in (lambda: aim.Atoms(eigenvalues=(size, -size)), lambda: aim.Spikes(spikes=(7.0 * size,), dim=49)):
        with pytest.raises(InvalidArgument, match="root mean square 1e-06 to 100"):
            wrong()


@pytest.mark.parametrize("words", [{"strength": 1e300}, {"eta_w": 1e300}, {"eta_w": 1e-300}])
def test_values_beyond_double_precision_are_refused(words):
    own = {name: value for name, value in words.items() if name in sparse.Task.model_fields}
    task, plan = sparse.Task(**own), sparse.Protocol(**{k: v for k, v in words.items() if k not in own})
    for verb in (sparse.align, sparse.predict, sparse.capacity):
        with accepted_or_refused(SolveError):
            verb(task, plan)
    with pytest.raises(OutsideDomain, match="too extreme for double precision"):
        sparse.align(sparse.Task(strength=1e300), sparse.Protocol())


@pytest.mark.parametrize(
    "address", ["", "x=1", ":::", "1:2:3", "tcp://", "tcp://x", "a b:1", "\x1b:1", "tcp://x:١", "x:123456"]
)
def test_an_invalid_scheduler_address_is_refused_before_connecting(address):
    with pytest.raises(InvalidArgument, match="address of a running Dask scheduler"):
        sweep("sparse.align", {"alpha0": [1.0]}, on=Dask(address))
    for good in (
        "tcp://127.0.0.1:8786",
        "10.0.0.1:8786",
        "tls://node-1.cluster:8786",
        "tcp://[::1]:8786",
        "inproc://1/2/3",
    ):
        assert Dask(good)
