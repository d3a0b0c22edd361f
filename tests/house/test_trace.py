"""CONTRIBUTING.md says which files a call goes through; this holds it to the truth."""

import re
import subprocess
import sys
from pathlib import Path

import onehead

SOURCE = Path(onehead.__file__).parent
ROOT = Path(__file__).parents[2]

# prints every file of the theory and of the command line that the call enters, once
FOLLOW = """
import inspect, sys
seen = {}
def follow(frame, event, _):
    code = frame.f_code  # of a function: no module, no class being made, nor its annotations, which are functions since 3.14
    if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_name != "__annotate__":
        seen.setdefault(code.co_filename)
import onehead.cli.aim
from onehead.cli.main import run
sys.setprofile(follow)
try:
    run(["aim", "predict", "--alpha", "0.5", "--json"])
except SystemExit:
    pass
sys.setprofile(None)
print(*seen, sep="\\n", file=sys.stderr)
"""
BESIDE = {
    "cli/groups.py",
    "cli/values.py",
    "cli/output.py",
    "cli/text.py",
}  # what every command uses to read and to print
SMALL = {"aim/equations/unknowns.py"}  # names of tuples


def test_the_trace_of_a_call_names_every_file_it_enters():
    told = set(re.findall(r"`((?:cli|aim)/[\w/]+\.py)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert all((SOURCE / name).is_file() for name in told)
    out = subprocess.run([sys.executable, "-c", FOLLOW], capture_output=True, text=True, check=True).stderr
    entered = {line.split("/onehead/", 1)[1] for line in out.splitlines() if "/onehead/" in line}
    entered = {name for name in entered if name.startswith(("cli/", "aim/")) and not name.endswith("__init__.py")}
    assert entered - BESIDE - SMALL <= told
    # the route through Sigma is taken near interpolation only, the others are those of other heads, as it says; compiled
    # functions leave no trace
    heads = {
        f"aim/equations/{name}.py"
        for name in ("rows", "long", "shared", "drawn", "untied", "sectors", "matrices", "sector_rows", "sector_pairs")
    }
    heads |= {f"aim/equations/{name}.py" for name in ("leading_output", "leading_pair", "kurtosis", "told_apart")}
    compiled = {"aim/equations/kernels.py", "aim/equations/lanes.py"}
    assert told - entered == {*heads, "aim/solve/continuation.py", *compiled}
