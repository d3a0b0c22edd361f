"""What queries share in MiniLM: statistics of its tokens and forces of its loss on sources of the standard library.

    python -m studies.minilm_tokens FOLDER [--write]      FOLDER has model.safetensors and vocab.txt

The file minilm-tokens.safetensors that it leaves in out/ is what `onehead weights FOLDER --activations` reads. It needs
PyTorch. The loss is that with which such models are trained: two successive pieces of one file belong together, and the
first has to be matched with the second among the others of a batch, by twenty times the cosine of their mean tokens.
"""

import re
import sys
import sysconfig
from pathlib import Path

import numpy as np
from checks.tool import ROOT, parser, table, write
from safetensors.numpy import load_file, save_file

from onehead.weights import survey
from onehead.weights.summary import Survey
from studies.real_heads.corpus import sources

ASSET = "minilm-tokens.md"
STORE = ROOT / "out" / "minilm-tokens.safetensors"
LAYERS, HEADS, WIDTH = 6, 12, 384
PAIRS, LENGTH, BATCH = 128, 64, 32  # pairs of pieces of this many tokens, and pairs of a batch
PART = 0.5  # above which a direction is more mean than spread of the tokens
WORD = re.compile(r"[a-z0-9]+|[^a-z0-9\s]")
UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"


def word_pieces(text: str, vocabulary: dict[str, int]) -> list[int]:
    """Return the numbers of the longest pieces of every word that are in the vocabulary."""
    found = []
    for word in WORD.findall(text.lower()):
        start, pieces = 0, []
        while start < len(word):
            ends = range(len(word), start, -1)
            mark = "##" if start else ""
            end = next((end for end in ends if mark + word[start:end] in vocabulary), None)
            if end is None:
                pieces = [vocabulary[UNKNOWN]]
                break
            pieces.append(vocabulary[mark + word[start:end]])
            start = end
        found += pieces
    return found


def pairs(vocabulary: dict[str, int]) -> np.ndarray:
    """Return two successive pieces of as many files as needed, of shape (PAIRS, 2, LENGTH)."""
    root, found, body = Path(sysconfig.get_path("stdlib")), [], LENGTH - 2
    for name in sources(root):
        # four bytes of text make at least one piece, so that the start of a file is enough
        numbers = word_pieces((root / name).read_bytes()[: 64 * LENGTH].decode(errors="ignore"), vocabulary)
        if len(numbers) >= 2 * body:
            both = np.array(numbers[: 2 * body]).reshape(2, body)
            ends = [np.full((2, 1), vocabulary[mark]) for mark in (START, END)]
            found.append(np.hstack([ends[0], both, ends[1]]))
    chosen = np.random.default_rng(0).permutation(len(found))[:PAIRS]
    return np.stack([found[place] for place in chosen])


def statistics(folder: Path) -> dict[str, np.ndarray]:
    """Return mean and second moment of the tokens that enter every layer, and the force on the logits of every head."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    weights = {name: torch.from_numpy(value) for name, value in load_file(folder / "model.safetensors").items()}
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    tokens = torch.from_numpy(pairs({word: place for place, word in enumerate(lines)}))

    def affine(name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

    def heads(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def forward(numbers: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        """Return the mean token of every piece, the inputs of all layers, and zeros added to their logits."""
        names = [f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")]
        word, place, kind = (weights[name] for name in names)
        x = norm("embeddings.LayerNorm", word[numbers] + place[: numbers.shape[1]] + kind[0])
        inputs, added = [], []
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            inputs.append(x.detach())
            query, key, value = (heads(affine(f"{at}.attention.self.{side}", x)) for side in ("query", "key", "value"))
            added.append(torch.zeros(len(x), HEADS, x.shape[1], x.shape[1], requires_grad=True))
            logits = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + added[-1]
            mixed = (logits.softmax(-1) @ value).transpose(1, 2).flatten(2)
            x = norm(f"{at}.attention.output.LayerNorm", x + affine(f"{at}.attention.output.dense", mixed))
            inner = functional.gelu(affine(f"{at}.intermediate.dense", x))
            x = norm(f"{at}.output.LayerNorm", x + affine(f"{at}.output.dense", inner))
        return functional.normalize(x.mean(1), dim=-1), inputs, added

    sums: dict[str, torch.Tensor] = {}
    for part in tokens.split(BATCH):
        found, inputs, added = forward(part.flatten(0, 1))
        first, second = found.unflatten(0, (-1, 2)).unbind(1)
        loss = functional.cross_entropy(20.0 * first @ second.T, torch.arange(len(part)), reduction="sum")
        forces = torch.autograd.grad(loss, added)
        for layer, (x, force) in enumerate(zip(inputs, forces, strict=True)):
            rows = x.flatten(0, 1).double()
            new = (rows.sum(0), rows.T @ rows, (force.double() ** 2).sum((0, 2, 3)))
            for name, value in zip(("mean", "second_moment", "logit_force"), new, strict=True):
                sums[f"{layer}.{name}"] = sums.get(f"{layer}.{name}", torch.zeros(())) + value
    return {name: (value / tokens.numel()).numpy() for name, value in sums.items()}


def report(found: Survey) -> str:
    """Return the table of the layers."""
    lines = []
    for layer in range(LAYERS):
        here = [head for head in found if head.layer == layer]
        forces = [head.logit_force for head in here]
        lines.append(
            [
                str(layer),
                f"{np.median([head.unasked_share for head in here]):.2f}",
                f"{sum(head.unasked_parts[0] > PART for head in here)} of {len(here)}",
                f"{np.median([head.unasked_parts[0] for head in here]):.2f}",
                f"{np.median([head.unasked_first for head in here]):.2f}",
                f"{sum(max(head.unasked_parts) > PART for head in here)} of {len(here)}",
                f"{np.median(forces):.2g} ({min(forces):.2g} to {max(forces):.2g})",
                f"{np.median([head.decay_scale for head in here]):.2g}",
            ]
        )
    names = ["layer", "unasked share", "first direction unasked", "part of the first direction"]
    names += ["its share of the unasked field", "any direction unasked", "R", "λ of half the directions"]
    return table(names, lines, (0, 1, 3, 4, 7))


def main() -> int:
    """Collect the statistics unless they are stored, and write the table."""
    options = parser("studies.minilm_tokens", __doc__, f"docs/assets/{ASSET}")
    options.add_argument("folder", type=Path)
    options.add_argument("--store", type=Path, default=STORE)
    arguments = options.parse_args()
    if not arguments.store.exists():
        arguments.store.parent.mkdir(parents=True, exist_ok=True)
        save_file(statistics(arguments.folder), arguments.store)
    found = survey(arguments.folder, fit=False, activations=arguments.store)
    write(ASSET, report(found), wanted=arguments.write)
    for sentence in found.advice:
        print(sentence)
    return 0


if __name__ == "__main__":
    sys.exit(main())
