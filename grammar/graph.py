"""Regexes and choices: one automaton that is the whole grammar."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from grammar import automata
from grammar.arena import Arena
from grammar.dfa import Dfa
from grammar.errors import ConstraintSyntaxError, TooComplex, Unsatisfiable
from grammar.options import Limits
from grammar.vocabulary import Vocabulary


class Graph:
    """The states of a Dfa inside an arena, with shortest completions."""

    def __init__(self, arena: Arena, dfa: Dfa) -> None:
        self.dfa = dfa
        self.base = arena.add_graph(dfa.table, dfa.accept >= 0)
        self.root = self.base + dfa.start
        self.distance = automata.distances(dfa)
        arena.graph = self

    def shortest(self, state: int) -> bytes:
        """A shortest completion of an arena state."""
        here = state - self.base
        out = bytearray()
        for _ in range(self.distance[here]):
            out.append(self._nearer[here])
            here = int(self.dfa.table[here, out[-1]])
        return bytes(out)

    def num_bytes_left(self, state: int) -> int:
        """Its length."""
        return int(self.distance[state - self.base])

    @functools.cached_property
    def _nearer(self) -> bytes:
        """For each state the first byte that leads to the state nearest to an end."""
        table = self.dfa.table
        further = np.where(table > 0, self.distance[table], np.iinfo(np.int32).max)
        return bytes(further.argmin(axis=1).astype(np.uint8))


def choice_dfa(choices: Sequence[str], vocabulary: Vocabulary, limits: Limits) -> Dfa:
    """The automaton of some texts. Raises GrammarError subclasses; ``location`` is the index."""
    if not choices:
        message = "a choice needs at least one text"
        raise ConstraintSyntaxError(message, "@0")
    if len(choices) > limits.max_choices:
        message = f"{len(choices)} choices, at most {limits.max_choices}"
        raise TooComplex(message, "@0", "max_choices")
    spelled: dict[bytes, None] = {}
    for i, text in enumerate(choices):
        try:
            spelled[text.encode()] = None
        except UnicodeEncodeError:
            message = "a choice with a lone surrogate has no UTF-8"
            raise ConstraintSyntaxError(message, f"@{i}") from None
    total = sum(map(len, spelled))
    if total > limits.max_choice_bytes:
        message = f"{total} bytes, at most {limits.max_choice_bytes}"
        raise TooComplex(message, "@0", "max_choice_bytes")
    trie = automata.from_strings(list(spelled), limits)
    flat = Dfa(trie.table, np.minimum(trie.accept, 0).astype(np.int32), trie.start)
    return live_only(flat, vocabulary)


def live_only(dfa: Dfa, vocabulary: Vocabulary) -> Dfa:
    """Without the bytes that no token spells. Raises Unsatisfiable, naming them."""
    kept = automata.remove_bytes(dfa, vocabulary.dead_bytes)
    if kept.is_empty:
        message = "no text satisfies the constraint"
        if not dfa.is_empty:
            used = np.flatnonzero((dfa.table > 0).any(axis=0))
            dead = [f"0x{b:02x}" for b in used.tolist() if vocabulary.dead_bytes[b]]
            message += f": this vocabulary has no token for {', '.join(dead[:8])}"
        raise Unsatisfiable(message, "@0")
    return kept
