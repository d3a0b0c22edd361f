"""Working sweep files to start from."""

from onehead.errors import InvalidArgument

EXAMPLES = {
    "learning-curve": """\
# Learning curves of an attention head at three noise levels, from theory: 60 points.
call = "aim.predict"

[fixed]                      # parameters that do not change; those left out have their defaults
kappa0 = 0.5
weight_decay = 0.01

[grid]                       # every combination; ranges as on the command line, or lists
noise = [0.1, 0.5, 1.0]
alpha = "log:0.1:4:20"       # start:stop:count, log:start:stop:count or a,b,c
""",
    "training": """\
# Real training at finite size: 3 sample ratios, 2 dimensions, 4 seeds each, one row per seed.
call = "aim.train"
seeds = 4                    # the seeds 0, 1, 2, 3; or a list

[fixed]
weight_decay = 0.01
noise = 0.5

[grid]
dim = [30, 40]
alpha = [0.3, 0.5, 1.0]
""",
    "zip": """\
# Axes that vary together: the weight decay follows the sample ratio.
call = "aim.predict"

[fixed]
noise = 0.5

[grid]
tokens = [2, 3]

[zip]                        # lists of equal length
alpha        = [0.2, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0, 4.0, 6.0]
weight_decay = "log:0.1:0.001:10"
""",
    "spectra": """\
# Eigenvalue laws of the trained map; the tabulated densities go to files beside the store.
call = "aim.spectrum"

[grid]
alpha = "log:0.2:4:12"
noise = [0.1, 0.5]
""",
    "sparse": """\
# Sparse-token classification: three models along the sample ratio.
call = "sparse.predict"

[fixed]
length = 10
strength = 5.0
ridge = 1e-3

[grid]
model = ["attention", "pooled", "vectorised"]
alpha = "log:0.5:8:16"
""",
    "cluster": """\
# A sweep for a SLURM cluster: the file says what to ask for, and flags override it.
call = "aim.predict"

[grid]
kappa0 = [0.2, 0.5, 1.0]
noise = "0:2:21"
alpha = "log:0.05:5:40"

[run]
on = "slurm"

[slurm]
partition = "compute"
time = "01:00:00"
cores = 16                   # worker processes in a job
memory = "32GB"              # of each job
jobs = 4
""",
}


def example(name: str = "learning-curve") -> str:
    """Return the text of a working sweep file.

    Examples
    --------
    >>> example("sparse").splitlines()[1]
    'call = "sparse.predict"'
    """
    if name not in EXAMPLES:
        raise InvalidArgument("example", name, f"one of {', '.join(EXAMPLES)}", EXAMPLES)
    return EXAMPLES[name]
