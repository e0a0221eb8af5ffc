"""Arena: the lazily grown, append-only tables of one grammar.

Rows of transitions, return points and alive maps live in flat arrays that double when full; the
Python objects that know how to fill a missing entry (``Place`` for structural states, ``Return``
for return points) sit beside them. One owner grows an arena: the decode loop (decision 4).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from grammar import kernels
from grammar.lexemes import KeyLexeme, Lexeme

if TYPE_CHECKING:
    from grammar.vocabulary import Vocabulary

Config = int


class Place(Protocol):
    """A structural state: what may come between two lexemes."""

    accepting: bool
    rest: bytes | None
    #: Open containers around this place; None where it cannot end one.
    depth: int | None
    #: Whether the witness may start a key here that the tables know nothing about.
    starts_key: bool
    #: Depth of the object whose additional key just ended here, else None.
    additional_depth: int | None
    #: Whether an item starts (has ended) here that must differ from the others of its array.
    starts_item: bool
    ends_item: bool

    def way(self, arena: Arena, taken: Container[bytes] = ()) -> tuple[bytes, int | None]:
        """A certified way on: bytes and the state they lead to, None at the end.

        ``taken``: keys, as spelled, that the innermost object has used and does not list.
        """

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        """Write the transition codes of the 256 bytes (UNKNOWN where ``follow`` must answer)."""

    def follow(self, arena: Arena, byte: int) -> int:
        """The structural state after ``byte``, 0 when there is none."""

    def repeated(self, arena: Arena) -> int:
        """Of a place that ends an item: the state where the item repeats an earlier one, or 0."""

    def shared(self, arena: Arena, vocabulary: Vocabulary) -> Shared | None:
        """What a walk from here may take over from other places; None: nothing."""


class Return(Protocol):
    """What happens when a lexeme has ended."""

    #: Open containers around the lexeme.
    depth: int

    def after(self, arena: Arena, label: int) -> int:
        """The structural state after the lexeme ended under ``label``, 0 = not allowed."""


class Graph(Protocol):
    """A whole grammar that is one automaton."""

    def shortest(self, state: int) -> bytes:
        """A shortest completion of an arena state."""

    def num_bytes_left(self, state: int) -> int:
        """Its length."""


class Shared(NamedTuple):
    """The part of a walk that is the same from several places, and what is left to do.

    ``words``: tokens already known to be allowed; ``ends``: the configs they lead to; ``jobs``:
    where to walk on. Misses on the way of those tokens are resolved.
    """

    words: npt.NDArray[np.uint32]
    ends: list[Config]
    jobs: npt.NDArray[np.int64]


class UnitEnd(NamedTuple):
    """The state after a structural unit, which any byte keeps. ``is_beyond``: the character
    that leads to it is no part of the unit."""

    state: int
    is_beyond: bool


class Walked(NamedTuple):
    """Result of a walk: mask words, and the configs reached (None: too many or not asked)."""

    words: npt.NDArray[np.uint32]
    ends: list[Config] | None


def _flags(place: Place) -> int:
    flags = kernels.STRUCTURAL | (kernels.ACCEPT if place.accepting else 0)
    if place.depth is not None:
        flags |= (place.depth + 1) << kernels.DEPTH_SHIFT
    flags |= place.starts_item * kernels.ITEM_START | place.ends_item * kernels.ITEM
    return flags | (0 if place.additional_depth is None else kernels.ADDITIONAL)


def _grown(array: npt.NDArray[Any], needed: int) -> npt.NDArray[Any]:
    if needed <= len(array):
        return array
    bigger = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    bigger[: len(array)] = array
    return bigger


class Arena:
    """Tables of one grammar; see the module. State 0 is dead."""

    def __init__(self, space_cap: int = 0) -> None:
        self.table = np.empty(256 * 256, dtype=np.int32)
        self.table[:256] = 0
        self.flags = np.zeros(256, dtype=np.int64)
        self.acts = np.zeros((32, 2), dtype=np.int64)
        self.rps = np.zeros((32, 6), dtype=np.int64)
        self.returns = np.zeros(64, dtype=np.int32)
        self.alive = np.zeros(64, dtype=np.uint8)
        self.space_cap = space_cap
        self.num_states = 1
        self.num_acts = 0
        self.num_rps = 1
        self.num_returns = 0
        self.num_alive = 0
        #: Transitions that a limit made dead although the constraint allows them (decision 6).
        self.pruned = 0
        self.places: dict[int, Place] = {}
        self.owners: dict[int, Return] = {}
        self._states: dict[Hashable, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._acts: dict[tuple[int, int], int] = {}
        self._rps: dict[Hashable, int] = {}
        self._lexemes: dict[int, int] = {}
        self._spans: list[tuple[int, int, Lexeme]] = []
        self._lexeme_of: dict[int, tuple[Lexeme, int]] = {}
        self._misses = np.zeros((512, 7), dtype=np.int64)
        self._out = np.zeros(8, dtype=np.int64)
        #: The automaton of a regex or choice, whose states are the whole grammar; else None.
        self.graph: Graph | None = None
        #: Where a structural unit has ended (``grammar.units``); None for other grammars.
        self.unit_end: UnitEnd | None = None
        self.masks: dict[Config, Any] = {}
        self.mask_bytes = 0
        #: Longest witness after any allowed token, by config without its count.
        self.bounds: dict[Config, int] = {}
        #: Allowed tokens that write an additional key whole, by config outside of keys.
        self.whole_keys: dict[Config, tuple[int, ...]] = {}
        #: config << 20 | token -> config, for steps that the tables alone decide.
        self.moves: dict[int, Config] = {}
        self.forced: dict[Config, tuple[int, Config] | None] = {}
        #: Whether any visited object takes additional keys, and the most names one declares.
        self.has_open_keys = False
        self.max_names = 0
        #: Whether a prefix of a key may have only finitely many ends (patterns on keys).
        self.has_thin_keys = False
        #: Bytes that a longer fresh key may take, per key in its way; fresh keys an object needs.
        self.key_stretch = 1
        self.max_fresh = 1
        #: Whether any visited array takes only distinct items.
        self.has_items = False
        #: How the strings and numbers end that are items there (``grammar.item_words``), by state.
        self.words: dict[int, Any] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and cached masks."""
        return (
            self.num_states * (256 * 4 + 8)
            + self.num_rps * 48
            + self.num_returns * 4
            + self.num_alive
            + self.mask_bytes
            + 400 * (len(self.places) + len(self.owners))  # their Python objects, roughly
        )

    def tables(self) -> tuple[Any, ...]:
        """The arrays every kernel takes, in its order; fetch again after anything grew."""
        return (
            self.table, self.flags, self.acts, self.rps, self.returns, self.alive, self.space_cap,
        )  # fmt: skip

    def number(self, key: Hashable) -> int:
        """A small integer for a key, the same for equal keys: keys stay shallow."""
        return self._numbers.setdefault(key, len(self._numbers))

    # --- states ---------------------------------------------------------------------------

    def place(self, key: Hashable, make: Any) -> int:
        """The state of an interned structural place, made by ``make()`` when new."""
        state = self._states.get(key)
        if state is None:
            place = make()
            state = self._reserve(1)
            self._states[key] = state
            self.places[state] = place
            self.flags[state] = _flags(place)
            self.has_items |= place.starts_item
            row = np.zeros(256, dtype=np.int32)
            place.fill(self, row)
            self.table[state * 256 : state * 256 + 256] = row
        return state

    def _reserve(self, count: int) -> int:
        first = self.num_states
        self.num_states += count
        assert self.num_states < 1 << kernels.RP_SHIFT, "arena out of state numbers"
        if self.num_states > len(self.flags):
            self.flags = _grown(self.flags, self.num_states)
            bigger = np.empty(len(self.flags) * 256, dtype=np.int32)  # rows are written whole
            bigger[: len(self.table)] = self.table
            self.table = bigger
        return first

    def lexeme_base(self, lexeme: Lexeme) -> int:
        """Copy a lexeme's rows in (once); local state s is arena state base + s."""
        base = self._lexemes.get(id(lexeme))
        if base is None:
            base = self._reserve(len(lexeme.rows) - 1) - 1
            self._lexemes[id(lexeme)] = base
            first, last = base + 1, base + len(lexeme.rows)
            kernels.install(lexeme.rows, base, self.table)
            self.flags[first:last] = lexeme.flags[1:]
            self._spans.append((first, last, lexeme))
        return base

    def add_graph(self, rows: npt.NDArray[np.int32], accepting: npt.NDArray[np.bool_]) -> int:
        """A whole automaton as structural states (regex, choice); returns the base."""
        base = self._reserve(len(rows) - 1) - 1
        first, last = base + 1, base + len(rows)
        kernels.install(rows, base, self.table)
        self.flags[first:last] = kernels.STRUCTURAL | np.where(accepting[1:], kernels.ACCEPT, 0)
        return base

    def lexeme_of(self, state: int) -> tuple[Lexeme, int] | None:
        """(lexeme, base) that a state belongs to; None for structural states."""
        found = self._lexeme_of.get(state)
        if found is None and not self.flags[state] & kernels.STRUCTURAL:
            for first, last, lexeme in self._spans:
                if first <= state < last:
                    found = self._lexeme_of[state] = (lexeme, first - 1)
        return found

    # --- return points ----------------------------------------------------------------------

    def return_point(
        self, key: Hashable, owner: Return, labels: npt.NDArray[np.int32], low: int, high: int
    ) -> int:
        """Intern a return point; ``labels``: UNKNOWN or 0 for each label; length bounds."""
        rp = self._rps.get(key)
        if rp is None:
            rp = self.num_rps
            self.num_rps += 1
            assert rp < kernels.RP_MASK, "arena out of return points"
            self.rps = _grown(self.rps, self.num_rps)
            self._rps[key] = rp
            self.owners[rp] = owner
            offset = self.num_returns
            self.num_returns += len(labels)
            self.returns = _grown(self.returns, self.num_returns)
            self.returns[offset : self.num_returns] = labels
            self.rps[rp] = (offset, len(labels), low, high, -1, 0)
        return rp

    def set_alive(self, rp: int, alive: npt.NDArray[np.uint8], base_state: int) -> None:
        """Attach the map of usable key trie nodes to a return point."""
        offset = self.num_alive
        self.num_alive += len(alive)
        self.alive = _grown(self.alive, self.num_alive)
        self.alive[offset : self.num_alive] = alive
        self.rps[rp, kernels.ALIVE] = offset
        self.rps[rp, kernels.ALIVE_BASE] = base_state

    def enter(self, state: int, rp: int) -> int:
        """The transition code that starts a lexeme."""
        key = (state, rp)
        act = self._acts.get(key)
        if act is None:
            act = self._acts[key] = self.num_acts
            self.num_acts += 1
            self.acts = _grown(self.acts, self.num_acts)
            self.acts[act] = key
        return kernels.ENTER + act

    def note_keys(self, lexeme: KeyLexeme, num_names: int, num_fresh: int) -> None:
        """Remember what a visited object may write as keys."""
        self.has_open_keys |= lexeme.is_open
        self.max_names = max(self.max_names, num_names)
        self.max_fresh = max(self.max_fresh, num_fresh)
        if lexeme.left is not None and lexeme.shared is not None:
            self.has_thin_keys |= bool((lexeme.left > 0).any())
            self.key_stretch = max(self.key_stretch, len(lexeme.shared.rows))

    # --- walking the vocabulary ---------------------------------------------------------------

    def walk(
        self,
        vocabulary: Vocabulary,
        config: Config,
        words: npt.NDArray[np.uint32] | None = None,
        jobs: npt.NDArray[np.int64] | None = None,
        *,
        collect: bool = True,
    ) -> Walked:
        """Every token from ``config`` (or the given jobs), misses resolved on the way.

        ``words``: the mask to add to. ``ends``: the distinct configs (without counts) that
        allowed tokens lead to, None when there are too many or nobody asked.
        """
        known: list[Config] = []
        if words is None:
            words = np.zeros(vocabulary.words, dtype=np.uint32)
        if jobs is None:
            place = self.places.get(config)
            shared = place.shared(self, vocabulary) if place is not None else None
            if shared is not None:
                words |= shared.words
                known, jobs = shared.ends, shared.jobs
            else:
                jobs = np.array([[0, len(vocabulary.node), 0, config]], dtype=np.int64)
        ends = np.zeros(1 + (1 << 12) if collect else 0, dtype=np.int64)
        while True:
            count = kernels.walk(
                jobs, len(jobs), vocabulary.node, vocabulary.skip, vocabulary.duplicate,
                *self.tables(), words, self._misses, ends,
            )  # fmt: skip
            if count == 0:
                break
            if count < 0:
                self._misses = np.zeros((4 * len(self._misses), 7), dtype=np.int64)
                continue
            missed = self._misses[:count]
            jobs = missed[:, kernels.M_JOB :].copy()
            for kind, a, b in dict.fromkeys(map(tuple, missed[:, :3].tolist())):
                self.resolve(kind, a, b)
        if not collect or ends[0] < 0:
            return Walked(words, None)
        return Walked(words, known + (ends[1:][ends[1:] != 0] - 1).tolist())

    # --- misses -----------------------------------------------------------------------------

    def resolve(self, kind: int, a: int, b: int) -> None:
        """Fill one missing entry (see kernels.MISS_ROW, MISS_RETURN)."""
        if kind == kernels.MISS_ROW:
            target = self.places[a].follow(self, b)
            self.table[a * 256 + b] = target
        else:
            target = self.owners[a].after(self, b)
            self.returns[self.rps[a, kernels.OFFSET] + b] = target

    def step(self, config: Config, byte: int) -> Config:
        """One byte, misses resolved. Negative: not allowed."""
        while True:
            result, kind, a, b = kernels.step(config, byte, *self.tables())
            if result != kernels.MISS:
                return int(result)
            self.resolve(int(kind), int(a), int(b))

    def run(self, config: Config, text: bytes) -> Config:
        """Several bytes, misses resolved. Negative: not allowed."""
        data = np.frombuffer(text, dtype=np.uint8)
        at, fresh = 0, True
        while True:
            result = int(
                kernels.run(config, data, at, len(data), fresh, *self.tables(), self._out)
            )
            if result != kernels.MISS:
                return result
            fresh = False
            self.resolve(*self._out[1:4].tolist())
            config, at = int(self._out[4]), int(self._out[0])

    def run_inside(self, config: Config, text: bytes, depth: int) -> Config | None:
        """As ``run``, where the text stays inside an item of the array at ``depth``; else None."""
        end = self.run(config, text)
        is_inside = end >= 0 and not self._out[5] and self._out[6] > depth + 1
        return end if is_inside else None

    def read(self, state: int, text: bytes) -> int:
        """The structural state after ``text``, which is allowed from ``state`` and ends there."""
        config = self.run(state, text)
        assert config >= 0, "a certified text was refused"
        here = config & kernels.STATE_MASK
        return here if self.flags[here] & kernels.STRUCTURAL else self.ended(config, 0x2C)

    def live_bytes(self, config: Config) -> Iterator[tuple[int, Config]]:
        """(byte, config after it) for every allowed byte."""
        state = config & kernels.STATE_MASK
        for byte in np.flatnonzero(self.table[state * 256 : state * 256 + 256]).tolist():
            after = self.step(config, byte)
            if after >= 0:
                yield byte, after

    def accepting(self, config: Config) -> bool:
        """Whether the text may end here (also inside a number at the root)."""
        flags = int(self.flags[config & kernels.STATE_MASK])
        if flags & kernels.STRUCTURAL:
            return bool(flags & kernels.ACCEPT)
        target = self.ended(config, 0x2C)  # a number's end is seen at any follower
        return bool(self.flags[target] & kernels.ACCEPT)

    def ended(self, config: Config, byte: int) -> int:
        """The structural state of a number that ends before ``byte``; 0 where none does."""
        code = int(self.table[(config & kernels.STATE_MASK) * 256 + byte])
        if code > kernels.REDO or code == kernels.UNKNOWN:
            return 0
        rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
        label = kernels.REDO - code
        offset = int(self.rps[rp, kernels.OFFSET]) + label
        if self.returns[offset] == kernels.UNKNOWN:
            self.resolve(kernels.MISS_RETURN, rp, label)
        return int(self.returns[offset])
