"""The transformers that are trained, and their files."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["FEWER_TOKENS", "LAYER_RUNS", "LONG", "MOST_TOKENS", "RUNS", "WIDTH", "Run"]


@dataclass(frozen=True)
class Run:
    """One transformer and its training.

    ``penalty`` is the λ of the penalty λ(‖W_Q‖² + ‖W_K‖²)/2 of the theory; ``decay`` is the weight decay of AdamW,
    which shrinks every matrix by the fraction ``rate`` x ``decay`` at every step. ``tokens`` is the length of the text
    to train on; with the default each token is used once on average. ``value_penalty`` is the λ of the same penalty on
    W_V and W_O. With ``descent`` query and key are trained by plain gradient descent at this rate instead of by AdamW,
    with the same schedule.
    """

    width: int = 128
    tokens: int = 64 * 128**2
    penalty: float = 0.0
    decay: float = 0.0
    seed: int = 0
    layers: int = 2
    heads: int = 4
    context: int = 64
    batch: int = 16
    steps: int = 1024
    rate: float = 4e-3
    value_penalty: float = 0.0
    descent: float = 0.0

    @property
    def name(self) -> str:
        """Name of the folder of the run."""
        text = f"d{self.width}-n{self.tokens}-penalty{self.penalty:g}-decay{self.decay:g}-seed{self.seed}"
        if self.steps > Run.steps:
            text += f"-steps{self.steps}"
        if self.value_penalty:
            text += f"-values{self.value_penalty:g}"
        return f"{text}-descent{self.descent:g}" if self.descent else text

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Steps at which checkpoints are written: 0, powers of two up to the end, and three in the second half."""
        early = [step for k in range(5, -1, -1) if (step := self.steps // 2**k)]
        late = [self.steps * 5 // 8, self.steps * 3 // 4, self.steps * 7 // 8]
        return tuple(sorted({0, *early, *late}))

    @property
    def config(self) -> dict[str, Any]:
        """Contents of ``config.json``: the counts that `onehead weights` needs, and the run itself."""
        counts = {"n_head": self.heads, "n_embd": self.width, "n_layer": self.layers}
        return {"model_type": "nanogpt", **counts, "run": asdict(self)}

    def folder(self, store: Path) -> Path:
        """Return the folder of its checkpoints."""
        return store / self.name

    def file(self, store: Path, step: int) -> Path:
        """Return the path of the checkpoint at this step."""
        return self.folder(store) / f"step-{step:05d}.safetensors"


WIDTH, MOST_TOKENS = Run.width, Run.tokens  # of the runs with which the others are compared
FEWER_TOKENS = (WIDTH**2, 4 * WIDTH**2, 16 * WIDTH**2)

RUNS = (
    *(Run(penalty=penalty) for penalty in (0.0, 3e-4, 1e-3, 1e-4, 3e-3)),
    *(Run(tokens=FEWER_TOKENS[0], penalty=penalty) for penalty in (0.0, 3e-4, 1e-3)),
    *(Run(decay=decay) for decay in (1.0, 0.1)),
    *(Run(tokens=tokens, penalty=penalty) for tokens in FEWER_TOKENS[1:] for penalty in (0.0, 3e-4)),
    *(Run(width=64, penalty=penalty) for penalty in (0.0, 3e-4)),
    *(Run(width=96, penalty=penalty) for penalty in (0.0, 3e-4)),
    Run(decay=0.3),
    *(Run(tokens=tokens, penalty=1e-3) for tokens in FEWER_TOKENS[1:]),
)

SEEDS = (0, 1, 2)
LAYER_PENALTIES = (0.0, 1e-3, 3e-4, 3e-3)
LONG = 4 * Run.steps
LAYER_RUNS = (
    *(Run(width=64, penalty=penalty, seed=seed) for seed in SEEDS for penalty in LAYER_PENALTIES),
    *(Run(width=64, penalty=1e-3, steps=LONG, descent=descent) for descent in (2.0, 0.0)),
    *(Run(width=32, penalty=penalty, seed=seed) for seed in SEEDS for penalty in LAYER_PENALTIES),
    *(Run(penalty=penalty, seed=seed) for seed in SEEDS for penalty in LAYER_PENALTIES),
    *(
        Run(width=64, penalty=penalty, value_penalty=penalty, seed=seed)
        for seed in SEEDS[:2]
        for penalty in (1e-3, 3e-3)
    ),
    Run(width=64, decay=1.0),
)
