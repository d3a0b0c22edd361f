"""A long sweep in pieces: a store that several runs fill, points on worker processes, and a table at the end."""

from pathlib import Path

import onehead as oh

STORE = Path("points.db")
GRID = {"alpha": "log:0.1:3:6", "weight_decay": [0.003, 0.01, 0.03]}

if __name__ == "__main__":
    # a first piece, as after a job that ran out of time; points that exist are not solved again
    first = oh.sweep("aim.predict", {**GRID, "weight_decay": [0.01]}, store=STORE)
    table = oh.sweep("aim.predict", GRID, store=STORE, on="local", workers=2)
    again = oh.sweep("aim.predict", GRID, store=STORE)
    print(f"{len(first)} points, then {len(table)}, {len(table.failed)} failed")
    assert [row["finished_at"] for row in again] == [row["finished_at"] for row in table]

    frame = table.to_frame()
    best = frame.loc[frame.groupby("alpha")["test_error"].idxmin(), ["alpha", "weight_decay", "test_error"]]
    print(best.round(4).to_string(index=False))
    frame.to_csv("points.csv", index=False)
