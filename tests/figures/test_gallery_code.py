"""The short scripts of the gallery: one for every figure, with public names only; run to the end at night."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.dotted_names import missing_names

from onehead.figures.registry import NAMES

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("*.py"))


def test_every_figure_has_a_short_script():
    assert {script.stem for script in SCRIPTS} == set(NAMES)
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f'--8<-- "examples/gallery/{name}.py"' not in page] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_are_short_and_use_public_names(script):
    text = script.read_text(encoding="utf-8")
    compile(text, script.name, "exec")
    assert len([line for line in text.splitlines() if line and not line.startswith("import ")]) <= 11
    assert text.endswith(f'oh.plot.save(axes, "{script.stem}.png")\n')
    names = {f"onehead.{name}" for name in re.findall(r"\boh\.(\w+\.\w+)", text)}
    assert names and missing_names(names) == []


@pytest.mark.nightly
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_draw_their_picture(script, tmp_path):
    # Approximate results near interpolation warn, and a script shows the warning.
    command = [sys.executable, str(script)]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=600, capture_output=True)
    assert (tmp_path / f"{script.stem}.png").stat().st_size > 5000
