"""Queue that hands out points in chunks, whose size follows the time that points take."""

from collections import deque
from collections.abc import Iterable, Iterator

from onehead.sweep.solve import Outcome
from onehead.sweep.storage.keys import Point

MAX_CHUNK_SIZE = 500
# Weight of the old mean when a batch updates it; small, because the first point of a process also loads its kernels.
OLD_MEAN_WEIGHT = 0.3
MAX_CHUNK_GROWTH = 4  # ratio of a chunk to the largest before it, so that a few cheap points do not make a huge chunk


class PointQueue:
    """Points that wait to be solved, with a running mean of their durations.

    Parameters
    ----------
    points : iterable of Point
        The points, in order.
    total : int
        Number of points.
    goal : float
        Seconds of work that a chunk should hold. Points that take longer are handed out one by one.
    size : int, optional
        Fixed number of points in a chunk, in place of ``goal``.
    """

    def __init__(self, points: Iterable[Point], total: int, *, goal: float = 0.2, size: int | None = None) -> None:
        self._points: Iterator[Point] = iter(points)
        self._returned: deque[Point] = deque()
        self._suspects: deque[Point] = deque()
        self.remaining, self.goal, self._fixed_size = total, goal, size
        self.mean_duration: float | None = None
        self._largest_chunk = 1

    def take(self, workers: int = 1) -> list[Point]:
        """The next chunk, small enough that all ``workers`` get some; empty when only suspects are left."""
        if self._returned:  # its worker died: handed out alone, so that one bad point cannot take others along
            self.remaining -= 1
            return [self._returned.popleft()]
        size = min(self._chunk_size(), max(1, self.remaining // (2 * workers)))
        chunk = [point for _, point in zip(range(size), self._points, strict=False)]
        self.remaining -= len(chunk)
        return chunk

    def _chunk_size(self) -> int:
        if self._fixed_size is not None:
            return self._fixed_size
        if self.mean_duration is None:
            return 1
        wanted = int(self.goal / max(self.mean_duration, 1e-9))
        self._largest_chunk = max(1, min(wanted, MAX_CHUNK_SIZE, MAX_CHUNK_GROWTH * self._largest_chunk))
        return self._largest_chunk

    def give_back(self, points: Iterable[Point]) -> None:
        """Queue the points of a dead worker again; they are handed out one by one."""
        for point in points:
            self._returned.append(point)
            self.remaining += 1

    def defer_suspect(self, point: Point) -> None:
        """Queue a point that was alone when its worker died; it is handed out last, when nothing else runs."""
        self._suspects.append(point)
        self.remaining += 1

    def take_suspect(self) -> list[Point]:
        """The next suspect as a chunk of one point; empty if there is none."""
        self.remaining -= len(self._suspects) > 0
        return [self._suspects.popleft()] if self._suspects else []

    def record_durations(self, outcomes: Iterable[Outcome]) -> None:
        """Update the mean duration with that of a batch of outcomes."""
        durations = [outcome.duration for outcome in outcomes]
        if not durations:
            return
        mean, old = sum(durations) / len(durations), self.mean_duration
        self.mean_duration = mean if old is None else OLD_MEAN_WEIGHT * old + (1.0 - OLD_MEAN_WEIGHT) * mean
