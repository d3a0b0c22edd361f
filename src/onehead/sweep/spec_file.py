"""Sweeps read from TOML files; an error message names the line of the mistake."""

import os
import re
import tomllib
from errno import ENOENT
from pathlib import Path
from typing import Any

from onehead.atomic_io import read_file
from onehead.errors import InvalidArgument
from onehead.fields import parameters_of
from onehead.sanitize import did_you_mean, quoted
from onehead.sweep.axes import axis_values
from onehead.sweep.errors import BadSpec, unreadable_spec
from onehead.sweep.executors import EXECUTORS, RunSettings
from onehead.sweep.registry import call_named
from onehead.sweep.registry.base import Call
from onehead.sweep.spec import REPEATS_ALLOWED, SEEDS_ALLOWED, Spec

SECTIONS = {
    "call": 'a name such as "aim.predict"',
    "fixed": "a table of parameters",
    "grid": "a table of axes",
    "zip": "a table of axes of equal length",
    "seeds": SEEDS_ALLOWED,
    "repeats": REPEATS_ALLOWED,
    "run": "a table",
    "slurm": "a table",
}
MAX_FILE_BYTES = 2_000_000
# Keys of a sweep file have at most two parts; the time of the TOML parser grows with the cube of their number.
DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}""")
# the first line of a YAML or JSON file: "call: aim.predict", "---", "- item" or "{"
OTHER_FORMAT = re.compile(r"(?:\s*+(?:#[^\n]*+\n)?+)*+(?:[\"']?[\w-]++[\"']?[ \t]*+:(?:\s|$)|---|-\s|\{|%YAML)")
SLURM_PARAMETERS = parameters_of(EXECUTORS["slurm"].settings)
RUN_PARAMETERS = parameters_of(RunSettings, EXECUTORS["local"].settings, EXECUTORS["dask"].settings)


def read_spec(path: str, *, limit: int | None = None) -> Spec:
    """Read a sweep from a TOML file and check its points.

    Parameters
    ----------
    path : str
        The sweep file, of at most 2 MB.
    limit : int, optional
        Largest number of points, in place of the limit that the file sets.

    Returns
    -------
    Spec
        The sweep that the file describes.

    Raises
    ------
    InvalidArgument
        If the file cannot be read, or holds a mistake; the message of a mistake begins with the file and the line.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from onehead.sweep import read_spec
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "sweep.toml"
    ...     _ = file.write_text('call = "sparse.align"\\n[grid]\\nalpha0 = "0.5:2:4"\\n')
    ...     spec = read_spec(str(file))
    >>> spec.call, len(spec)
    ('sparse.align', 4)
    """

    def refuse(reason: str) -> InvalidArgument:
        if reason == os.strerror(ENOENT):
            reason = f"no such file (`onehead sweep example > {path}` writes one)"
        return unreadable_spec(str(path), reason)

    try:
        text = read_file(Path(path), MAX_FILE_BYTES, refuse).decode(
            "utf-8-sig"
        )  # skips the byte order mark of some editors
    except UnicodeDecodeError:
        raise refuse("it is not text") from None
    return parse_spec(text, str(path), limit=limit)


def parse_spec(text: str, name: str = "spec", *, limit: int | None = None) -> Spec:
    """Read a sweep from TOML text and check its points; ``name`` stands for the file in error messages."""
    if deep := DEEP_KEY.search(text):
        raise BadSpec(name, text.count("\n", 0, deep.start()) + 1, f"the key {quoted(deep[0])} has too many parts.")
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(name, text, str(error)) from None
    except (RecursionError, ValueError):
        raise BadSpec(name, 1, "it is nested too deeply, or holds a number with thousands of digits.") from None
    lines = text.splitlines()

    def mistake(sentence: str, *keys: str) -> BadSpec:
        return BadSpec(name, _line_of(lines, *keys), sentence)

    def locate_error(error: InvalidArgument) -> InvalidArgument:
        return error if isinstance(error, BadSpec) else mistake(str(error), *_keys_of(error, tree))

    for key in tree:
        if key not in SECTIONS:
            close = did_you_mean(key, SECTIONS)
            raise mistake(f"{quoted(key)} is not known{close}; allowed: {', '.join(SECTIONS)}.", key)
    for key in ("fixed", "grid", "zip", "run", "slurm"):
        if not isinstance(tree.get(key, {}), dict):
            raise mistake(f"{key} must be {SECTIONS[key]}; got {quoted(tree[key])}.", key)
    for section, known in (("run", RUN_PARAMETERS), ("slurm", SLURM_PARAMETERS)):
        for key, value in tree.get(section, {}).items():
            if key not in known:
                allowed = f"{did_you_mean(key, known)}; allowed: {', '.join(known)}."
                raise mistake(f"{quoted(key)} is not known in [{section}]{allowed}", section, key)
            kind, described = (int, "an integer") if known[key].kind == "integer" else (str, "text in quotes")
            if not isinstance(value, kind) or isinstance(value, bool):
                raise mistake(f"{key} must be {described}; got {quoted(value)}.", section, key)
    if not isinstance(tree.get("call"), str):
        raise mistake(f"call must be {SECTIONS['call']}; got {quoted(tree.get('call'))}.", "call")
    try:
        run = tree.get("run", {})
        settings = RunSettings(**{key: value for key, value in run.items() if key in RunSettings.model_fields})
        call = call_named(tree["call"])
        axes: dict[Any, Any] = {**_zipped_axes(tree, call)}
        for axis, given in tree.get("grid", {}).items():
            axes[axis] = axis_values(axis, given, integer=call.is_integer(axis))
        spec = Spec(
            call=tree["call"],
            axes=axes,
            fixed=tree.get("fixed", {}),
            seeds=tree.get("seeds"),
            repeats=tree.get("repeats", 1),
            run=run,
            slurm=tree.get("slurm", {}),
            locate_error=locate_error,
            limit=settings.limit if limit is None else limit,
        )
        spec.check()
    except InvalidArgument as error:
        raise locate_error(error) from None
    return spec


def _zipped_axes(tree: dict[str, Any], call: Call) -> dict[tuple[str, ...], Any]:
    """Axes of the ``[zip]`` section, which vary together, as one axis."""
    zipped = tree.get("zip", {})
    if not zipped:
        return {}
    columns = {name: axis_values(name, given, integer=call.is_integer(name)) for name, given in zipped.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InvalidArgument("zip", got, "axes of equal length")
    return {tuple(columns): list(zip(*columns.values(), strict=True))}


def _keys_of(error: InvalidArgument, tree: dict[str, Any]) -> tuple[str, ...]:
    """Section and key in the file of the value that was refused."""
    for name in (error.name, error.got if isinstance(error.got, str) else error.name):
        for section in ("grid", "zip", "fixed", "run"):
            if name in tree.get(section, {}):
                return section, name
        if name in tree:
            return (name,)
    return ("call",)


def _line_of(lines: list[str], *keys: str) -> int:
    """Number of the line with this key; else that of the header of its section; else 1."""
    section, key = (keys[0], keys[1]) if len(keys) == 2 else ("", keys[0])
    current_section, header = "", 1
    for number, line in enumerate(lines, 1):
        if found := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
            current_section = found[1]
            if current_section in keys:
                header = number
                if len(keys) == 1:
                    return number
            continue
        if current_section == section and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
        if (
            not current_section
            and section
            and re.match(rf"\s*{re.escape(section)}\s*(\.\s*{re.escape(key)}\b|=.*\b{re.escape(key)}\b)", line)
        ):
            return number
    return header


def _syntax_error(name: str, text: str, message: str) -> BadSpec:
    """Error for text that is not TOML, with the line that the parser reports."""
    if OTHER_FORMAT.match(text):
        return BadSpec(
            name,
            1,
            'a sweep file is TOML and not YAML or JSON: write call = "aim.predict", and sections such as [grid]; '
            "`onehead sweep example` prints one.",
        )
    found = re.search(r"\(at line (\d+), column \d+\)", message)
    line = int(found[1]) if found else max(1, len(text.splitlines()))
    return BadSpec(name, line, f"{re.sub(r' ?[(]at [^)]*[)]', '', message).rstrip('.')}.")
