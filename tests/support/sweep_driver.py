"""Driver of a sweep that tests kill; prints the number of finished points after every commit.

Usage: python -m tests.support.sweep_driver STORE ON POINTS SECONDS
"""

import sys

from onehead.sweep import Spec, Store, drive, executor_named

store, on, points, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
spec = Spec(
    call="tests.support.sweep_calls:sleep", axes={"x": list(range(points))}, fixed={"seconds": seconds}, own=True
)
print("ready", flush=True)  # noqa: T201
with Store.writing(store) as opened:
    drive(spec, opened, executor_named(on, workers=2), progress=lambda c: print(c.done, flush=True))  # noqa: T201
