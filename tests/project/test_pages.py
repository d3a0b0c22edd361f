"""Every block of code on the pages runs, and prints what the page shows."""

import glob
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.checkpoints import attention_layers, training_steps

from onehead.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELL = ("console", "sh")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

# commands on pages that this file does not run -> what runs them
RUN_BY = {
    r"make ": "targets of the Makefile: CI and CONTRIBUTING.md",
    r"pip install": "the lock, and `make compat`",
    r"\.venv/bin/python -m benchmarks": "`make bench`",
    r"onehead app": "tests/app, in a browser",
    r"onehead figures make all": "`make figures`",
    r"onehead sweep run .*--on slurm(?!.*--dry-run)": "`make test-slurm`",
}
# output of a sweep that is running in another shell
DEPENDS_ON_TIME = "onehead sweep status"


def commands(text):
    """(command, lines the page shows below it) of every shell block, in order."""
    found = []
    for kind, body in BLOCK.findall(text):
        if kind not in SHELL:
            assert not re.search(r"^\$ ", body, re.MULTILINE), f"a command in a block that is no console:\n{body}"
            continue
        for line in body.splitlines():
            if line.startswith("$ ") or kind == "sh":
                found.append((re.sub(r"\s+# .*", "", line.removeprefix("$ ")), []))
            elif included := re.match(r'--8<-- "(.*)"', line):
                found[-1][1].extend((ROOT / included[1]).read_text().splitlines())
            else:
                found[-1][1].append(line)
    return found


def with_fewer_points(command):
    """The command with at most six points in every range and small trained heads, for commands whose output the page
    does not show.
    """
    if "onehead sweep" in command:  # has times such as 04:00:00
        return command
    small = re.sub(r"(?<=--dims )[\d,]+", lambda dims: "16,20" if "," in dims[0] else "16", command)
    return re.sub(r"(?<=:)(\d+)(?= |$)", lambda count: str(min(int(count[1]), 6)), small)


def runs_elsewhere(command):
    return any(re.match(pattern, command) for pattern in RUN_BY)


def write_config(folder):
    """Write the description of the model that pages assume."""
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "num_attention_heads": 4}))


def prepare(folder):
    """Write the files that pages assume: a checkpoint in three forms, and a sweep file with a mistake."""
    rng = np.random.default_rng(0)
    for place, layers in ((folder, 1), (folder / "folder", 6)):
        tensors = attention_layers(layers, 64, rng)
        place.mkdir(exist_ok=True)
        save_file(tensors, place / "model.safetensors")
        write_config(place)
        index = {"weight_map": dict.fromkeys(tensors, "model.safetensors")}
        (place / "model.safetensors.index.json").write_text(json.dumps(index))
    # token statistics of its only layer
    tokens = rng.standard_normal((500, 64)) + 0.3
    moments = {"0.mean": tokens.mean(axis=0), "0.second_moment": tokens.T @ tokens / len(tokens)}
    save_file(moments, folder / "tokens.safetensors")
    (folder / "run").mkdir(exist_ok=True)
    training_steps(folder / "run")
    (folder / "bad.toml").write_text('call = "aim.predict"\n\n[fixed]\n\n\n\n\n[grid]\nnoise = [-1.0]\nalpha = [1.0]\n')


def prepare_layout(folder, command):
    """Write the checkpoint of a command with `--layout`."""
    shapes = {
        "separate": {"q": (64, 64), "k": (64, 64)},
        "sections": {"qkv": (192, 64)},
        "interleaved": {"qkv": (64, 192)},
        "query-kv": {"q": (64, 64), "kv": (128, 64)},
    }
    kind = next((kind for kind in shapes if f"--layout {kind}" in command), None)
    if kind is None:
        write_config(folder)
    else:
        rng = np.random.default_rng(1)
        end = ".weight" if ".weight" in command else ""
        tensors = {f"blocks.0.{key}{end}": rng.standard_normal(shape) for key, shape in shapes[kind].items()}
        save_file(tensors, folder / "f.safetensors")
        (folder / "config.json").unlink(missing_ok=True)  # of another model


# commands that need a shell, or start processes
NEEDS_SHELL = re.compile(r"onehead sweep|[>|;&]")


def run(command, folder, onehead):
    """Exit code and output of a command on a wide terminal; in this process where that makes no difference."""
    if not NEEDS_SHELL.search(command):
        _, *words = [found for word in shlex.split(command) for found in (sorted(glob.glob(word)) or [word])]
        code, *printed = onehead(*words)
        return code, "".join(printed)
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", command], check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def text_of(lines):
    """The lines without numbers, rules of tables and white space, whose widths depend on the numbers."""
    bare = [re.sub(r"[\u2500-\u257f\s]+", " ", NUMBER.sub("#", line)).strip() for line in lines]
    return [line for line in bare if line]


def numbers_of(lines):
    """Numbers that a second run repeats; times are left out."""
    return [float(x) for line in lines if not re.search(r"second|\bs\b", line) for x in NUMBER.findall(line)]


def assert_same_output(shown, printed):
    """Compare the output of a command with that on the page, which may end with three dots."""
    if shown[-1] == "...":
        shown, printed = shown[:-1], printed[: len(shown) - 1]
    assert sorted(text_of(printed)) == sorted(text_of(shown))  # messages and results come on two streams
    # four digits: optimisers and the order of sums change the others
    assert sorted(numbers_of(printed)) == pytest.approx(sorted(numbers_of(shown)), rel=1e-3, abs=1e-6)


SHELL_PAGES = [page for page in PAGES if any(not runs_elsewhere(command) for command, _ in commands(page.read_text()))]


@pytest.mark.slow
@pytest.mark.parametrize("page", SHELL_PAGES, ids=lambda page: page.stem)
def test_commands_on_pages_run(page, tmp_path, monkeypatch, onehead):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    for command, shown in commands(page.read_text()):
        if runs_elsewhere(command):
            continue
        prepare_layout(tmp_path, command)
        code, printed = run(command if shown else with_fewer_points(command), tmp_path, onehead)
        assert code == (2 if "bad.toml" in command else 0), f"{command}\n{printed}"
        assert "Traceback" not in printed, f"{command}\n{printed}"
        for made in re.findall(r"(?:--plot|--csv|>) (\S+)", command):
            assert (tmp_path / made).exists(), f"{command} left no {made}"
        if shown and not command.startswith(DEPENDS_ON_TIME):
            assert_same_output(shown, printed.splitlines())


PYTHON_PAGES = [page for page in PAGES if "```python" in page.read_text()]


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: page.stem)
def test_python_on_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "page"}
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "python" and "--8<--" not in block:  # a file shown as it is has a test of its own
            exec(compile(block, page.name, "exec"), space)


def test_every_block_has_a_language_that_is_checked():
    for page in PAGES:
        kinds = {kind for kind, _ in BLOCK.findall(page.read_text())}
        assert kinds <= {*SHELL, "python", "text", "toml"}, f"{page.name} has blocks of kind {kinds}"


def test_commands_that_are_not_run_here_exist():
    # commands within sentences, and commands that run elsewhere: every flag exists
    for page in PAGES:
        text = page.read_text()
        others = [command for command, _ in commands(text) if runs_elsewhere(command)]
        for line in (*re.findall(r"`(onehead [a-z][^`\n]*)`", text), *others):
            if line.startswith("onehead "):
                assert_command_exists(line.split()[1:], f"{page.name}: {line}")


def assert_command_exists(words, where):
    command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        command, words = command.get_command(click.Context(command), words[0]), words[1:]
        assert command is not None, where
    flags = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        assert not word.startswith("--") or word.split("=")[0] in flags | {"--help", "--version"}, where
