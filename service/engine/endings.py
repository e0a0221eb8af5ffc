"""Which tokens may end an answer, where: end-of-sequence tokens and the caller's stop tokens.

    EOS           where the constraint accepts (its mask says so); under a unit with BEST_EFFORT
                  anywhere, as without a constraint; not with ignore_eos
    stop token    without a constraint, or with BEST_EFFORT, anywhere; else where the text as
                  returned is accepted. Elsewhere it is masked, and only written as text where the
                  constraint allows nothing else
    neither       before min_tokens

A bit stays where clearing it would leave nothing: what can only end, ends.

Everything here is about the mask of the next token; the decoder then ends what ``may_stop`` at the
token that was sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from service.engine.sequence import Sequence as Row

_Words = npt.NDArray[np.uint32]


class Endings:
    """For one model. Masks are uint32[words], bit i%32 of word i//32."""

    def __init__(
        self, eos_ids: Sequence[int], logit_size: int, token_bytes: Callable[[int], bytes]
    ) -> None:
        self.eos_ids = frozenset(eos_ids)
        self._size = logit_size
        self._token_bytes = token_bytes
        self._eos_words = self._words(self.eos_ids)

    def restrict(self, mask: _Words, row: Row) -> bool:
        """Sets and clears the bits of tokens that may or may not end ``row`` now.

        ``mask`` is what the constraint allows, or every token. True if a bit was cleared.
        """
        stopping = row.request.stopping
        too_short = row.num_output < stopping.min_tokens
        if row.is_unit and not row.request.guaranteed:
            mask |= self._eos_words
        if not (too_short or stopping.ignore_eos or row.stop_ids):
            return False
        if row.stop_ids:
            self._restrict_stops(mask, row)
        if too_short:
            _clear(mask, self._words(self.eos_ids | row.stop_ids))
        elif stopping.ignore_eos:
            _clear(mask, self._words(self.eos_ids - row.stop_ids))
        return True

    def may_stop(self, row: Row, token: int) -> bool:
        """Whether ``token``, just sampled, ends the answer as a stop token."""
        if token not in row.stop_ids:
            return False
        if row.matcher is None:
            return True
        if row.request.guaranteed and not self._is_accepted(row, token):
            return False
        too_short = row.num_output < row.request.stopping.min_tokens
        return not (too_short and row.matcher.fork().advance(token))  # rather text, if it may be

    def is_returned(self, row: Row, token: int) -> bool:
        """Whether the stop token is part of the output."""
        return row.request.stopping.include_stop_in_output and bool(self._token_bytes(token))

    def _restrict_stops(self, mask: _Words, row: Row) -> None:
        stops = self._words(row.stop_ids)
        if row.matcher is None or not row.request.guaranteed:
            mask |= stops
            return
        legal = self._words(t for t in row.stop_ids if self._is_legal(mask, row, t))
        mask |= legal
        _clear(mask, stops & ~legal)

    def _is_legal(self, mask: _Words, row: Row, token: int) -> bool:
        if self.is_returned(row, token) and not mask[token >> 5] >> np.uint32(token & 31) & 1:
            return False
        return self._is_accepted(row, token)

    def _is_accepted(self, row: Row, token: int) -> bool:
        """Whether the constraint accepts the text as returned if ``token`` stops it."""
        assert row.matcher is not None
        if not self.is_returned(row, token):
            return row.matcher.is_complete
        after = row.matcher.fork()
        return after.advance(token) and after.is_complete

    def _words(self, tokens: Iterable[int]) -> _Words:
        """The mask of some tokens."""
        words = np.zeros((self._size + 31) // 32, dtype=np.uint32)
        for token in tokens:
            words[token >> 5] |= np.uint32(1 << (token & 31))
        return words


def _clear(mask: _Words, bits: _Words) -> None:
    """Clears the bits, unless there are no others."""
    others = mask & ~bits
    if others.any():
        mask[:] = others
