"""A sweep from a TOML file; a mistake is told with its line."""

import re
import tomllib
from pathlib import Path
from typing import Any

from onehead.errors import InvalidArgument
from onehead.fields import words_of
from onehead.files import read_file
from onehead.sweep.axes import axis_values
from onehead.sweep.calls import call_named
from onehead.sweep.calls.base import Call
from onehead.sweep.executors import PLACES, Run
from onehead.sweep.failures import BadSpec
from onehead.sweep.spec import REPEATS, SEEDS, Spec
from onehead.text import likely, quoted

__all__ = ["parse_spec", "read_spec"]

SECTIONS = {
    "call": 'a name such as "aim.predict"',
    "fixed": "a table of words",
    "grid": "a table of axes",
    "zip": "a table of axes of equal length",
    "seeds": SEEDS,
    "repeats": REPEATS,
    "run": "a table",
    "slurm": "a table",
}
BYTES = 2_000_000  # of a sweep file
# keys of our files have two parts; the time that the parser needs grows with the cube of their number
DEEP = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}""")
SLURM = words_of(PLACES["slurm"].needs)
RUN = words_of(Run, PLACES["local"].needs, PLACES["dask"].needs)


def read_spec(path: str, *, limit: int | None = None) -> Spec:
    """Read a sweep from a TOML file and check every point of it; a mistake is told with its line.

    ``limit`` is the number of points it may have, in place of the one that the file sets.
    """

    def refuse(trouble: str) -> InvalidArgument:
        return InvalidArgument("spec", str(path), f"a sweep file that can be read ({trouble})")

    try:
        text = read_file(Path(path), BYTES, refuse).decode("utf-8-sig")  # some editors put a mark before the text
    except UnicodeDecodeError:
        raise refuse("it is not text") from None
    return parse_spec(text, str(path), limit=limit)


def parse_spec(text: str, name: str = "spec", *, limit: int | None = None) -> Spec:
    """Read a sweep from TOML text; ``limit`` is the number of points it may have, in place of the one that the text sets."""
    if deep := DEEP.search(text):
        raise BadSpec(name, text.count("\n", 0, deep.start()) + 1, f"the key {quoted(deep[0])} has too many parts.")
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        raise _syntax(name, text, str(failure)) from None
    except (RecursionError, ValueError):
        raise BadSpec(name, 1, "it is nested too deeply, or holds a number with thousands of digits.") from None
    lines = text.splitlines()

    def wrong(sentence: str, *keys: str) -> BadSpec:
        return BadSpec(name, _line(lines, *keys), sentence)

    def told(failure: InvalidArgument) -> InvalidArgument:
        return failure if isinstance(failure, BadSpec) else wrong(str(failure), *_where(failure, tree))

    for key in tree:
        if key not in SECTIONS:
            raise wrong(f"{quoted(key)} is not known{likely(key, SECTIONS)}; allowed: {', '.join(SECTIONS)}.", key)
    for key in ("fixed", "grid", "zip", "run", "slurm"):
        if not isinstance(tree.get(key, {}), dict):
            raise wrong(f"{key} must be {SECTIONS[key]}; got {quoted(tree[key])}.", key)
    for section, words in (("run", RUN), ("slurm", SLURM)):
        for key, value in tree.get(section, {}).items():
            if key not in words:
                close = likely(key, words)
                raise wrong(
                    f"{quoted(key)} is not known in [{section}]{close}; allowed: {', '.join(words)}.", section, key
                )
            kind, called = (int, "an integer") if words[key].kind == "integer" else (str, "a word in quotes")
            if not isinstance(value, kind) or isinstance(value, bool):
                raise wrong(f"{key} must be {called}; got {quoted(value)}.", section, key)
    if not isinstance(tree.get("call"), str):
        raise wrong(f"call must be {SECTIONS['call']}; got {quoted(tree.get('call'))}.", "call")
    try:
        settings = Run(**{key: value for key, value in tree.get("run", {}).items() if key in Run.model_fields})
        call = call_named(tree["call"])
        axes: dict[Any, Any] = {**_together(tree, call)}
        for axis, given in tree.get("grid", {}).items():
            axes[axis] = axis_values(axis, given, whole=call.whole(axis))
        spec = Spec(
            call=tree["call"],
            axes=axes,
            fixed=tree.get("fixed", {}),
            seeds=tree.get("seeds"),
            repeats=tree.get("repeats", 1),
            run=tree.get("run", {}),
            slurm=tree.get("slurm", {}),
            told=told,
            limit=settings.limit if limit is None else limit,
        )
        spec.check()
    except InvalidArgument as failure:
        raise told(failure) from None
    return spec


def _together(tree: dict[str, Any], call: Call) -> dict[tuple[str, ...], Any]:
    """The axes that move together, as one axis."""
    zipped = tree.get("zip", {})
    if not zipped:
        return {}
    columns = {name: axis_values(name, given, whole=call.whole(name)) for name, given in zipped.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InvalidArgument("zip", told, "axes of equal length")
    return {tuple(columns): list(zip(*columns.values(), strict=True))}


def _where(failure: InvalidArgument, tree: dict[str, Any]) -> tuple[str, ...]:
    """The keys under which the value that was refused stands."""
    for word in (failure.name, failure.got if isinstance(failure.got, str) else failure.name):
        for section in ("grid", "zip", "fixed", "run"):
            if word in tree.get(section, {}):
                return section, word
        if word in tree:
            return (word,)
    return ("call",)


def _line(lines: list[str], *keys: str) -> int:
    """The line on which a key stands, or the one of its section, or the first."""
    section, here = (keys[0], keys[1]) if len(keys) == 2 else ("", keys[0])
    inside, header = "", 1
    for number, line in enumerate(lines, 1):
        if found := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
            inside = found[1]
            if inside in keys:
                header = number
                if len(keys) == 1:
                    return number
            continue
        if inside == section and re.match(rf"\s*[\"']?{re.escape(here)}[\"']?\s*[=.]", line):
            return number
        if (
            not inside
            and section
            and re.match(rf"\s*{re.escape(section)}\s*(\.\s*{re.escape(here)}\b|=.*\b{re.escape(here)}\b)", line)
        ):
            return number
    return header


def _syntax(name: str, text: str, message: str) -> BadSpec:
    """A mistake against TOML itself; the parser knows the line."""
    found = re.search(r"\(at line (\d+), column \d+\)", message)
    line = int(found[1]) if found else max(1, len(text.splitlines()))
    return BadSpec(name, line, f"{re.sub(r' ?[(]at [^)]*[)]', '', message).rstrip('.')}.")
