"""Points handed out in chunks whose size follows the time that points take."""

from collections import deque
from collections.abc import Iterable, Iterator

from onehead.sweep.keys import Point
from onehead.sweep.solve import Outcome

__all__ = ["Feed"]

LARGEST = 500
MEMORY = 0.3  # weight of what was known before a batch; small, for the first point of a process also loads its kernels
GROWTH = 4  # a chunk is at most this many times the largest before it, so that a few cheap points do not fool us


class Feed:
    """A queue of points with a sense of how long they take.

    Parameters
    ----------
    points : iterable of Point
    total : int
        How many there are.
    goal : float
        Seconds of work that a chunk should hold. Slower points go out one by one.
    size : int, optional
        A fixed size instead.
    """

    def __init__(self, points: Iterable[Point], total: int, *, goal: float = 0.2, size: int | None = None) -> None:
        self._points: Iterator[Point] = iter(points)
        self._returned: deque[Point] = deque()
        self._suspects: deque[Point] = deque()
        self.left, self.goal, self._fixed = total, goal, size
        self.mean: float | None = None
        self._largest = 1

    def take(self, takers: int = 1) -> list[Point]:
        """The next chunk, small enough that ``takers`` workers all get some; empty when nothing but suspects is left."""
        if self._returned:  # came back from a dead worker: alone, so that one bad point cannot take others along
            self.left -= 1
            return [self._returned.popleft()]
        size = min(self._size(), max(1, self.left // (2 * takers)))
        chunk = [point for _, point in zip(range(size), self._points, strict=False)]
        self.left -= len(chunk)
        return chunk

    def _size(self) -> int:
        if self._fixed is not None:
            return self._fixed
        if self.mean is None:
            return 1
        wish = int(self.goal / max(self.mean, 1e-9))
        self._largest = max(1, min(wish, LARGEST, GROWTH * self._largest))
        return self._largest

    def give_back(self, points: Iterable[Point]) -> None:
        """Points whose worker died; they go out again one by one."""
        for point in points:
            self._returned.append(point)
            self.left += 1

    def suspect(self, point: Point) -> None:
        """A point that was alone in a chunk when its worker died; it goes out last, when nothing else is under way."""
        self._suspects.append(point)
        self.left += 1

    def take_suspect(self) -> list[Point]:
        """The next suspect."""
        self.left -= len(self._suspects) > 0
        return [self._suspects.popleft()] if self._suspects else []

    def learn(self, outcomes: Iterable[Outcome]) -> None:
        """Update the mean duration."""
        durations = [outcome.duration for outcome in outcomes]
        if durations:
            mean = sum(durations) / len(durations)
            self.mean = mean if self.mean is None else MEMORY * self.mean + (1.0 - MEMORY) * mean
