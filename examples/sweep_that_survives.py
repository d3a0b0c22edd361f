"""A sweep over a grid with a store: it can be interrupted and continued, and no point is solved twice."""

import onehead as oh

if __name__ == "__main__":
    grid = {"alpha": [0.3, 0.5, 1.0], "noise": [0.25, 0.5]}
    for attempt in ("first", "second"):
        table = oh.sweep("aim.predict", grid, store="sweep.db")
        print(f"{attempt} run: {len(table)} points in the store")
    frame = table.to_frame()
    print(frame.pivot(index="alpha", columns="noise", values="test_error").round(4).to_string())
