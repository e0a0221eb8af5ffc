"""Guesses the next tokens of a row, so that one step can check several (decision 13).

A draft begins after the tokens that are to be fed anyway. Its guesses come from ``lookup``; a fork
of the row's matcher leaves out what the constraint forbids, and adds what it forces after a guess:

    draft       g f f g g f          g a guess, f forced after it
    logits  ^     ^ ^   ^ ^ ^        wanted before each guess, and after the last token

Here nothing is decided: ``feeding`` compares the guesses with what is chosen from the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from service.engine.lookup import Lookup, Spell
from service.engine.sequence import Drafting, Sequence
from service.engine.worth import Chances, StepCost, is_worth

# Of a draft: longer ones are rarely right to their end, and the next step makes another.
MAX_DRAFT = 16


class Guess(NamedTuple):
    """A guessed token: its place in the draft, and how many bytes agreed before it."""

    place: int
    length: int


class Draft(NamedTuple):
    """``token_ids``, of which those not in ``guesses`` are forced by the one before."""

    token_ids: list[int]
    guesses: list[Guess]


class Drafter:
    """Makes drafts as long as they are worth it. ``token_bytes``, ``spell``: see ``lookup``.

    ``always``: as long as there is something to guess, whatever it costs.
    """

    def __init__(
        self, token_bytes: Callable[[int], bytes], spell: Spell, *, always: bool = False
    ) -> None:
        self.cost = StepCost()
        self._token_bytes = token_bytes
        self._spell = spell
        self._always = always
        self._chances = Chances()

    def draft(self, sequence: Sequence, *, rows: int, most: int) -> Draft | None:
        """At most ``most`` tokens, in a step of ``rows`` rows; None where no guess is worth it."""
        most = min(most, MAX_DRAFT, sequence.remaining - 1)
        if most < 1:
            return None
        if sequence.drafting is None:
            lookup = Lookup(self._token_bytes, self._spell)
            sequence.drafting = Drafting(lookup, Chances(self._chances))
        lookup = sequence.drafting.lookup
        lookup.extend(sequence.token_ids[len(lookup) :])
        draft = self._guess(sequence, sequence.drafting, rows, most)
        lookup.truncate(len(sequence.token_ids))
        return draft if draft.guesses else None

    def learn(self, sequence: Sequence, guess: Guess, *, right: bool) -> None:
        """What became of a guess."""
        assert sequence.drafting is not None
        sequence.drafting.chances.learn(guess.length, right=right)
        sequence.num_accepted += right

    def _guess(self, sequence: Sequence, drafting: Drafting, rows: int, most: int) -> Draft:
        lookup, chances = drafting
        draft = Draft([], [])
        matcher = sequence.matcher.fork() if sequence.matcher is not None else None
        source: Iterator[int] = iter(())
        chance, length = 1.0, 0
        while True:
            token = next(source, None)
            if token is None:
                match = lookup.find()
                if match is None:
                    return draft
                length = match.length
                source = lookup.following(match.position)
                token = next(source, None)
            data = self._token_bytes(token) if token is not None else b""
            if token is None or not data or (matcher is not None and not matcher.advance(token)):
                return draft
            run = [token]
            finished = matcher is not None and matcher.is_finished
            if matcher is not None and not finished:
                left = sequence.remaining - len(draft.token_ids) - 1
                budget = left if sequence.request.guaranteed else None
                run += matcher.forced_tokens(budget)
            if len(draft.token_ids) + len(run) > most:
                return draft
            chance *= chances.of(length)
            if not (self._always or is_worth(chance, len(run), self.cost.slope, rows)):
                chances.forget(length)
                return draft
            draft.guesses.append(Guess(len(draft.token_ids), length))
            draft.token_ids.extend(run)
            lookup.extend(run)
            length += len(data)
            if finished:
                return draft
            for forced in run[1:]:
                assert matcher is not None
                matcher.advance(forced)
                source = iter(())  # what was forced may stand elsewhere than where we read
