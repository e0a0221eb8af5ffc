"""Inside an object: which alternatives are alive and which keys have been used.

Used keys are a bit set over the names of all alternatives (order "any") or just the position in
them (order "schema": every later key stays reachable, earlier ones are gone).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from grammar import kernels
from grammar.arena import Arena
from grammar.kernels import MAX_COUNT, UNKNOWN
from grammar.schema.arrays import sum_bits
from grammar.schema.goal import Conjunction, Goal
from grammar.schema.places import (
    CLOSE_OBJECT,
    COLON,
    COMMA,
    QUOTE,
    BasePlace,
    Continuation,
    Value,
    Way,
    allow_space,
    spaced,
)
from grammar.schema.shape import ObjectSpec
from grammar.schema.vector import Mapping, vector_of

if TYPE_CHECKING:
    from grammar.lexemes import KeyLexeme
    from grammar.schema.program import Program

Flags = npt.NDArray[np.bool_]


def open_object(
    arena: Arena, continuation: Continuation, members: list[tuple[int, Conjunction]]
) -> int:
    """The state after ``{``."""
    program = continuation.program
    alternatives = tuple((bit, spec) for bit, m in members for spec in program.shapes.objects(m))
    shape = shape_of(program, tuple(spec for _, spec in alternatives))
    alive = sum_bits(i for i, ok in enumerate(shape.satisfiable) if ok)
    if not alive:
        return 0
    at = ObjectAt(arena, continuation, shape, tuple(bit for bit, _ in alternatives), alive, 0)
    return arena.place(("object", at.key, "open"), lambda: Keys(at, first=True))


class Shape:
    """The names of several specifications together, and their key lexeme.

    ``names``: those that can be spelled, in generation order; label ``len(names)`` is any other
    key. ``permits`` bool[alternatives, names + 1]: whether an alternative allows the key at all;
    ``required`` bool[alternatives, names].
    """

    def __init__(self, program: Program, specs: tuple[ObjectSpec, ...]) -> None:
        self.program = program
        self.specs = specs
        merged = dict.fromkeys(name for spec in specs for name in spec.names)
        spelled = {name: text for name in merged if (text := program.key_text(name))}
        self.names = tuple(spelled)
        self.texts = list(spelled.values())
        self.index = {name: i for i, name in enumerate(self.names)}
        n = len(self.names)
        costs = program.costs
        self.permits = np.zeros((len(specs), n + 1), dtype=np.bool_)
        self.required = np.zeros((len(specs), n), dtype=np.bool_)
        self.satisfiable: list[bool] = []
        for row, spec in enumerate(specs):
            listed = set(spec.names)
            other = bool(spec.other) and costs.satisfiable(spec.other)
            self.permits[row, n] = other
            for i, name in enumerate(self.names):
                self.permits[row, i] = (
                    costs.satisfiable(spec.goal(name)) if name in listed else other
                )
                self.required[row, i] = name in spec.required
            self.satisfiable.append(
                all(
                    name in self.index and self.permits[row, self.index[name]]
                    for name in spec.required
                )
            )
        self.is_open = bool(self.permits[:, n].any()) and program.can_spell_keys
        self.permits[:, n] &= self.is_open
        self.lexeme = program.key_lexeme([text[1:-1] for text in self.texts], self.is_open)

    @functools.cached_property
    def closed(self) -> KeyLexeme:
        """The same labels where no other key is allowed (before a required one, in order)."""
        return self.program.key_lexeme([text[1:-1] for text in self.texts], is_open=False)

    def goal(self, alternative: int, label: int) -> Goal:
        spec = self.specs[alternative]
        if label < len(self.names) and self.names[label] in spec.names:
            return spec.goal(self.names[label])
        return spec.other


def shape_of(program: Program, specs: tuple[ObjectSpec, ...]) -> Shape:
    """The shape of some specifications, made once."""
    key = tuple(spec.number for spec in specs)
    shape = program.object_shapes.get(key)
    if shape is None:
        shape = program.object_shapes[key] = Shape(program, specs)
    return shape


class ObjectAt:
    """A position between members. ``used``: bit set of names, or the next position in order."""

    def __init__(
        self,
        arena: Arena,
        outer: Continuation,
        shape: Shape,
        bits: tuple[int, ...],
        alive: int,
        used: int,
    ) -> None:
        self.outer = outer
        self.shape = shape
        self.bits = bits
        self.alive = alive
        self.used = used
        specs = tuple(spec.number for spec in shape.specs)
        self.key = arena.number(("object", outer.key, specs, bits, alive, used))
        self._allowed: Flags | None = None

    @property
    def program(self) -> Program:
        return self.outer.program

    @property
    def ordered(self) -> bool:
        return self.program.options.property_order == "schema"

    def living(self) -> list[int]:
        return [i for i in range(len(self.bits)) if self.alive >> i & 1]

    def missing(self, alternative: int) -> npt.NDArray[np.int64]:
        """Labels of the required names still to come, in order."""
        found = np.flatnonzero(self.shape.required[alternative])
        if self.ordered:
            return found[np.searchsorted(found, self.used) :]
        return np.array([i for i in found.tolist() if not self.used >> i & 1], dtype=np.int64)

    def allowed_by(self, alternative: int) -> Flags:
        """bool[names + 1]: labels that an alternative allows now."""
        allowed: Flags = self.shape.permits[alternative].copy()
        if self.outer.depth >= self.program.limits.max_depth:  # only what ends the object
            needed = np.zeros_like(allowed)
            needed[self.missing(alternative)] = True
            allowed &= needed
        if not self.ordered:
            used = self.used
            while used:
                low = used & -used
                allowed[low.bit_length() - 1] = False
                used ^= low
            return allowed
        allowed[: self.used] = False
        missing = self.missing(alternative)
        if len(missing):
            allowed[missing[0] + 1 :] = False  # nothing after a required name before it
        return allowed

    @property
    def allowed(self) -> Flags:
        """bool[names + 1]: labels that some living alternative allows now."""
        if self._allowed is None:
            living = self.living()
            allowed = self.allowed_by(living[0])
            for alternative in living[1:]:
                allowed |= self.allowed_by(alternative)
            self._allowed = allowed
        return self._allowed

    @property
    def close_bits(self) -> int:
        return sum_bits(self.bits[i] for i in self.living() if not len(self.missing(i)))

    def close(self, arena: Arena) -> int:
        return self.outer.then(arena, self.close_bits)

    def member(self, arena: Arena, label: int) -> Member:
        """The continuation of the value under a key."""
        goals = [
            (i, self.shape.goal(i, label)) for i in self.living() if self.allowed_by(i)[label]
        ] if len(self.bits) > 1 else [(0, self.shape.goal(0, label))]  # fmt: skip
        vector, mapping = vector_of(goals)
        return Member(arena, self, label, vector, mapping)

    def after(self, arena: Arena, label: int, alive: int) -> ObjectAt:
        """The position after a member."""
        if self.ordered:
            used = min(label + 1, len(self.shape.names))
        else:
            used = self.used | (1 << label if label < len(self.shape.names) else 0)
        return ObjectAt(arena, self.outer, self.shape, self.bits, alive, used)

    def enter_key(self, arena: Arena) -> int:
        """The code that starts a key, 0 where none is allowed."""
        allowed = self.allowed
        if not allowed.any():
            return 0
        lexeme = self.shape.lexeme if allowed[-1] else self.shape.closed
        base = arena.lexeme_base(lexeme)
        arena.has_open_keys |= self.shape.is_open
        arena.max_names = max(arena.max_names, len(self.shape.names))
        labels = np.where(allowed, UNKNOWN, 0).astype(np.int32)
        key = ("key", self.key)
        rp = arena.return_point(key, KeyReturn(self), labels, 0, MAX_COUNT)
        if not allowed[-1] and arena.rps[rp, kernels.ALIVE] < 0:
            alive = np.zeros(len(lexeme.span), dtype=np.uint8)
            kernels.alive_nodes(lexeme.span, allowed[:-1][lexeme.order].astype(np.uint8), alive)
            arena.set_alive(rp, alive, base + lexeme.trie_base)
        return arena.enter(base + 1, rp)


class KeyReturn:
    """After a key's closing quote."""

    __slots__ = ("at", "depth")

    def __init__(self, at: ObjectAt) -> None:
        self.at = at
        self.depth = at.outer.depth + 1

    def after(self, arena: Arena, label: int) -> int:
        member = self.at.member(arena, label)
        return arena.place(("colon", member.key), lambda: Colon(member))


class Member(Continuation):
    """After a member's value."""

    __slots__ = ("at", "label", "mapping")

    def __init__(
        self, arena: Arena, at: ObjectAt, label: int, vector: Goal, mapping: Mapping
    ) -> None:
        merged = len({bits for _, bits in mapping}) == 1
        key = arena.number(("member", at.key, label))
        super().__init__(at.program, key, vector, at.outer.depth + 1, merged=merged)
        self.at = at
        self.label = label
        self.mapping = mapping

    def then(self, arena: Arena, bits: int) -> int:
        alive = sum_bits(i for i, mine in self.mapping if mine & bits)
        if not alive:
            return 0
        after = self.at.after(arena, self.label, alive)
        return arena.place(("object", after.key, "after"), lambda: AfterMember(after))


class Colon(BasePlace):
    """After a key."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.depth = member.depth
        if member.label == len(member.at.shape.names):
            self.additional_depth = member.depth

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        del arena
        row[COLON] = UNKNOWN
        allow_space(self.member.program, row)

    def follow(self, arena: Arena, byte: int) -> int:
        del byte
        member = self.member
        value = arena.place(("value", member.key), lambda: Value(member, space=True))
        return spaced(arena, member.program, value)

    def way(self, arena: Arena) -> Way:
        program = self.member.program
        bit, conjunction = program.costs.cheapest(self.member.vector)
        return program.colon + program.costs.text(conjunction), self.member.then(arena, 1 << bit)


class Keys(BasePlace):
    """Where a key starts; ``first``: after ``{``, where the object may also end."""

    starts_key = True

    def __init__(self, at: ObjectAt, *, first: bool) -> None:
        self.at = at
        self.first = first
        self.depth = at.outer.depth + 1

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        row[QUOTE] = self.at.enter_key(arena)
        if self.first and self.at.close_bits:
            row[CLOSE_OBJECT] = UNKNOWN
        allow_space(self.at.program, row)

    def follow(self, arena: Arena, byte: int) -> int:
        del byte
        return self.at.close(arena)

    def way(self, arena: Arena) -> Way:
        if self.first and self.at.close_bits:
            return b"}", self.at.close(arena)
        return next_member(arena, self.at)


class AfterMember(BasePlace):
    """After a member: ``,`` or ``}``."""

    def __init__(self, at: ObjectAt) -> None:
        self.at = at
        self.depth = at.outer.depth + 1

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        del arena
        if self.at.allowed.any():
            row[COMMA] = UNKNOWN
        if self.at.close_bits:
            row[CLOSE_OBJECT] = UNKNOWN
        allow_space(self.at.program, row)

    def follow(self, arena: Arena, byte: int) -> int:
        if byte == CLOSE_OBJECT:
            return self.at.close(arena)
        at = self.at
        keys = arena.place(("object", at.key, "next"), lambda: Keys(at, first=False))
        return spaced(arena, at.program, keys)

    def way(self, arena: Arena) -> Way:
        if self.at.close_bits:
            return b"}", self.at.close(arena)
        text, state = next_member(arena, self.at)
        return self.at.program.comma + text, state


def next_member(arena: Arena, at: ObjectAt) -> Way:
    """A certified next member: a required one of the best alternative, else the cheapest key."""
    program = at.program
    costs = program.costs

    def price(alternative: int) -> int:
        return sum(
            costs.of(at.shape.goal(alternative, i)) + len(at.shape.texts[i])
            for i in at.missing(alternative).tolist()
        )

    living = at.living()
    best = min(living, key=price) if len(living) > 1 else living[0]
    missing = at.missing(best)
    if len(missing):
        label = int(missing[0])
    else:
        labels = np.flatnonzero(at.allowed_by(best)).tolist()
        if not labels:
            best, labels = next(
                (i, found)
                for i in at.living()
                if (found := np.flatnonzero(at.allowed_by(i)).tolist())
            )
        label = min(labels, key=lambda i: costs.of(at.shape.goal(best, i)))
    text = (
        at.shape.texts[label] if label < len(at.shape.names) else program.fresh_key(at.shape.index)
    )
    member = at.member(arena, label)
    goal = at.shape.goal(best, label)
    _, conjunction = costs.cheapest(goal)
    bit = member.vector.index(conjunction)
    return text + program.colon + costs.text(conjunction), member.then(arena, 1 << bit)
