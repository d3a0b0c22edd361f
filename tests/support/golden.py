"""Golden files of the interface: every help text, the JSON of every command, knobs, and keys of stored points.

`python -m tests.support.golden` lists the differences from the files in ``tests/golden``, to the last bit; with
``--write`` it writes the files anew. An intended change is then visible as a difference in review.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from click.testing import CliRunner

from onehead.cli.main import cli
from tests.support.checkpoints import safetensors_bytes

HERE = Path(__file__).parents[1] / "golden"
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
VOLATILE = {"finished_at", "duration", "host", "version", "started_at", "slowest", "process"}

# one line per command, for small problems; names, order, texts and numbers of the answers are compared
COMMANDS = """
aim predict --alpha 0.5
aim predict --alpha 0.5 --param direct
aim predict --alpha 0.5 --width 0.3
aim predict --alpha 0.01
aim predict --alpha 0.1 --weight-decay 0+
aim predict --alpha 0.4 --weight-decay 0+
aim predict --alpha 0.1 --weight-decay 0+ --param direct
aim predict --alpha 0.4 --weight-decay 0+ --noise 0
aim predict --alpha 0.5 --loss cross-entropy --beta 2 --beta0 1.5
aim predict --alpha 0.5 --beta 2 --beta0 1.5 --param direct
aim predict --alpha 0.5 --tokens 3
aim predict --alpha 0.3 --weight-decay 0.001 --branch global
aim predict --target power-law --gamma 0.75 --dim 50 --samples 2000 --weight-decay 1/d
aim predict --target spikes --spikes 6,3,1.8 --dim 60 --alpha 0.4
aim predict --target atoms --atoms atoms.txt --alpha 0.4
aim predict --alpha 1 --attention cross --weight-decay 0.05
aim predict --alpha 2 --attention self --mask causal --weight-decay 0.02
aim predict --alpha 1 --mask causal --weight-decay 0.05
aim predict --alpha 2 --attention cross --labels hard --loss cross-entropy --weight-decay 0.1
aim predict --alpha 1 --attention cross --unasked 0.5 --weight-decay 0.05
aim predict --alpha 1 --attention cross --token-spectrum power:1 --dim 60 --param direct
aim curve --alphas 0.1:1:4
aim curve --alphas 0.1:1:4 --param direct
aim thresholds
aim thresholds --noise 0 --kappa0 0.3
aim thresholds --param direct --noise 0
aim thresholds --width 0.3 --noise 0.1
aim thresholds --attention cross --labels hard --loss cross-entropy
aim thresholds --attention cross --unasked 0.5 --loss cross-entropy --weight-decay 0.5
aim spectrum --alpha 4
aim spectrum --alpha 1 --attention cross --unasked 0.77 --token-mean 0.25 --weight-decay 0.05
aim spectrum --alpha 0.5 --param direct
aim spectrum --target spikes --spikes 9,4.5 --dim 60 --alpha 0.3
aim data --error 0.1 --dim 100
aim tune --alpha 0.5
aim tune --alpha 0.5 --param direct --beta 2
aim scaling --gamma 0.75 --dim 40 --samples log:300:1e5:3 --weight-decay 1/d
aim scaling --gamma 0.75 --dim 40 --samples 3000 --optimal
aim features --gamma 0.75 --dim 40 --samples log:300:1e5:4 --weight-decay 1
aim phase-diagram --gamma 0.75 --dim 40 --log-n 1.5,2.5 --log-lambda -1,0
aim train --dim 20 --alpha 0.5 --seeds 2
aim train --dim 20 --alpha 0.5 --seeds 2 --param direct
aim amp --dim 30 --alpha 0.5 --iterations 4
aim compare --dims 12,20 --alphas 0.5 --seeds 2
sparse align
sparse align --loss square --signal-tokens 2
sparse predict --model all
sparse predict --model attention --cos-query 0.8 --sharpness 2 --loss hinge
sparse predict --model pooled --ridge 0 --loss square
sparse capacity
sparse oracle --activation relu
sparse train --model attention --dim 60 --trials 2
sparse train --model pooled --dim 60 --trials 2 --loss square
sparse map --x alpha0=0.5:2:2 --y beta=4,8
sparse tune --alpha 2
sparse data --error 0.25 --model pooled --loss square --dim 100
sweep example
sweep check sweep.toml
sweep run sweep.toml --store points.db
sweep status --store points.db
sweep export --store points.db --json
figures list
weights heads.safetensors --heads 2 --no-fit
""".strip().splitlines()

SWEEP = """
call = "aim.predict"
[grid]
alpha = "0.5:1:2"
[fixed]
noise = 0.5
"""

# calls of sweeps with their parameters and seed, mostly not at the defaults; the third spells out defaults of the first
POINTS: tuple[tuple[str, dict[str, Any], int | None], ...] = (
    ("aim.predict", {"alpha": 0.5}, None),
    ("aim.predict", {"alpha": 0.5, "weight_decay": "0+", "param": "direct", "loss": "cross-entropy"}, None),
    ("aim.predict", {"alpha": 0.5, "noise": 0.5, "tokens": 2}, None),
    ("aim.predict", {"target": "power-law", "gamma": 0.75, "dim": 50, "samples": 2000, "weight_decay": "1/d"}, None),
    ("aim.predict", {"target": "spikes", "spikes": "6,3,1.8", "dim": 60, "alpha": 0.4}, None),
    ("aim.predict", {"target": "atoms", "atoms": [2.0, 1.0, 0.0, 0.0], "alpha": 0.4}, None),
    ("aim.predict", {"alpha": 1.0, "attention": "cross", "weight_decay": 0.05}, None),
    ("aim.predict", {"alpha": 1.0, "attention": "self", "mask": "strict", "tokens": 3}, None),
    ("aim.predict", {"alpha": 1.0, "labels": "hard", "loss": "cross-entropy"}, None),
    ("aim.train", {"alpha": 0.5, "dim": 20}, 0),
    (
        "aim.train",
        {"alpha": 0.5, "dim": 20, "seeds": 3, "averaged_heads": 2, "token_law": "sphere", "optimiser": "adam"},
        1,
    ),
    ("aim.spectrum", {"alpha": 0.5, "kappa0": 0.3}, None),
    ("aim.tune", {"alpha": 0.5}, None),
    ("aim.scaling", {"target": "power-law", "dim": 40, "samples": 3000}, None),
    ("aim.amp", {"alpha": 0.5, "dim": 30}, 0),
    ("aim.thresholds", {"noise": 0.0}, None),
    ("sparse.align", {"strength": 4.0}, None),
    ("sparse.predict", {"model": "pooled", "ridge": 0.0}, None),
    ("sparse.predict", {"cos_query": 0.8, "sharpness": 2.0}, None),
    ("sparse.capacity", {"length": 5}, None),
    ("sparse.oracle", {"length": 5}, None),
    ("sparse.tune", {"alpha": 2.0}, None),
    ("sparse.train", {"dim": 60, "trials": 2}, 3),
    ("sparse.train", {"dim": 60, "model": "vectorised", "loss": "hinge"}, 3),
)


def helps() -> str:
    """Return the help texts of all commands."""
    return "\n".join(f"$ onehead {' '.join(path)} --help\n{text}" for path, text in _walk(cli, ()))


def _walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    yield path, CliRunner().invoke(cli, [*path, "--help"], prog_name="onehead", terminal_width=100).output
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _walk(found, (*path, name))


def answers() -> dict[str, Any]:
    """Return the JSON answers of all commands."""
    with TemporaryDirectory() as folder, chdir(folder):
        Path("atoms.txt").write_text("2 1 0.5 0.5 0 0 0 0\n")
        Path("sweep.toml").write_text(SWEEP)
        _checkpoint(Path("heads.safetensors"))
        return {line: _answer(line) for line in COMMANDS}


def _answer(line: str) -> Any:
    arguments = line.split()
    found = CliRunner().invoke(
        cli, arguments if arguments[:2] == ["sweep", "example"] or "--json" in arguments else [*arguments, "--json"]
    )
    if found.exit_code != 0:
        return {"exit_code": found.exit_code, "error": str(found.exception), "output": found.output}
    if arguments[:2] == ["sweep", "example"]:
        return found.stdout.splitlines()
    return _without_volatile(json.loads(found.stdout))


def _without_volatile(value: Any) -> Any:
    """Remove values that differ from run to run."""
    if isinstance(value, dict):
        return {
            key: _without_volatile(item)
            for key, item in value.items()
            if key not in VOLATILE and not key.startswith("seconds")
        }
    return [_without_volatile(item) for item in value] if isinstance(value, list) else value


def _checkpoint(path: Path) -> None:
    """Write a checkpoint with one small random layer of two heads."""
    rng, names = np.random.default_rng(0), ("q_proj", "k_proj")
    tensors = {f"model.layers.0.self_attn.{n}.weight": rng.standard_normal((16, 16)).astype(np.float32) for n in names}
    path.write_bytes(safetensors_bytes(tensors, "F32"))


def knobs() -> dict[str, Any]:
    """Return all knobs of the explorer."""
    from onehead.app.knobs import KNOBS

    return {
        name: {
            "word": knob.parameter.name,
            "label": knob.parameter.label,
            "symbol": knob.symbol,
            "help": knob.parameter.sentence,
            "group": knob.group,
            "kind": knob.parameter.kind,
            "default": knob.default,
            "slider": knob.parameter.slider and knob.parameter.slider._asdict(),
            "choices": [list(pair) for pair in knob.choices],
            "allowed": knob.parameter.allowed,
            "limits": list(knob.limits),
        }
        for name, knob in KNOBS.items()
    }


def keys() -> list[list[Any]]:
    """Return each call with its parameters and the key of the stored point."""
    from onehead.sweep.registry import call_named

    rows = []
    for name, parameters, seed in POINTS:
        call = call_named(name)
        prepared = call.prepare(parameters)
        rows.append([name, json.loads(json.dumps(prepared.parameters)), call.key(prepared, seed)])
    return rows


FILES = {"help.txt": helps, "answers.json": answers, "knobs.json": knobs, "keys.json": keys}


def text_of(value: Any) -> str:
    """Return the text of a golden file."""
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def stored(name: str) -> Any:
    """Return the content of a golden file."""
    text = (HERE / name).read_text()
    return json.loads(text) if name.endswith(".json") else text


def differences(old: Any, new: Any, *, close: float = 0.0, where: str = "") -> Iterator[str]:
    """Yield every difference of two values: numbers by more than ``close``, relative, and errors by more than a factor
    of two.

    An error is a difference of numbers that nearly agree: if those may differ by ``close``, it has no digits to
    compare. In a sentence an error has two digits, of which the last may then differ.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            place = f"{where} / {key}" if where else str(key)
            if key not in new:
                yield f"{place}: gone"
            elif key not in old:
                yield f"{place}: new"
            else:
                yield from differences(old[key], new[key], close=close, where=place)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, close=close, where=f"{where}[{i}]")
    elif isinstance(old, float) and isinstance(new, float):
        is_error = where.endswith(("_err", "quadrature_error", "residual", "_gap", "gradient_norm"))
        allowed = max(0.5 * max(abs(old), abs(new)), 1e-9) if close and is_error else close * max(abs(old), abs(new))
        if old != new and not abs(old - new) <= allowed:
            yield f"{where}: {old!r} became {new!r}"
    elif close and where.endswith("evaluations") and isinstance(old, int) and isinstance(new, int):
        # a minimiser may need some steps more or fewer where numbers are rounded in another way
        if abs(old - new) > max(2, 0.1 * old):
            yield f"{where}: {old!r} became {new!r}"
    elif close and isinstance(old, str) and isinstance(new, str) and _same_sentence(old, new):
        return
    elif old != new or type(old) is not type(new):
        yield f"{where}: {_short(old)} became {_short(new)}"


def _same_sentence(old: str, new: str) -> bool:
    """Whether two sentences differ only in the last digit of their numbers."""
    if NUMBER.split(old) != NUMBER.split(new):
        return False
    pairs = zip(map(float, NUMBER.findall(old)), map(float, NUMBER.findall(new)), strict=True)
    return all(abs(one - other) <= 0.1 * max(abs(one), abs(other)) for one, other in pairs)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "..."


def main() -> None:
    """Compare the golden files, or write them."""
    wrong = 0
    for name, make in FILES.items():
        value = make()
        if "--write" in sys.argv:
            HERE.mkdir(exist_ok=True)
            (HERE / name).write_text(text_of(value))
            continue
        old, new = stored(name), value
        if isinstance(new, str):
            import difflib

            found = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))
        else:
            found = list(differences(old, json.loads(text_of(new))))
        wrong += len(found)
        sys.stdout.write(("\n".join(f"{name}: {line}" for line in found) or f"{name}: the same") + "\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
