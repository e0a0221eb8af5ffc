"""A deterministic byte automaton: the currency between regex, number and string lexemes.

State 0 is dead and stays dead. Every other state is *live*: from it an accepting state can be
reached (builders trim). ``accept[q]`` is a label: -1 not accepting, otherwise 0.. (plain
automata use 0 only; products of several automata use a bit set of the accepting members).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Dfa:
    """``table``: int32[n, 256] next state; ``accept``: int32[n] label or -1; ``start``: state.

    An automaton of the empty language has ``start == 0``.
    """

    table: npt.NDArray[np.int32]
    accept: npt.NDArray[np.int32]
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return self.table.nbytes + self.accept.nbytes

    @property
    def num_states(self) -> int:
        return len(self.accept)

    @property
    def is_empty(self) -> bool:
        return self.start == 0

    def run(self, data: bytes) -> int:
        """The state after ``data`` (0 when rejected): the obvious definition."""
        state = self.start
        for byte in data:
            state = int(self.table[state, byte])
        return state

    def matches(self, data: bytes) -> bool:
        return bool(self.accept[self.run(data)] >= 0)
