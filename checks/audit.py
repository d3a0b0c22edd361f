"""Known vulnerabilities of the locked versions: ``python -m checks.audit``.

Asks the package index that pip uses by default for the advisories of every pinned version. Where the index answers only for
the newest release, a package that is not pinned to it cannot be judged, and is listed as such. Ends with 1 when an advisory
is found, with 0 when there is none, and with 2 when nothing could be asked.
"""

import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from pip._internal.models.index import PyPI  # pip knows where its index is; nothing else here does

LOCK = Path(__file__).parent.parent / "requirements.lock"
PATIENCE = 20.0  # seconds


class Pin(NamedTuple):
    """A package and the version it is held to."""

    name: str
    version: str


def pins(text: str) -> list[Pin]:
    """Every pinned package of a lock file, with or without hashes."""
    return [Pin(*found) for found in re.findall(r"^([A-Za-z0-9][\w.-]*)==([\w.+!]+)", text, re.MULTILINE)]


def ask(*words: str) -> dict[str, Any] | None:
    """What the index says of a project or a release; None if it knows nothing."""
    try:
        with urllib.request.urlopen("/".join([PyPI.pypi_url, *words, "json"]), timeout=PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError:
        return None


def judge(pin: Pin) -> tuple[list[str] | None, str]:
    """Advisories of a pinned version, or None and why it cannot be judged."""
    found = ask(pin.name, pin.version)
    if found is None:
        found = ask(pin.name)
        if found is None:
            return None, "the index does not know it"
        newest = found["info"]["version"]
        if newest != pin.version:
            return None, f"the index answers only for the newest release, {newest}"
    told = [v for v in found.get("vulnerabilities", []) if not v.get("withdrawn")]
    return [f"{v['id']} (fixed in {', '.join(v.get('fixed_in') or ['no release yet'])})" for v in told], ""


def main() -> int:
    """Print what was found."""
    asked = pins(LOCK.read_text())
    bad, unknown = 0, []
    for pin in asked:
        try:
            advisories, reason = judge(pin)
        except OSError as failure:
            print(f"the index cannot be asked: {failure}")
            return 2
        if advisories is None:
            unknown.append(f"{pin.name} {pin.version}: {reason}")
        for advisory in advisories or ():
            bad += 1
            print(f"{pin.name} {pin.version}: {advisory}")
    print(f"{len(asked) - len(unknown)} of {len(asked)} pinned packages judged, {bad} advisories")
    for line in unknown:
        print(f"not judged: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
