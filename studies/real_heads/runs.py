"""Which transformers are trained, and where each of them lies on disk."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["MOST", "RUNS", "WIDTH", "Run"]


@dataclass(frozen=True)
class Run:
    """One transformer and its training.

    ``penalty`` is the λ of λ(‖W_Q‖² + ‖W_K‖²)/2 in the loss, that of the theory; ``decay`` is the weight decay of AdamW, which takes
    ``rate`` x ``decay`` of every matrix off at every step. ``tokens`` are those of the text to train on: with all of them each is seen once.
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

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"d{self.width}-n{self.tokens}-penalty{self.penalty:g}-decay{self.decay:g}-seed{self.seed}"

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Steps at which the weights are written down: 0, then twice as late each time, and the end."""
        early = [step for k in range(5, -1, -1) if (step := self.steps // 2**k)]
        late = [self.steps * 5 // 8, self.steps * 3 // 4, self.steps * 7 // 8]
        return tuple(sorted({0, *early, *late}))

    @property
    def config(self) -> dict[str, Any]:
        """What is written beside the checkpoints: what `onehead weights` asks for, and the run itself."""
        counts = {"n_head": self.heads, "n_embd": self.width, "n_layer": self.layers}
        return {"model_type": "nanogpt", **counts, "run": asdict(self)}

    def folder(self, store: Path) -> Path:
        """Where its checkpoints lie."""
        return store / self.name

    def file(self, store: Path, step: int) -> Path:
        """One of its checkpoints."""
        return self.folder(store) / f"step-{step:05d}.safetensors"


WIDTH, MOST = Run.width, Run.tokens  # of the runs that the others are compared with
FEW = (WIDTH**2, 4 * WIDTH**2, 16 * WIDTH**2)  # tokens of the others

RUNS = (
    *(Run(penalty=penalty) for penalty in (0.0, 3e-4, 1e-3, 1e-4, 3e-3)),
    *(Run(tokens=FEW[0], penalty=penalty) for penalty in (0.0, 3e-4, 1e-3)),
    *(Run(decay=decay) for decay in (1.0, 0.1)),
    *(Run(tokens=tokens, penalty=penalty) for tokens in FEW[1:] for penalty in (0.0, 3e-4)),
    *(Run(width=64, penalty=penalty) for penalty in (0.0, 3e-4)),
    *(Run(width=96, penalty=penalty) for penalty in (0.0, 3e-4)),
    Run(decay=0.3),
    *(Run(tokens=tokens, penalty=1e-3) for tokens in FEW[1:]),
)
