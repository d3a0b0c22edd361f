"""The head: query-key map and attention of teacher and learner on one sequence, sampled from the theory."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.state import State
from onehead.app.views.base import (
    Line,
    Number,
    Panel,
    Picture,
    Report,
    View,
    badge_from,
    draft_numbers,
    failure_report,
    fill_placeholders,
    numbers,
    predict_at_knobs,
    solving_placeholder,
)
from onehead.app.views.code_snippets import code_snippets
from onehead.app.views.head_drawing import KEY_WORDS, QUERY_WORDS, HeadPanels, draw_head
from onehead.errors import OneheadError

Array = NDArray[np.float64]

DIM = 24  # dimension of the sampled tokens
MIN_TOKENS_SHOWN = 8  # tokens of the sampled sequence; more if the task has more
SEED = 7
GAUSSIAN_KURTOSIS = 3.0
MAX_FACTOR_ROWS = 5 * DIM  # of the factors of a target, for a page that draws it itself
CAPTION = (
    f"Sampled from the theory, not trained: d = {DIM}, one sequence of {{tokens}} tokens, one seed. The learner's map "
    f"is the target plus noise of variance s, with {{value}}s below ε set to zero and the others shrunk by ε and "
    f"scaled by c, as the theory predicts for a head trained at this α. Grey is the teacher, blue the learner. The "
    f"words only label the tokens, which are random vectors."
)
LINES: tuple[Line, ...] = (
    ("Test error", "", "test_error", "on fresh samples"),
    ("Rank", "", "rank", "share of {value}s of S that are not zero"),
    ("Overlap", "m", "m", "Tr S'S*/d"),
    ("Size", "q", "q", "|S|²/d"),
    ("Noise variance", "s", "spread", "added to the target"),
    ("Soft threshold", "ε", "threshold", "set by weight decay"),
    ("Slope", "c", "slope", "scale of learned {value}s"),
)
SHARE_LEARNED = "of the target's variance, in the maps drawn: 1 − |βS − β₀S*|²/|β₀S*|²"
DRAFT_LINES: tuple[Line, ...] = (
    ("Test error", "", "test_error", "on fresh samples"),
    ("Rank", "", "rank", "share of {value}s of S that are not zero"),
    ("Noise variance", "s", "map.s", "added to the target"),
    ("Soft threshold", "ε", "map.eps", "set by weight decay"),
)


class Law(NamedTuple):
    """Parameters of the law of a trained map.

    With x the eigenvalues (singular values) of the target plus noise of variance ``spread``, those of the trained map
    are slope (x - threshold) where x > cut, and zero elsewhere. The trained map of an ``empty`` law is zero.
    """

    spread: float
    threshold: float
    cut: float
    slope: float
    empty: bool


class Scene(NamedTuple):
    """Random arrays that do not depend on α: target, noise, tokens, and for cross-attention key tokens, else None."""

    target: Array
    noise: Array
    tokens: Array
    keys: Array | None


@lru_cache(maxsize=64)
def scene(task: Task, dim: int, tokens: int) -> Scene:
    """Sample a target, noise and a sequence of tokens from a fixed seed."""

    target_rng, noise_rng, token_rng = (np.random.default_rng([SEED, child]) for child in range(3))
    target = task.target.draw(dim, target_rng, tied=task.tied)
    noise = noise_rng.standard_normal((dim, dim))
    noise = (noise + noise.T) / np.sqrt(2.0 * dim) if task.tied else noise / np.sqrt(dim)
    sequences = token_rng.standard_normal((2, tokens, 1, dim))
    return Scene(target, noise, sequences[0], sequences[1] if task.attention == "cross" else None)


def random_numbers() -> dict[str, Any]:
    """Return the random numbers of the picture as lists, for a page that draws it itself."""
    target, noise, tokens = (np.random.default_rng([SEED, child]) for child in range(3))
    sequences = tokens.standard_normal((2, MIN_TOKENS_SHOWN, DIM))
    return {
        "normal": target.standard_normal(MAX_FACTOR_ROWS * DIM).round(4).tolist(),
        "noise": noise.standard_normal((DIM, DIM)).round(4).tolist(),
        "tokens": sequences[0].round(4).tolist(),
        "keys": sequences[1].round(4).tolist(),
        "words": [list(QUERY_WORDS), list(KEY_WORDS)],
    }


def sampled_map(task: Task, learner: Learner, law: Law, target: Array, noise: Array) -> Array:
    """Return a sample of the trained map: target plus noise, its spectrum soft-thresholded and scaled."""
    if law.empty:
        return np.zeros_like(target)
    if law.spread <= 0.0:  # without noise the target is recovered
        return np.asarray(task.beta0 / learner.beta * target)
    noisy = task.beta0 * target + np.sqrt(law.spread) * noise
    if task.tied:
        x, left = np.linalg.eigh(noisy)
        right = left
    else:
        left, x, right_t = np.linalg.svd(noisy)
        right = right_t.T
    values = np.where(x > law.cut, law.slope * (x - law.threshold), 0.0)
    return np.asarray((left * values) @ right.T)


def _attention(task: Task, S: Array, beta: float, found: Scene) -> Array:
    from onehead.aim.training.data import labels

    # the mask of a longer sequence: tokens of another kurtosis have a theory for two tokens only
    long = task.changed(tokens=len(found.tokens), kurtosis=GAUSSIAN_KURTOSIS)
    return np.asarray(labels(S, found.tokens, beta, None, keys=found.keys, visible=long.visible)[0])


def _values(task: Task, S: Array) -> list[float]:
    """Return eigenvalues of a tied map or singular values of an untied one, largest first."""
    found = np.linalg.eigvalsh(S) if task.tied else np.linalg.svd(S, compute_uv=False)
    return sorted(found.tolist(), reverse=True)


def draft(state: State) -> Picture:
    """Return the picture for a draft of the prediction."""
    from onehead.app.drafts.curves import draft_point  # loads the theory

    found = draft_point(state.task, state.learner, state["alpha"])
    if found is None:
        return solving_placeholder()
    s, eps, cut, slope = found.map
    law = Law(s, eps, cut, slope / state.learner.beta, found.rank == 0.0)
    shown = draft_numbers(found, *fill_placeholders(state, *(DRAFT_LINES[:2] if law.empty else DRAFT_LINES)))
    return replace(_picture(state, law, exact=False), numbers=(*shown, _share_number(state, law)))


def picture(state: State) -> Picture:
    """Return the picture for the exact prediction."""
    point = predict_at_knobs(state)
    return _picture(state, _law(point), exact=True)


def _law(point: Any) -> Law:
    return Law(point.spread, point.threshold, point.cut, point.slope, point.rank == 0.0)


def share_learned(target: Array, S: Array, ratio: float) -> float:
    """Return the share of the target's variance that a map explains: 1 - ``|ratio S - S*|²/|S*|²``.

    It is one where ``ratio S`` is the target, zero where S = 0, and negative where S is further from the target than
    that. ``ratio`` is the learner's inverse temperature in units of the target's.

    Examples
    --------
    >>> target = np.diag([2.0, 1.0])
    >>> share_learned(target, target / 4.0, 1.0), share_learned(target, -target, 1.0)
    (0.4375, -3.0)
    """
    return 1.0 - float(np.sum((ratio * S - target) ** 2) / np.sum(target**2))


def _share_number(state: State, law: Law) -> Number:
    found, S = _sampled(state, law)
    share = share_learned(found.target, S, state.learner.beta / state.task.beta0)
    return Number("Share learned", "", f"{share:.3f}", SHARE_LEARNED)


def _sampled(state: State, law: Law) -> tuple[Scene, Array]:
    """Return the random arrays of the picture and a sample of the trained map."""
    found = scene(state.task, DIM, max(MIN_TOKENS_SHOWN, state["tokens"]))
    return found, sampled_map(state.task, state.learner, law, found.target, found.noise)


def _picture(state: State, law: Law, *, exact: bool) -> Picture:
    task, learner = state.task, state.learner
    found, S = _sampled(state, law)
    teacher = _attention(task, found.target, task.beta0, found)
    learned = _attention(task, S, learner.beta, found)
    caption = CAPTION.format(value=task.spectral_value, tokens=len(found.tokens))
    if task.kurtosis != GAUSSIAN_KURTOSIS:
        caption += f" The tokens drawn here are Gaussian; the map is that of tokens of kurtosis {task.kurtosis:g}."
    rows = [
        {"query": i + 1, "key": j + 1, "teacher": float(teacher[i, j]), "learner": float(learned[i, j])}
        for i, j in np.ndindex(teacher.shape)
    ]
    values = _values(task, found.target), _values(task, S)
    chart = draw_head(HeadPanels((found.target, S), (teacher, learned), values, task.spectral_value), task.attention)
    return Picture(chart, caption, rows, exact=exact)


def report(state: State) -> Report:
    """Return the exact numbers of the theory, and overlap and size of the sampled map."""
    try:
        point = predict_at_knobs(state)
    except OneheadError as error:
        return failure_report(error)
    found, S = _sampled(state, _law(point))
    size, overlap = float(np.sum(S**2)) / DIM, float(np.sum(S * found.target)) / DIM
    own = (
        ("Overlap of the sample", "", lambda _: overlap, f"at d = {DIM}; the theory holds for large d"),
        ("Size of the sample", "", lambda _: size, f"at d = {DIM}"),
    )
    rows = numbers(point, *fill_placeholders(state, *LINES), *own)
    return Report(badge_from(point.certificate), (*rows, _share_number(state, _law(point))))


code = code_snippets(
    "aim",
    "point = oh.aim.predict(task, head, alpha={alpha!r})\n"
    "print(point.spread, point.threshold, point.slope)   # s, ε, c of the sampled map\n"
    "print(point.q, point.m)",
    "predict --alpha {alpha!r}",
)
ABOUT = (
    "Left: the teacher. Beside it: a head trained on α d² labelled sequences, on the same sequence. Drag α and watch "
    "features appear in the map; point at a token for its row of attention."
)
FORMULA = r"\mathrm{attention}=\mathrm{softmax}\big(\beta\,x^\top \role{theory}{S}\,x/\sqrt d\big),\qquad\allowbreak "
NOISY = r"\role{target}{S^\star}+\role{third}{\sqrt s\,G}"
# lines of a narrow screen break between the equations, which stand in braces
SHRUNK = rf"{{\role{{theory}}{{S}}=\role{{theory}}{{c}}\,\big({NOISY}-\role{{second}}{{\epsilon}}\big)_+}}"
VIEW = View(
    name="head",
    title="The head",
    about=ABOUT,
    formula=FORMULA + SHRUNK,
    problems=(MarchenkoPastur, Task, Learner),
    own=("alpha",),
    panels={"": Panel(draft, report, picture, code)},
    plays="alpha",
    verb="sample",  # the picture is a sample of one map
)
