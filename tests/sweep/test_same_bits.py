"""A sweep gives the same bits with every executor: inline, local processes and a Dask cluster."""

import pytest
from tests.support.sweep_cluster import cluster

import onehead

SWEEPS = [  # call, axes, fixed parameters, seeds: theory and training of both models
    ("aim.predict", {"alpha": [0.3, 1.0], "noise": [0.1, 0.5]}, {}, None),
    ("aim.train", {"alpha": [0.5]}, {"dim": 20, "test_samples": 500}, 2),
    ("sparse.predict", {"model": ["attention", "pooled"]}, {"alpha": 2.0}, None),
    ("sparse.train", {"alpha": [2.0]}, {"dim": 50, "trials": 2}, [1, 7]),
]
CLOCKS = {"duration", "finished_at", "seconds", "seconds_std", "seconds_err"}


def numbers(table):
    """Rows and arrays of a table without durations and times."""
    rows = [{name: value for name, value in row.items() if name not in CLOCKS} for row in table]
    arrays = [{name: value.tobytes() for name, value in table.arrays(i).items()} for i in range(len(table))]
    return rows, arrays


@pytest.mark.slow
def test_the_same_bits_inline_local_and_dask():
    compared = 0
    with cluster() as (address, _, _):
        for call, axes, fixed, seeds in SWEEPS:
            inline = onehead.sweep(call, axes, fixed=fixed, seeds=seeds)
            assert not inline.failed
            for on in ("local", address):
                assert numbers(onehead.sweep(call, axes, fixed=fixed, seeds=seeds, on=on, workers=2)) == numbers(inline)
            compared += len(inline)
    print(f"{compared} rows of {len(SWEEPS)} calls, identical bit for bit inline, local and on dask")  # noqa: T201
