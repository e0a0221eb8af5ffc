"""Whether a guessed token is worth its computing.

A step takes a constant (reading the weights) and so much for each position. A guess that is right
saves its row a step: the constant, shared with the other rows that would have been in it. A wrong
one cost its positions for nothing:

    worth it while    chance * constant / rows  >  (1 - chance) * positions * slope

With many rows, or where positions are dear, only a guess that is nearly certain passes; so drafts
end by themselves where they do not pay. Both sides are measured: the costs by a regression over
the last steps, the chances by how often guesses were right after as much text that agreed.
"""

from __future__ import annotations

_LENGTHS = (8, 16)  # bytes that agreed; the classes of guesses are below, between and from there
_EXPECTED = (0.5, 0.7, 0.85)  # chances before anything was measured
_EXPECTED_WEIGHT = 4.0  # guesses that this expectation counts as
_MEMORY = 0.98  # of a guess when the next one comes
_RECOVERY = 0.99  # of what was measured, each time that it made a guess be left out

_SLOPE = 0.2  # of the constant, before steps of several sizes were measured
_STEP_MEMORY = 0.98
_LEAST_VARIANCE = 0.1  # of the positions of steps, to make out a slope


class StepCost:
    """Seconds of a step by its positions, from the last hundred steps or so."""

    def __init__(self) -> None:
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def add(self, positions: int, seconds: float) -> None:
        """A step was measured."""
        self._n = self._n * _STEP_MEMORY + 1
        self._x = self._x * _STEP_MEMORY + positions
        self._y = self._y * _STEP_MEMORY + seconds
        self._xx = self._xx * _STEP_MEMORY + positions * positions
        self._xy = self._xy * _STEP_MEMORY + positions * seconds

    @property
    def slope(self) -> float:
        """Seconds for a position, over the constant; at least a little."""
        if not self._n or not self._y:
            return _SLOPE
        x, y = self._x / self._n, self._y / self._n
        variance = self._xx / self._n - x * x
        if variance < _LEAST_VARIANCE:
            return _SLOPE
        slope = (self._xy / self._n - x * y) / variance
        constant = y - slope * x
        return min(max(slope / max(constant, 0.05 * y), 0.01), 10.0)


class Chances:
    """How often guesses are right, by how many bytes agreed before them.

    ``parent``: those of all requests, which the first guesses of one are judged by.
    """

    def __init__(self, parent: Chances | None = None) -> None:
        self._parent = parent
        self._right = [0.0] * (len(_LENGTHS) + 1)
        self._tried = [0.0] * (len(_LENGTHS) + 1)

    def of(self, length: int) -> float:
        """The chance of a guess after ``length`` bytes that agreed."""
        return self._of(_kind(length))

    def _of(self, kind: int) -> float:
        expected = self._parent._of(kind) if self._parent else _EXPECTED[kind]  # noqa: SLF001
        right = self._right[kind] + expected * _EXPECTED_WEIGHT
        return right / (self._tried[kind] + _EXPECTED_WEIGHT)

    def learn(self, length: int, *, right: bool) -> None:
        """A guess was right, or wrong."""
        kind = _kind(length)
        self._right[kind] = self._right[kind] * _MEMORY + right
        self._tried[kind] = self._tried[kind] * _MEMORY + 1
        if self._parent:
            self._parent.learn(length, right=right)

    def forget(self, length: int) -> None:
        """A guess was left out: times change, so it will be tried again some day."""
        kind = _kind(length)
        self._right[kind] *= _RECOVERY
        self._tried[kind] *= _RECOVERY
        if self._parent:
            self._parent.forget(length)


def is_worth(chance: float, positions: int, slope: float, rows: int) -> bool:
    """See the module; ``slope`` is over the constant."""
    return chance / rows > (1 - chance) * positions * slope


def _kind(length: int) -> int:
    return sum(length >= least for least in _LENGTHS)
