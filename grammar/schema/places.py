"""The structural states of JSON text under a schema.

A *continuation* (``Root``, ``Member``, ``Element``) says what follows a finished value; it holds
the vector of conjunctions the value is tried against and turns the set of those it satisfied (a
bit set) into the next place. Places hold the continuation of the container they are in, so a
place names the whole stack; equal stacks are the same place.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grammar import lexemes
from grammar.arena import Arena, Shared
from grammar.errors import TooComplex
from grammar.kernels import MAX_COUNT, SPACE, UNKNOWN
from grammar.lexemes import Lexeme
from grammar.schema.goal import Conjunction, Goal
from grammar.schema.node import NUMBER, STRING

if TYPE_CHECKING:
    from grammar.schema.arrays import ArrayAt
    from grammar.schema.program import Program
    from grammar.vocabulary import Vocabulary

QUOTE, COMMA, COLON = 0x22, 0x2C, 0x3A
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = b"{}[]"

#: Longest bound on the characters of a string that alternatives are told apart by.
MAX_TOLD_APART = 1_000

#: (bytes that lead on, state they lead to, None at the end of the text)
Way = tuple[bytes, int | None]
Taken = Container[bytes]


class Continuation:
    """What follows a value. ``vector``: the conjunctions it is tried against; ``merged``:
    nobody needs to know which of them held, only that one did."""

    __slots__ = ("depth", "key", "merged", "program", "vector")

    def __init__(
        self, program: Program, key: Hashable, vector: Goal, depth: int, *, merged: bool
    ) -> None:
        self.program = program
        self.key = key
        self.vector = vector
        self.depth = depth
        self.merged = merged

    def then(self, arena: Arena, bits: int) -> int:
        """The state after a value that satisfied the members ``bits``."""
        raise NotImplementedError


class Root(Continuation):
    """The whole text."""

    def then(self, arena: Arena, bits: int) -> int:
        del bits
        return arena.place(("done",), Done)


class LexemeReturn:
    """After a scalar: label -> bits -> continuation."""

    __slots__ = ("bits", "continuation", "depth")

    def __init__(self, continuation: Continuation, bits: list[int]) -> None:
        self.continuation = continuation
        self.bits = bits
        self.depth = continuation.depth

    def after(self, arena: Arena, label: int) -> int:
        return self.continuation.then(arena, self.bits[label])


class BasePlace:
    """Common parts of places. ``rest``: cached shortest completion of the whole text."""

    accepting = False
    rest: bytes | None = None
    depth: int | None = None
    additional_depth: int | None = None
    starts_key = False
    starts_item = False
    ends_item = False

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        raise NotImplementedError

    def follow(self, arena: Arena, byte: int) -> int:
        raise NotImplementedError

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        """A certified way on: bytes and the state they lead to.

        ``taken``: keys, as spelled, that the innermost object has used and does not list.
        """
        raise NotImplementedError

    def repeated(self, arena: Arena) -> int:
        """See ``grammar.arena.Place``."""
        raise NotImplementedError

    def shared(self, arena: Arena, vocabulary: Vocabulary) -> Shared | None:
        """See ``grammar.arena.Place``."""
        del arena, vocabulary
        return None


class Done(BasePlace):
    """After the text."""

    accepting = True
    depth = 0

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        pass

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        del arena, taken
        return b"", None


class Space(BasePlace):
    """The one space of ``single_space``, before ``target``."""

    def __init__(self, target: int, *, starts_key: bool) -> None:
        self.target = target
        self.starts_key = starts_key

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        del arena
        row[0x20] = self.target

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        del arena, taken
        return b" ", self.target


def spaced(arena: Arena, program: Program, target: int) -> int:
    """``target`` behind the mandatory space, where the spelling has one."""
    if not target or not program.single_space:
        return target
    starts_key = arena.places[target].starts_key
    return arena.place(("space", target), lambda: Space(target, starts_key=starts_key))


def allow_space(program: Program, row: npt.NDArray[np.int32]) -> None:
    """Whitespace of flexible spelling stays in the place."""
    if program.flexible:
        row[program.spaces] = SPACE


class Value(BasePlace):
    """Where a value starts. ``closing``: the array that may also end here, after ``[``."""

    def __init__(
        self,
        continuation: Continuation,
        *,
        space: bool,
        closing: ArrayAt | None = None,
        starts_item: bool = False,
    ) -> None:
        self.continuation = continuation
        self.space = space
        self.closing = closing
        self.starts_item = starts_item
        self.depth = continuation.depth
        self.members = self._members()

    def _members(self) -> list[tuple[int, Conjunction]]:
        """The (bit, conjunction) that may be used; only the cheapest below the depth limit."""
        continuation = self.continuation
        members = list(enumerate(continuation.vector))
        if continuation.depth >= continuation.program.limits.max_depth and members:
            costs = continuation.program.costs
            members = [costs.cheapest(continuation.vector)]
        return members

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        program = self.continuation.program
        deep = self.continuation.depth >= program.limits.max_depth
        types = 0
        for _, member in self.members:
            types |= program.costs.best(member)[1] if deep else member.types
        if deep:
            arena.pruned += 1
        self._literals(arena, row)
        if types & STRING:
            self._scalar(arena, row, "string")
        if types & NUMBER:
            self._scalar(arena, row, "number")
        for kind, byte in (
            (program.shapes.objects, OPEN_OBJECT),
            (program.shapes.arrays, OPEN_ARRAY),
        ):
            if any(kind(member) for _, member in self.members) and self._opens(arena, byte, deep):
                row[byte] = UNKNOWN
        if self.closing is not None and self.closing.close_bits:
            row[CLOSE_ARRAY] = UNKNOWN
        row[program.dead] = 0
        if self.space:
            allow_space(program, row)

    def _opens(self, arena: Arena, byte: int, deep: bool) -> bool:
        del arena
        costs = self.continuation.program.costs
        if not deep:
            return True
        return costs.text(self.members[0][1])[:1] == bytes([byte])

    def _literals(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        program = self.continuation.program
        found: dict[bytes, int] = {}
        for bit, member in self.members:
            for text in program.costs.literals(member):
                found[text] = found.get(text, 0) | 1 << bit
        for text, bits in found.items():
            key = ("literal", text)
            lexeme = program.vocabulary.lexemes.get(key)
            if lexeme is None:
                lexeme = program.vocabulary.lexemes[key] = lexemes.literal(text)
            row[text[0]] = self._enter(arena, lexeme, [bits], 0, MAX_COUNT)

    def _scalar(self, arena: Arena, row: npt.NDArray[np.int32], kind: str) -> None:
        program = self.continuation.program
        scalars = program.scalars
        of = scalars.string_spec if kind == "string" else scalars.number_spec
        specs = [(bit, spec) for bit, m in self.members if (spec := of(m)) is not None]
        if not specs:
            return
        low, high = 0, MAX_COUNT
        try:
            if kind == "string" and (shared := self._plain(arena, specs)) is not None:
                lexeme, bits, low, high = shared
            elif (
                kind == "string"
                and len(specs) == 1
                and (one := scalars.bounded_string(specs[0][1]))
            ):
                (lexeme, high), bits = one, [1 << specs[0][0]]
            else:
                found = scalars.lexeme(kind, specs, merge=self.continuation.merged)
                if found is None:
                    return
                lexeme, bits = found
        except TooComplex:
            arena.pruned += 1
            return
        code = self._enter(arena, lexeme, bits, low, high)
        row[lexeme.starts] = code

    def _plain(
        self, arena: Arena, specs: list[tuple[int, Any]]
    ) -> tuple[Lexeme, list[int], int, int] | None:
        """The shared string lexeme, when every member that matters bounds only the length."""
        scalars = self.continuation.program.scalars
        bits = sum(1 << bit for bit, _ in specs)
        distinct = {spec for _, spec in specs}
        if self.continuation.merged and ("text", (), 0, None) in distinct:
            return scalars.plain_string(), [bits], 0, MAX_COUNT
        if not all(scalars.is_plain(spec) for spec in distinct):
            return None
        low = max(spec[2] for spec in distinct)
        highs = [spec[3] for spec in distinct if spec[3] is not None]
        high = min(highs, default=MAX_COUNT)
        if len(distinct) > 1:
            if max([low, *highs]) <= MAX_TOLD_APART or low > high:
                return None
            # Only lengths within all bounds: telling others apart would take a state for each.
            arena.pruned += 1
        return scalars.plain_string(), [bits], low, high

    def _enter(self, arena: Arena, lexeme: Lexeme, bits: list[int], low: int, high: int) -> int:
        owner = LexemeReturn(self.continuation, bits)
        labels = np.full(lexeme.labels, UNKNOWN, dtype=np.int32)
        key = (self.continuation.key, tuple(bits), low, high)
        rp = arena.return_point(key, owner, labels, low, high)
        return arena.enter(arena.lexeme_base(lexeme) + 1, rp)

    def follow(self, arena: Arena, byte: int) -> int:
        if byte == CLOSE_ARRAY:
            assert self.closing is not None
            return self.closing.close(arena)
        from grammar.schema.arrays import open_array
        from grammar.schema.objects import open_object

        opened = open_object if byte == OPEN_OBJECT else open_array
        return opened(arena, self.continuation, self.members)

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        del taken
        if self.closing is not None and self.closing.close_bits:
            return b"]", self.closing.close(arena)
        if self.starts_item:
            from grammar.schema.arrays import Element, next_item

            assert isinstance(self.continuation, Element), "an item of no array"
            if self.continuation.at.lead is not None:
                return next_item(arena, self.continuation.at)
        costs = self.continuation.program.costs
        bit, member = costs.cheapest(self.continuation.vector)
        return costs.text(member), self.continuation.then(arena, 1 << bit)
