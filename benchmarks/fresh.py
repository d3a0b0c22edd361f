"""One row in a process of its own: ``python -m benchmarks.fresh GROUP WHAT`` prints what it found as JSON.

The harness starts it; the time of the whole process is the cold time of the row, its peak above the imports the memory.
"""

import json
import sys
from dataclasses import asdict

from benchmarks.groups import load
from benchmarks.harness import ROWS, Clock, peak_mb


def main(group: str, what: str) -> None:
    load([group])
    before, clock = peak_mb(), Clock(1)
    finding = ROWS[what].measure(clock)
    print(json.dumps({"memory_mb": peak_mb() - before, "seconds": clock.seconds, "finding": asdict(finding)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
