"""Structural units: free text up to the end of the first JSON value, bracket pair, fence, ….

A unit is a grammar like any other: every text in which the unit is complete, and every beginning
of one. So masks, budgets and witnesses need no rule of their own. What is special is its *end*, a
state that is reached as soon as the unit is certainly over and that any byte keeps: a token may
hold more than the end of the unit, and who reads ``Matcher.num_past_end`` cuts that off.

Lines, sentences and fences are automata over characters, written down below as tables of the
kind "in this state, on a character of that kind". They end *before* the character that shows that
they are over; a text that stops where it could be over is complete, too. Brackets and JSON need
the arena's places: a place names all open brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from grammar import automata
from grammar.arena import Arena, Config, Shared, UnitEnd
from grammar.dfa import Dfa
from grammar.errors import ConstraintSyntaxError, Unsatisfiable
from grammar.graph import Graph, live_only
from grammar.kernels import UNKNOWN
from grammar.lexemes import Lexeme
from grammar.options import JsonOptions, Limits
from grammar.regex import Spelling, charset, spell_dfa
from grammar.regex.charset import Ranges
from grammar.regex.text import TextDfa, partition
from grammar.schema.arrays import open_array
from grammar.schema.objects import open_object
from grammar.schema.places import BasePlace, Continuation, Taken, Way
from grammar.schema.program import Program
from grammar.vocabulary import Vocabulary

UNITS = ("json_value", "brackets", "fence", "line", "sentence")
MAX_WHITESPACE_RUN = 256  # characters in one gap of a JSON value: the widest indentation we serve
MIN_FENCE, MAX_FENCE = 3, 8  # characters of a fence; longer ones are not looked for

# Labels of accepting states.
_COMPLETE, _END = 0, 1

State = Hashable
#: A state and the kind of a character -> the next state.
Step = Callable[[State, str], State]

_OVER = ("over",)  # the state of every machine after its unit


class Machine(NamedTuple):
    """An automaton over characters: ``kinds`` are disjoint sets, all others are "other"."""

    kinds: Mapping[str, Ranges]
    start: State
    step: Step
    is_complete: Callable[[State], bool]


# --- lines and sentences ------------------------------------------------------------------------


def _characters(text: str) -> Ranges:
    return charset.normalize((ord(c), ord(c)) for c in text)


def _line(state: State, kind: str) -> State:
    if kind == "newline":
        return _OVER if state == "content" else state
    return "blank" if state == "blank" and kind == "space" else "content"


LINE = Machine(
    {"newline": _characters("\n"), "space": charset.difference(charset.SPACE, _characters("\n"))},
    "blank",
    _line,
    lambda _: False,
)


def _sentence(state: State, kind: str) -> State:
    if state == "before":  # "1." and "..." are no sentences: there must be a letter
        return "inside" if kind == "letter" else "before"
    if kind == "wide stop":
        return "after wide stop"
    if kind == "stop":
        return state if state == "after wide stop" else "after stop"
    if state == "inside" or kind == "closer":
        return state
    if state == "after stop" and kind != "space":
        return "inside"  # 3.14
    return _OVER


_STOPS = _characters(".!?…؟۔।॥")
_WIDE_STOPS = _characters("。！？｡")
SENTENCE = Machine(
    {
        "stop": _STOPS,
        "wide stop": _WIDE_STOPS,
        "closer": _characters("\"')]}*_»”’›」』）】》〉"),
        "space": charset.SPACE,
        "letter": charset.unicode_property("L") or (),
    },
    "before",
    _sentence,
    lambda state: state in ("after stop", "after wide stop"),
)


# --- fences -------------------------------------------------------------------------------------


class Outside(NamedTuple):
    """In a line that may open a block (CommonMark 0.31, 4.5)."""

    part: str  # "indent", "fence", "info", "text"
    width: int = 0  # characters of the indent or fence
    mark: str = ""  # the fence's character


class Inside(NamedTuple):
    """In a block that ``width`` times ``mark`` opened."""

    mark: str
    width: int
    part: str = "indent"  # "indent", "fence", "tail", "text"
    seen: int = 0  # characters of the indent or fence


def _fence(state: State, kind: str) -> State:
    if isinstance(state, Inside):
        return _inside(state, kind)
    assert isinstance(state, Outside)
    return _outside(state, kind)


def _outside(state: Outside, kind: str) -> State:
    part, width, mark = state
    is_fence = part in ("fence", "info") and width >= MIN_FENCE
    if kind == "newline":
        return Inside(mark, width) if is_fence else Outside("indent")
    if part == "indent":
        if kind == "space" and width < 3:
            return Outside("indent", width + 1)
        return Outside("fence", 1, kind) if kind in ("`", "~") else Outside("text")
    if part == "fence" and kind == mark and width < MAX_FENCE:
        return Outside("fence", width + 1, mark)
    if not is_fence or kind == mark == "`" or (part == "fence" and kind == mark):
        return Outside("text")  # ```a``` is code in a line
    return Outside("info", width, mark)


def _inside(state: Inside, kind: str) -> State:
    mark, width, part, seen = state
    closes = part == "tail" or (part == "fence" and seen == width)
    if kind == "newline":
        return _OVER if closes else Inside(mark, width)
    if closes and kind in ("space", "tab"):
        return Inside(mark, width, "tail")
    if part == "indent" and kind == "space" and seen < 3:
        return Inside(mark, width, "indent", seen + 1)
    if part == "indent" and kind == mark:
        return Inside(mark, width, "fence", 1)
    if part == "fence" and kind == mark:
        return Inside(mark, width, "fence", min(seen + 1, width))
    return Inside(mark, width, "text")


def _is_closed(state: State) -> bool:
    if not isinstance(state, Inside):
        return False
    return state.part == "tail" or (state.part == "fence" and state.seen == state.width)


FENCE = Machine(
    {name: _characters(c) for name, c in
     {"newline": "\n", "space": " ", "tab": "\t", "`": "`", "~": "~"}.items()},
    Outside("indent"),
    _fence,
    _is_closed,
)  # fmt: skip

_MACHINES = {"line": LINE, "sentence": SENTENCE, "fence": FENCE}


def _automaton(machine: Machine) -> TextDfa:
    """Every state that can be reached, over the coarsest classes of characters."""
    names = list(machine.kinds)
    parts, signatures = partition([charset.ALL, *machine.kinds.values()])
    kinds = [
        next((name for i, name in enumerate(names) if bits >> (i + 1) & 1), "other")
        for bits in signatures
    ]
    numbers: dict[State, int] = {machine.start: 1}
    queue = [machine.start]
    rows = [[0] * len(kinds)]
    for state in queue:
        row = []
        for kind in kinds:
            after = _OVER if state == _OVER else machine.step(state, kind)
            if after not in numbers:
                numbers[after] = len(numbers) + 1
                queue.append(after)
            row.append(numbers[after])
        rows.append(row)
    accept = np.full(len(rows), -1, dtype=np.int32)
    for state, number in numbers.items():
        if state == _OVER:
            accept[number] = _END
        elif machine.is_complete(state):
            accept[number] = _COMPLETE
    return TextDfa(parts, np.array(rows, dtype=np.int32), accept, 1)


def _bytes_of(machine: Machine, vocabulary: Vocabulary, limits: Limits) -> Dfa:
    """Over bytes; after the end anything may follow, also half a character."""
    dfa = automata.minimize(spell_dfa(_automaton(machine), Spelling.RAW, None, limits))
    table = dfa.table.copy()
    (over,) = np.flatnonzero(dfa.accept == _END)
    table[over] = over
    return live_only(automata.minimize(Dfa(table, dfa.accept, dfa.start)), vocabulary)


@dataclass(frozen=True, slots=True)
class FlatUnit:
    """A unit that is an automaton."""

    dfa: Dfa

    def fresh(self) -> tuple[Arena, Config]:
        """An arena, and where a text starts in it."""
        arena = Arena()
        graph = Graph(arena, self.dfa)
        over = np.flatnonzero(self.dfa.accept == _END)
        if len(over):  # not with a vocabulary that cannot spell what shows it
            arena.unit_end = UnitEnd(graph.base + int(over[0]), is_beyond=True)
        return arena, graph.root


# --- brackets and JSON --------------------------------------------------------------------------


class End(BasePlace):
    """After the unit."""

    accepting = True
    depth = 0

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.live = ~vocabulary.dead_bytes

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        row[self.live] = arena.place("end", lambda: self)

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        del taken
        del arena
        return b"", None


class Characters:
    """Texts without some ASCII characters: the automaton, and the masks of its states.

    ``dfa`` accepts between characters and only there, in its start.
    """

    def __init__(self, without: bytes, vocabulary: Vocabulary, limits: Limits) -> None:
        allowed = charset.difference(charset.ALL, _characters(without.decode()))
        parts, _ = partition([allowed])
        one = TextDfa(parts, np.array([[0], [1]], np.int32), np.array([-1, 0], np.int32), 1)
        self.dfa = spell_dfa(one, Spelling.RAW, vocabulary.dead_bytes, limits)
        rows = self.dfa.table.copy()
        rows[self.dfa.start, np.frombuffer(without, dtype=np.uint8)] = -1
        n = len(rows)
        self.lexeme = Lexeme(
            rows, np.zeros(n, np.int64), 1, np.zeros(n, np.int32), np.ones(n, np.bool_), True
        )

    def targets(self, state: int) -> dict[int, npt.NDArray[np.int64]]:
        """The states that follow, and the bytes that lead to each."""
        row = self.dfa.table[state]
        return {int(t): np.flatnonzero(row == t) for t in np.unique(row[row > 0])}


class Text(BasePlace):
    """Characters without a part in the structure, around or in it.

    ``state`` is that of their automaton; between characters the bytes of ``leads`` lead on.
    """

    def __init__(self, characters: Characters, state: int, leads: bytes) -> None:
        self.characters = characters
        self.state = state
        self.leads = leads if state == characters.dfa.start else b""

    def at(self, arena: Arena, state: int) -> int:
        """The place of this kind at another state."""
        raise NotImplementedError

    def lead(self, arena: Arena, byte: int) -> int:
        """The state after one of ``leads``."""
        raise NotImplementedError

    def finish(self, arena: Arena) -> Way:
        """The shortest way on between characters."""
        raise NotImplementedError

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        for state, by in self.characters.targets(self.state).items():
            row[by] = self.at(arena, state) if state == self.state else UNKNOWN
        row[np.frombuffer(self.leads, dtype=np.uint8)] = UNKNOWN

    def follow(self, arena: Arena, byte: int) -> int:
        if byte in self.leads:
            return self.lead(arena, byte)
        return self.at(arena, int(self.characters.dfa.table[self.state, byte]))

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        del taken
        if self.state == self.characters.dfa.start:
            return self.finish(arena)
        state, by = next(iter(self.characters.targets(self.state).items()))
        return bytes([int(by[0])]), self.at(arena, state)

    def shared(self, arena: Arena, vocabulary: Vocabulary) -> Shared | None:
        """Tokens that stay in the text are the same whatever surrounds it."""
        inside = self.characters.lexeme.inside_mask(self.state, vocabulary)
        assert inside is not None, "every state is wide"
        for state in range(1, self.characters.dfa.num_states):
            place = self.at(arena, state)
            for target, by in self.characters.targets(state).items():
                arena.table[place * 256 + by] = self.at(arena, target)
        jobs = np.empty((len(inside.exits), 4), dtype=np.int64)
        jobs[:, :3] = inside.exits[:, :3]
        jobs[:, 3] = self.at(arena, self.characters.dfa.start)  # nowhere else it is left
        ends = [self.at(arena, state) for state in inside.end_states]
        return Shared(inside.words, ends, jobs)


_PAIRS = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))


class Brackets:
    """Balanced brackets after free text."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits) -> None:
        self.vocabulary = vocabulary
        self.max_depth = limits.max_depth
        dead = vocabulary.dead_bytes
        #: Closing bracket by opening one, of those that can be spelled.
        self.closers = {
            first[0]: last for first, last in _PAIRS if not (dead[first[0]] or dead[last[0]])
        }
        if not self.closers:
            raise _unspellable("a pair of brackets")
        self.openers = bytes(self.closers)
        self.before = Characters(self.openers, vocabulary, limits)
        self.between = Characters(b"".join(map(b"".join, _PAIRS)), vocabulary, limits)

    def fresh(self) -> tuple[Arena, Config]:
        """An arena, and where a text starts in it."""
        arena = Arena()
        end = arena.place("end", lambda: End(self.vocabulary))
        arena.unit_end = UnitEnd(end, is_beyond=False)
        return arena, self.place(arena, b"", self.before.dfa.start)

    def place(self, arena: Arena, stack: bytes, state: int) -> int:
        """Text before (empty ``stack``) or between brackets; ``stack`` is what will close."""
        return arena.place((stack, state), lambda: InBrackets(self, stack, state))


class InBrackets(Text):
    """See ``Brackets.place``."""

    def __init__(self, unit: Brackets, stack: bytes, state: int) -> None:
        self.unit = unit
        self.stack = stack
        self.is_deep = len(stack) >= unit.max_depth
        leads = b"" if self.is_deep else unit.openers
        super().__init__(unit.between if stack else unit.before, state, leads + stack[-1:])

    def at(self, arena: Arena, state: int) -> int:
        return self.unit.place(arena, self.stack, state)

    def lead(self, arena: Arena, byte: int) -> int:
        if byte in self.unit.closers:
            stack = self.stack + self.unit.closers[byte]
        else:
            stack = self.stack[:-1]
            if not stack:
                return arena.place("end", lambda: End(self.unit.vocabulary))
        return self.unit.place(arena, stack, self.unit.between.dfa.start)

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        super().fill(arena, row)
        arena.pruned += self.is_deep

    def finish(self, arena: Arena) -> Way:
        stack = self.stack
        opened = b""
        if not stack:
            opened = self.unit.openers[:1]
            stack = self.unit.closers[opened[0]]
        return opened + stack[::-1], arena.place("end", lambda: End(self.unit.vocabulary))


class JsonValue:
    """A JSON object or array after free text: as the schema engine knows it, spelled freely."""

    def __init__(self, program: Program, limits: Limits) -> None:
        self.program = program
        dead = program.vocabulary.dead_bytes
        pairs = [pair for pair in (b"[]", b"{}") if not (dead[pair[0]] or dead[pair[1]])]
        if not pairs:
            raise _unspellable("a JSON object or array")
        self.shortest = pairs[0]
        self.openers = bytes(pair[0] for pair in pairs)
        self.before = Characters(self.openers, program.vocabulary, limits)

    def fresh(self) -> tuple[Arena, Config]:
        """An arena, and where a text starts in it."""
        arena = Arena(self.program.options.max_whitespace_run)
        root = UnitRoot(self.program, arena.number("root"), self.program.root, 0, merged=True)
        arena.unit_end = UnitEnd(root.then(arena, 0), is_beyond=False)
        return arena, self.place(arena, root, self.before.dfa.start)

    def place(self, arena: Arena, root: UnitRoot, state: int) -> int:
        """Text before the value."""
        return arena.place(("before", state), lambda: BeforeJson(self, root, state))


class UnitRoot(Continuation):
    """After the value."""

    def then(self, arena: Arena, bits: int) -> int:
        del bits
        return arena.place("end", lambda: End(self.program.vocabulary))


class BeforeJson(Text):
    """See ``JsonValue.place``."""

    def __init__(self, unit: JsonValue, root: UnitRoot, state: int) -> None:
        super().__init__(unit.before, state, unit.openers)
        self.unit = unit
        self.root = root

    def at(self, arena: Arena, state: int) -> int:
        return self.unit.place(arena, self.root, state)

    def lead(self, arena: Arena, byte: int) -> int:
        opened = open_object if byte == ord("{") else open_array
        return opened(arena, self.root, list(enumerate(self.root.vector)))

    def finish(self, arena: Arena) -> Way:
        return self.unit.shortest, self.root.then(arena, 0)


def _unspellable(what: str) -> Unsatisfiable:
    return Unsatisfiable(f"this vocabulary cannot spell {what}", "@0")


# --- compiling ----------------------------------------------------------------------------------

Unit = FlatUnit | Brackets | JsonValue


def unit_steps(
    name: str, vocabulary: Vocabulary, limits: Limits, lexemes: dict[str, Dfa], *, eager: bool
) -> Generator[None, None, tuple[Unit, dict[str, Dfa]]]:
    """The unit of this name and the automata built; see ``grammar.compile_steps``."""
    if name in _MACHINES:
        dfa = lexemes.get("whole") or _bytes_of(_MACHINES[name], vocabulary, limits)
        yield
        return FlatUnit(dfa), {"whole": dfa}
    if name == "brackets":
        return Brackets(vocabulary, limits), {}
    if name != "json_value":
        message = f"{name!r} is not one of the units {', '.join(UNITS)}"
        raise ConstraintSyntaxError(message, "@0")
    options = JsonOptions.recognise(max_whitespace_run=MAX_WHITESPACE_RUN)
    schema = '{"type": ["object", "array"]}'
    program = Program(schema, vocabulary, options, limits, lexemes, eager=eager)
    yield from program.load()
    return JsonValue(program, limits), program.scalars.built
