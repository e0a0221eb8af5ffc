"""Which keys an object may write besides the listed names.

``patternProperties`` and ``propertyNames`` divide all keys by *predicates* (patterns and schemas
of names). The keys that satisfy exactly the same predicates form a *class*; one automaton, whose
labels are the classes, serves every object with these predicates. Names that the schema lists
stand beside it in the trie of the key lexeme.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from grammar import automata, lexemes
from grammar.dfa import Dfa
from grammar.errors import TooComplex
from grammar.lexemes import KeyLexeme
from grammar.regex import Spelling, spell_dfa
from grammar.regex.text import TextDfa, combine, of_length

if TYPE_CHECKING:
    from grammar.schema.node import Node
    from grammar.schema.program import Program

MAX_PREDICATES = 30  # automata that one product tells apart, and one for "any key"
#: Classes of at most so many keys are listed as names; of larger finite ones at most
#: ``MAX_OF_CLASS`` keys are written in one object.
MAX_LISTED = 64
MAX_OF_CLASS = 4_096

#: ("pattern", its text) or ("names", the node of ``propertyNames``).
Predicate = tuple[str, "str | Node"]


@dataclass(slots=True)
class KeyClass:
    """The keys that satisfy exactly ``holds``. ``count``: how many there are, -1 = no end."""

    holds: frozenset[Predicate]
    label: int
    count: int


@dataclass(slots=True)
class KeyClasses:
    """All keys, by the predicates they satisfy. ``dfa`` labels each spelled key by its class."""

    program: Program
    predicates: tuple[Predicate, ...]
    dfa: Dfa
    classes: list[KeyClass]
    #: Names of the classes that are listed because they are few.
    listed: list[str]
    #: Names the automaton by value.
    key: str = ""
    _words: dict[int, tuple[list[bytes], Iterator[bytes]]] = field(default_factory=dict)
    _restricted: dict[frozenset[int], Dfa] = field(default_factory=dict)

    def holds(self, word: bytes) -> frozenset[Predicate]:
        """The predicates that a spelled key satisfies."""
        if not self.predicates:
            return frozenset()
        label = int(self.dfa.accept[self.dfa.run(word)])
        return frozenset(p for i, p in enumerate(self.predicates) if label >= 0 and label >> i & 1)

    def word(self, label: int, index: int) -> bytes | None:
        """The ``index``-th shortest key of a class as spelled, without quotes; None = fewer."""
        if label not in self._words:
            self._words[label] = ([], _words(self.restricted(frozenset([label]))))
        known, more = self._words[label]
        while len(known) <= index:
            word = next(more, None)
            if word is None:
                return None
            known.append(word)
        return known[index]

    def restricted(self, labels: frozenset[int]) -> Dfa:
        """The automaton of the keys of some classes."""
        found = self._restricted.get(labels)
        if found is None:
            wanted = np.isin(self.dfa.accept, sorted(labels))
            accept = np.where(wanted, self.dfa.accept, -1).astype(np.int32)
            found = automata.trim(Dfa(self.dfa.table, accept, self.dfa.start))
            self._restricted[labels] = found
        return found


class KeySpace:
    """Every key of an object by label: the listed names, then the classes of all others.

    ``names``: the first ``num_ordered`` are those of the schema, in generation order; then those
    of classes with few members. Names that cannot be spelled are left out.
    """

    def __init__(
        self, program: Program, listed: Iterable[str], predicates: tuple[Predicate, ...]
    ) -> None:
        self.others = program.key_classes(predicates)
        spelled = {name: text for name in listed if (text := program.key_text(name))}
        self.num_ordered = len(spelled)
        for name in self.others.listed:
            text = program.key_text(name)
            if text:
                spelled.setdefault(name, text)
        self.names = tuple(spelled)
        self.texts = list(spelled.values())
        self._listed = frozenset(self.texts)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.classes = self.others.classes if program.can_spell_keys else []
        self.num_labels = len(self.names) + len(self.classes)
        none: frozenset[Predicate] = frozenset()
        self.holds = [
            *(self.others.holds(text[1:-1]) if predicates else none for text in self.texts),
            *(each.holds for each in self.classes),
        ]
        self.key_automaton = program.key_automaton
        self.lexemes = program.vocabulary.lexemes
        self._fresh: dict[int, tuple[list[bytes], int]] = {}
        self._open: dict[frozenset[int], KeyLexeme] = {}

    @property
    def is_divided(self) -> bool:
        """Whether predicates tell the keys apart."""
        return bool(self.others.predicates)

    def name(self, label: int) -> str | None:
        """The listed name of a label."""
        return self.names[label] if label < len(self.names) else None

    def fresh(self, label: int, index: int = 0, taken: Container[bytes] = ()) -> bytes:
        """A key of a class as written, none of ``taken``: of those the ``index``-th shortest.

        ``taken``: without quotes. A class that has too few left gives its last key.
        """
        others, place = self.others, label - len(self.names)
        known, at = self._fresh.get(label, ([], 0))
        if not taken and index < len(known):
            return known[index]
        found = [text for text in known if text[1:-1] not in taken]
        while len(found) <= index:
            word = others.word(self.classes[place].label, at)
            if word is None:
                break
            at += 1
            text = b'"' + word + b'"'
            if text not in self._listed:
                known.append(text)
                if word not in taken:
                    found.append(text)
        self._fresh[label] = (known, at)
        return found[min(index, len(found) - 1)]

    def lexeme(self, allowed: frozenset[int]) -> KeyLexeme:
        """The lexeme of the listed names and of the classes in ``allowed`` (their places)."""
        found = self._open.get(allowed)
        if found is None:
            names = tuple(text[1:-1] for text in self.texts)
            # Everything it is made of, so that other schemas share it.
            key = ("keys", names, self.others.key, tuple(sorted(allowed)))
            found = self.lexemes.get(key)
            if found is None:
                found = self.lexemes[key] = self._lexeme(names, allowed)
            self._open[allowed] = found
        return found

    def _lexeme(self, names: tuple[bytes, ...], allowed: frozenset[int]) -> KeyLexeme:
        num_labels = self.num_labels
        if not allowed:
            return lexemes.key(names, None, num_labels)
        if not self.is_divided:
            found = lexemes.key(names, self.key_automaton(), num_labels)
            found.shared = self._any_key()
            return found
        generic = self.others.restricted(frozenset(self.classes[i].label for i in allowed))
        label_of = {each.label: i for i, each in enumerate(self.classes)}
        accept = [label_of[a] if a >= 0 else -1 for a in generic.accept.tolist()]
        dfa = Dfa(generic.table, np.array(accept, dtype=np.int32), generic.start)
        found = lexemes.key(names, dfa, num_labels)
        found.shared = lexemes.any_key(dfa)
        found.left = lexemes.other_keys(found, automata.count_words(dfa))
        return found

    def _any_key(self) -> KeyLexeme:
        found = self.lexemes.get("any key")
        if found is None:
            found = self.lexemes["any key"] = lexemes.any_key(self.key_automaton())
        return cast("KeyLexeme", found)


def key_classes(program: Program, predicates: tuple[Predicate, ...]) -> KeyClasses:
    """The classes of some predicates. Raises TooComplex (max_branches, max_dfa_states)."""
    if not predicates:
        only_one = [KeyClass(frozenset(), 0, -1)]
        return KeyClasses(program, (), program.key_automaton(), only_one, [], "()")
    dfa = _class_dfa(program, predicates)
    classes = []
    listed: list[str] = []
    for label in sorted(set(dfa.accept[dfa.accept >= 0].tolist())):
        only = _only(dfa, label)
        count = int(automata.count_words(only)[only.start])
        holds = frozenset(p for i, p in enumerate(predicates) if label >> i & 1)
        if 0 <= count <= MAX_LISTED:
            listed.extend(_decoded(word) for word in _words(only))
        else:
            classes.append(KeyClass(holds, label, count))
    key = repr(tuple(program.predicate_name(each) for each in predicates))
    return KeyClasses(program, predicates, dfa, classes, listed, key)


def _only(dfa: Dfa, label: int) -> Dfa:
    accept = np.where(dfa.accept == label, 0, -1).astype(np.int32)
    return automata.trim(Dfa(dfa.table, accept, dfa.start))


def _decoded(word: bytes) -> str:
    name: str = json.loads(b'"' + word + b'"')
    return name


def _class_dfa(program: Program, predicates: tuple[Predicate, ...]) -> Dfa:
    """Spelled keys, labelled by the bit set of the predicates they satisfy."""
    if len(predicates) > MAX_PREDICATES:
        message = f"{len(predicates)} patterns on the keys of one object, at most {MAX_PREDICATES}"
        raise TooComplex(message, "", "max_branches")

    def make() -> Dfa:
        texts = [program.predicate_text(each) for each in predicates]
        everything = 1 << len(texts)
        both = combine(
            [*texts, of_length(0, None, program.limits)],
            lambda bits: bits & everything != 0,
            required=everything,
            limits=program.limits,
        )
        accept = np.where(both.accept >= 0, both.accept & (everything - 1), -1).astype(np.int32)
        plain = TextDfa(both.parts, both.table, accept, both.start)
        return spell_dfa(plain, Spelling.KEY, program.vocabulary.dead_bytes, program.limits)

    names = tuple(program.predicate_name(each) for each in predicates)
    return program.scalars.kept(f"keys:{names!r}", make)


def _words(dfa: Dfa) -> Iterator[bytes]:
    return automata.shortest_words(dfa.table, dfa.accept >= 0, automata.distances(dfa), dfa.start)
