"""Inside an object: which alternatives are alive and which keys have been used.

Used keys are a bit set over the names of all alternatives (order "any") or just the position in
them (order "schema": every later key stays reachable, earlier ones are gone; names that only a
pattern lists have no order and are a bit set there too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from grammar import kernels
from grammar.arena import Arena
from grammar.kernels import MAX_COUNT, UNKNOWN
from grammar.schema.array_spec import UNBOUNDED
from grammar.schema.arrays import sum_bits
from grammar.schema.goal import Conjunction, Goal
from grammar.schema.object_shape import Flags, Longs, Shape
from grammar.schema.places import (
    CLOSE_OBJECT,
    COLON,
    COMMA,
    QUOTE,
    BasePlace,
    Continuation,
    Taken,
    Value,
    Way,
    allow_space,
    spaced,
)
from grammar.schema.vector import Mapping, vector_of

if TYPE_CHECKING:
    from grammar.schema.program import Program


class Alternative(NamedTuple):
    """One way to satisfy the object's goal: ``row`` of the shape's specifications, for the bit
    ``bit`` of the object's own vector. ``pending``: bit set of demands that are still to be met.
    """

    bit: int
    row: int
    pending: int


class Progress(NamedTuple):
    """What has been written. ``position``: the next name in order "schema"; ``used``: bit set
    of other used names; ``members``: how many, saturated where more does not matter;
    ``of_classes``: keys of each limited class of the shape."""

    position: int
    used: int
    members: int
    of_classes: tuple[int, ...]


def open_object(
    arena: Arena, continuation: Continuation, members: list[tuple[int, Conjunction]]
) -> int:
    """The state after ``{``."""
    program = continuation.program
    specs = [(bit, spec) for bit, member in members for spec in program.shapes.objects(member)]
    shape = program.shape_of(tuple(spec for _, spec in specs))
    alive = tuple(
        Alternative(bit, row, (1 << len(spec.demands)) - 1)
        for row, (bit, spec) in enumerate(specs)
        if shape.satisfiable[row]
    )
    start = Progress(0, 0, 0, (0,) * len(shape.limited))
    at = ObjectAt(arena, continuation, shape, alive, start)
    alive = tuple(a for a in alive if not specs[a.row][1].is_counted or at.room(a).is_enough)
    if not alive:
        return 0
    if len(alive) < len(at.alive):
        at = ObjectAt(arena, continuation, shape, alive, start)
    return arena.place(("object", at.key, "open"), lambda: Keys(at, first=True))


class ObjectAt:
    """A position between members."""

    def __init__(
        self,
        arena: Arena,
        outer: Continuation,
        shape: Shape,
        alive: tuple[Alternative, ...],
        progress: Progress,
    ) -> None:
        self.outer = outer
        self.shape = shape
        self.alive = alive
        self.progress = progress
        self.key = arena.number(("object", outer.key, shape.number, alive, progress))
        self._allowed: Flags | None = None
        self._rooms: dict[Alternative, Room] = {}

    @property
    def program(self) -> Program:
        return self.outer.program

    @property
    def ordered(self) -> bool:
        return self.program.options.property_order == "schema"

    def missing(self, alternative: Alternative) -> Longs:
        """Labels of the required names still to come, in order."""
        found = np.flatnonzero(self.shape.required[alternative.row])
        if self.ordered:
            return found[np.searchsorted(found, self.progress.position) :]
        used = self.progress.used
        return np.array([i for i in found.tolist() if not used >> i & 1], dtype=np.int64)

    def labels_left(self, alternative: Alternative) -> Flags:
        """bool[labels]: keys that can have a value and have not been used."""
        found: Flags = self.shape.permits[alternative.row].copy()
        progress = self.progress
        if self.ordered:
            found[: progress.position] = False
        used = progress.used
        while used:
            low = used & -used
            found[low.bit_length() - 1] = False
            used ^= low
        for (label, most), written in zip(self.shape.limited, progress.of_classes, strict=True):
            if written >= most:
                found[label] = False
        return found

    def room(self, alternative: Alternative) -> Room:
        """What the counts and demands of an alternative leave."""
        found = self._rooms.get(alternative)
        if found is None:
            found = self._rooms[alternative] = Room(self, alternative)
        return found

    def allowed_by(self, alternative: Alternative) -> Flags:
        """bool[labels]: keys that an alternative allows now."""
        if self.shape.specs[alternative.row].is_counted:
            room = self.room(alternative)
            allowed = room.plain()
            for demand in bits_of(alternative.pending):
                allowed |= room.meeting(demand)
        else:
            allowed = self.labels_left(alternative)
        if self.outer.depth >= self.program.limits.max_depth:  # only what ends the object
            needed = np.zeros_like(allowed)
            needed[[label for label, _ in self.plan(alternative)]] = True
            allowed &= needed
        if self.ordered:
            missing = self.missing(alternative)
            if len(missing):
                allowed[missing[0] + 1 :] = False  # nothing after a required name before it
        return allowed

    def plan(self, alternative: Alternative) -> list[tuple[int, int]]:
        """The members that an alternative still needs, cheapest choice, in generation order.

        (label, demand it meets or -1) each.
        """
        missing = [(label, -1) for label in self.missing(alternative).tolist()]
        if not self.shape.specs[alternative.row].is_counted:
            return missing
        return sorted(missing + self.room(alternative).choice())

    @property
    def allowed(self) -> Flags:
        """bool[labels]: labels that some living alternative allows now."""
        if self._allowed is None:
            allowed = self.allowed_by(self.alive[0])
            for alternative in self.alive[1:]:
                allowed |= self.allowed_by(alternative)
            self._allowed = allowed
        return self._allowed

    def may_close(self, alternative: Alternative) -> bool:
        """Whether the object may end here for an alternative."""
        return (
            not alternative.pending
            and self.progress.members >= self.shape.specs[alternative.row].low
            and not len(self.missing(alternative))
        )

    @property
    def close_bits(self) -> int:
        return sum_bits({a.bit for a in self.alive if self.may_close(a)})

    def close(self, arena: Arena) -> int:
        return self.outer.then(arena, self.close_bits)

    def member(self, arena: Arena, label: int) -> Member:
        """The continuation of the value under a key."""
        shape = self.shape
        goals: list[tuple[Alternative, Goal]] = []
        if len(self.alive) == 1 and not self.alive[0].pending:
            goals.append((self.alive[0], shape.goal(self.alive[0].row, label)))
        else:
            for alternative in self.alive:
                goals.extend(self._moves(alternative, label))
        vector, mapping = vector_of([(i, goal) for i, (_, goal) in enumerate(goals)])
        return Member(arena, self, label, vector, mapping, [target for target, _ in goals])

    def _moves(self, alternative: Alternative, label: int) -> list[tuple[Alternative, Goal]]:
        """What becomes of an alternative after a member, and what its value must satisfy."""
        row = alternative.row
        if not alternative.pending:
            allowed = self.allowed_by(alternative)[label]
            return [(alternative, self.shape.goal(row, label))] if allowed else []
        if not self.allowed_by(alternative)[label]:
            return []
        room = self.room(alternative)
        found = [(alternative, self.shape.goal(row, label))] if room.plain()[label] else []
        for demand in bits_of(alternative.pending):
            if room.meeting(demand)[label]:
                after = alternative._replace(pending=alternative.pending & ~(1 << demand))
                found.append((after, self.shape.goal(row, label, demand)))
        return found

    def after(self, arena: Arena, label: int, alive: list[Alternative]) -> ObjectAt:
        """The position after a member."""
        shape = self.shape
        position, used, count, of_classes = self.progress
        if self.ordered and label < shape.space.num_ordered:
            position = label + 1
        else:
            if self.ordered:
                position = shape.space.num_ordered
            if label < shape.num_names:
                used |= 1 << label
        if shape.limited:
            of_classes = tuple(
                written + (limited == label)
                for (limited, _), written in zip(shape.limited, of_classes, strict=True)
            )
        progress = Progress(position, used, min(count + 1, shape.cap), of_classes)
        return ObjectAt(arena, self.outer, shape, _undominated(alive), progress)

    def enter_key(self, arena: Arena) -> int:
        """The code that starts a key, 0 where none is allowed."""
        allowed = self.allowed
        if not allowed.any():
            return 0
        n = self.shape.num_names
        lexeme = self.shape.lexeme(allowed)
        base = arena.lexeme_base(lexeme)
        arena.note_keys(lexeme, n, self.shape.cap)
        labels = np.where(allowed, UNKNOWN, 0).astype(np.int32)
        rp = arena.return_point(("key", self.key), KeyReturn(self), labels, 0, MAX_COUNT)
        bare = not lexeme.is_open
        if (bare or lexeme.left is not None) and arena.rps[rp, kernels.ALIVE] < 0:
            alive = np.zeros(len(lexeme.span), dtype=np.uint8)
            kernels.alive_nodes(lexeme.span, allowed[:n][lexeme.order].astype(np.uint8), alive)
            if lexeme.left is not None:
                alive |= lexeme.left[lexeme.trie_base :] != 0
            arena.set_alive(rp, alive, base + lexeme.trie_base)
        return arena.enter(base + 1, rp)


class Room:
    """Which keys an alternative can take so that its counts and demands can still be met.

    Besides the required names still ``missing``, ``extra`` members and the ``pending`` demands
    need keys of the ``stock``. A demand must find as many keys as there are demands, so that
    the others cannot take the last one away.
    """

    def __init__(self, at: ObjectAt, alternative: Alternative) -> None:
        # Not ``at`` itself, which keeps this: what refers to itself is freed late.
        self.ordered = at.ordered
        self.of_classes = at.progress.of_classes
        self.costs = at.program.costs
        self.shape = at.shape
        self.row = alternative.row
        self.left = at.labels_left(alternative)
        missing = at.missing(alternative)
        self.needed = np.zeros(len(self.left), dtype=np.bool_)
        self.needed[missing] = True
        self.pending = bits_of(alternative.pending)
        spec = at.shape.specs[alternative.row]
        count = at.progress.members
        self.free = spec.high - count - len(missing) - len(self.pending)
        self.extra = max(0, spec.low - count - len(missing) - len(self.pending))
        self.stock = self._stock()

    def _stock(self) -> Longs:
        """int64[labels]: how many keys that are not required each label still has."""
        stock = (self.left & ~self.needed).astype(np.int64)
        n = self.shape.num_names
        for place, each in enumerate(self.shape.space.classes):
            if stock[n + place] and each.count < 0:
                stock[n + place] = UNBOUNDED
        for (label, most), written in zip(self.shape.limited, self.of_classes, strict=True):
            stock[label] *= max(0, most - written)
        return stock

    def _after(self, stock: Longs) -> Longs:
        """int64[labels]: the keys left of a stock when a label was taken."""
        own = np.where(stock > 0, 1, 0)
        if not self.ordered:
            return np.asarray(stock.sum() - own)
        ordered = self.shape.space.num_ordered
        after = np.full(len(stock), stock[ordered:].sum()) - own
        after[:ordered] = stock.sum() - np.cumsum(stock)[:ordered]
        return after

    def _demands_stay(self, met: int = -1) -> Flags:
        """bool[labels]: after which every demand but ``met`` can still be met."""
        stay = np.ones(len(self.left), dtype=np.bool_)
        others = [demand for demand in self.pending if demand != met]
        for demand in others:
            stay &= self._after(np.where(self.meets(demand), self.stock, 0)) >= len(others)
        return stay

    def meets(self, demand: int) -> Flags:
        """bool[labels]: keys left that can meet a demand."""
        labels = range(len(self.left))
        can = [demand in self.shape.demands(self.row, label) for label in labels]
        return np.array(can, dtype=np.bool_) & self.left & ~self.needed

    def plain(self) -> Flags:
        """bool[labels]: keys that can be taken without meeting a demand."""
        after = self._after(self.stock)
        enough = np.where(
            self.needed,
            after >= self.extra + len(self.pending),
            (after >= max(0, self.extra - 1) + len(self.pending)) & (self.free > 0),
        )
        found: Flags = self.left & enough & self._demands_stay()
        return found

    def meeting(self, demand: int) -> Flags:
        """bool[labels]: keys that can be taken to meet a demand."""
        enough = self._after(self.stock) >= self.extra + len(self.pending) - 1
        found: Flags = self.meets(demand) & enough & self._demands_stay(demand)
        return found

    @property
    def is_enough(self) -> bool:
        """Whether the alternative can be completed from here."""
        if self.free < 0 or int(self.stock.sum()) < self.extra + len(self.pending):
            return False
        total = [int(np.where(self.meets(d), self.stock, 0).sum()) for d in self.pending]
        return all(number >= len(self.pending) for number in total)

    def choice(self) -> list[tuple[int, int]]:
        """(label, demand or -1): the cheapest members besides the required ones."""
        costs = self.costs
        stock = self.stock.copy()
        found: list[tuple[int, int]] = []
        for demand in self.pending:
            labels = np.flatnonzero(self.meets(demand) & (stock > 0)).tolist()
            label = min(
                labels,
                key=lambda i, d=demand: costs.of(self.shape.goal(self.row, i, d)),  # type: ignore[misc]
            )
            stock[label] -= 1
            found.append((label, demand))
        left = self.extra
        labels = np.flatnonzero(stock > 0).tolist() if left else []
        for label in sorted(labels, key=lambda i: costs.of(self.shape.goal(self.row, i))):
            number = min(left, int(stock[label]))
            found.extend([(label, -1)] * number)
            left -= number
            if not left:
                break
        return found


def bits_of(number: int) -> list[int]:
    """The positions of the bits that are set."""
    return [i for i in range(number.bit_length()) if number >> i & 1]


def _undominated(alive: list[Alternative]) -> tuple[Alternative, ...]:
    """Without those that have a demand more than another that is otherwise the same."""
    if len(alive) == 1:
        return tuple(alive)
    found = dict.fromkeys(alive)
    if any(each.pending for each in alive):
        for each in alive:
            if any(
                other != each and other[:2] == each[:2] and other.pending & ~each.pending == 0
                for other in alive
            ):
                found.pop(each, None)
    return tuple(found)


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
    """After a member's value. ``targets``: the alternatives that may live on."""

    __slots__ = ("at", "label", "mapping", "targets")

    def __init__(
        self,
        arena: Arena,
        at: ObjectAt,
        label: int,
        vector: Goal,
        mapping: Mapping,
        targets: list[Alternative],
    ) -> None:
        merged = len({bits for _, bits in mapping}) == 1
        key = arena.number(("member", at.key, label))
        super().__init__(at.program, key, vector, at.outer.depth + 1, merged=merged)
        self.at = at
        self.label = label
        self.mapping = mapping
        self.targets = targets

    def then(self, arena: Arena, bits: int) -> int:
        alive = [self.targets[i] for i, mine in self.mapping if mine & bits]
        if not alive:
            return 0
        after = self.at.after(arena, self.label, alive)
        return arena.place(("object", after.key, "after"), lambda: AfterMember(after))


class Colon(BasePlace):
    """After a key."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.depth = member.depth
        if member.label >= member.at.shape.num_names:
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

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        del taken
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

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        if self.first and self.at.close_bits:
            return b"}", self.at.close(arena)
        return next_member(arena, self.at, taken)


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

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        if self.at.close_bits:
            return b"}", self.at.close(arena)
        text, state = next_member(arena, self.at, taken)
        return self.at.program.comma + text, state


def next_member(arena: Arena, at: ObjectAt, taken: Taken) -> Way:
    """A certified next member: the first that the best alternative needs, else the cheapest.

    ``taken``: keys that are not listed and have been used, as spelled without quotes.
    """
    program, shape = at.program, at.shape
    costs = program.costs

    def price(alternative: Alternative) -> int:
        return sum(
            costs.of(shape.goal(alternative.row, label, demand))
            + (len(shape.space.texts[label]) if label < shape.num_names else 0)
            for label, demand in at.plan(alternative)
        )

    best = min(at.alive, key=price) if len(at.alive) > 1 else at.alive[0]
    plan = at.plan(best)
    if plan:
        label, demand = plan[0]
    else:
        labels = np.flatnonzero(at.allowed_by(best)).tolist()
        if not labels:
            best, labels = next(
                (each, found)
                for each in at.alive
                if (found := np.flatnonzero(at.allowed_by(each)).tolist())
            )
        label, demand = min(labels, key=lambda i: costs.of(shape.goal(best.row, i))), -1
    if label < shape.num_names:
        text = shape.space.texts[label]
    else:
        met = len(shape.specs[best.row].demands) - best.pending.bit_count()
        index = 0 if taken else at.progress.members + met
        text = shape.space.fresh(label, index, taken)
    member = at.member(arena, label)
    _, conjunction = costs.cheapest(shape.goal(best.row, label, demand))
    bit = member.vector.index(conjunction)
    return text + program.colon + costs.text(conjunction), member.then(arena, 1 << bit)
