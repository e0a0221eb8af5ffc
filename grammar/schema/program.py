"""Program: everything a compiled schema needs to make states when they are first visited."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grammar.dfa import Dfa
from grammar.errors import TooComplex, Unsatisfiable
from grammar.lexemes import Lexeme
from grammar.options import JsonOptions, Limits
from grammar.regex import Spelling, TextDfa, json_string_dfa
from grammar.regex.text import of_length, union
from grammar.schema.cost import Costs, key_spelling
from grammar.schema.document import Document
from grammar.schema.goal import Conjunction, Goals
from grammar.schema.keys import KeyClasses, KeySpace, Predicate, key_classes
from grammar.schema.members import INFINITE
from grammar.schema.node import Node, Some
from grammar.schema.object_shape import Shape
from grammar.schema.shape import ObjectSpec, Shapes
from grammar.schema.strings import Scalars, StringSpec
from grammar.vocabulary import Vocabulary


class Program:
    """A loaded schema with its goals, shapes, scalars and costs, for one vocabulary."""

    def __init__(
        self, text: str | bytes, vocabulary: Vocabulary, options: JsonOptions, limits: Limits,
        shipped: dict[str, Dfa],
        *,
        eager: bool = False,
    ) -> None:  # fmt: skip
        self.vocabulary = vocabulary
        self.options = options
        self.limits = limits
        self.eager = eager
        self.document = Document(text, options, limits, shipped)
        self.goals = Goals(limits)
        self.shapes = Shapes(self)
        plain = self.document.draft == 4
        self.scalars = Scalars(vocabulary, options, limits, shipped, plain_integers=plain)
        self.costs = Costs(self)
        self.pruned = 0
        dead = vocabulary.dead_bytes
        self.ascii_spellable = not dead[0x20:0x7F].any()
        #: Bytes no place may read, and the whitespace that flexible spelling may use.
        self.dead = np.flatnonzero(dead)
        self.spaces = np.array([b for b in b" \t\n\r" if not dead[b]], dtype=np.int64)
        self.flexible = options.whitespace == "flexible"
        self.single_space = options.whitespace == "single_space" and not dead[0x20]
        self.gap = int(self.single_space)
        self.comma = b", " if self.single_space else b","
        self.colon = b": " if self.single_space else b":"
        self._keys: dict[str, bytes | None] = {}
        self._classes: dict[tuple[Predicate, ...], KeyClasses] = {}
        self._spaces: dict[tuple[tuple[str, ...], tuple[Predicate, ...]], KeySpace] = {}
        self._predicates: dict[Predicate, TextDfa] = {}
        self._shapes: dict[tuple[int, ...], Shape] = {}
        self.can_spell_keys = not dead[0x22] and not dead[0x3A]

    def load(self) -> Iterator[None]:
        """Read the schema and solve its root. Yields between pieces of work of about 1 ms."""
        try:
            yield from self.document.scan()
            self.root = self.goals.of([self.document.root])
            for i, node in enumerate(self.document.all_nodes()):
                if node.is_combined:
                    self.goals.of([node])
                if node.unique:  # may be refused
                    for conjunction in self.goals.of([node]):
                        self.shapes.arrays(conjunction)
                if i % 50 == 49:
                    yield
            if self.costs.of(self.root) >= INFINITE:
                self._refuse()
            self.costs.settled = self.goals.settled = True
            if self.eager:
                yield from self._build()
        except RecursionError:
            message = "references or combinators are nested too deep"
            raise TooComplex(message, "", "max_schema_depth") from None

    def release(self) -> None:
        """Take apart what refers to itself, so that it is freed without a garbage collection.

        Nothing of the program may be used afterwards.
        """
        self.goals.release()
        for node in self.document.all_nodes():
            vars(node).clear()
        for kept in (self._classes, self._spaces, self._predicates, self._shapes):
            kept.clear()
        vars(self.costs).clear()
        vars(self.shapes).clear()

    def _build(self) -> Iterator[None]:
        """Build every scalar of the schema, for a process that must not wait for them."""
        for node in self.document.all_nodes():
            for conjunction in self.goals.of([node]):
                self.scalars.build(conjunction)
                yield

    def _refuse(self) -> None:
        if self.pruned or self.costs.exceeded:
            limit = self.costs.exceeded or "max_dfa_states"
            message = f"every way to satisfy the schema exceeds a limit ({limit})"
            raise TooComplex(message, "", limit)
        dead = [f"0x{b:02x}" for b in range(0x20, 0x7F) if self.vocabulary.dead_bytes[b]]
        message = "no value satisfies the schema"
        if dead:
            message += f" with this vocabulary, which cannot spell {', '.join(dead[:8])}"
        raise Unsatisfiable(message, "")

    # --- spelling ---------------------------------------------------------------------------

    def spellable(self, text: bytes) -> bool:
        """Whether the vocabulary has a token for every byte."""
        dead = self.vocabulary.dead_bytes
        return not any(dead[b] for b in text)

    def key_text(self, name: str) -> bytes | None:
        """A key as written, quotes included; None when it cannot be spelled."""
        if name not in self._keys:
            lone = any(0xD800 <= ord(c) < 0xE000 for c in name)
            text = None if lone else key_spelling(name)
            self._keys[name] = text if text and self.spellable(text) else None
        return self._keys[name]

    # --- scalars ----------------------------------------------------------------------------

    def _scalar(self, conjunction: Conjunction, kind: str) -> tuple[Lexeme, int] | None:
        """The lexeme of one conjunction's strings or numbers, and its lowest length."""
        scalars = self.scalars
        if kind == "string":
            spec = scalars.string_spec(conjunction)
            if spec is not None and scalars.is_plain(spec):
                return scalars.plain_string(), spec[2]
        else:
            spec = scalars.number_spec(conjunction)
        if spec is None:
            return None
        found = scalars.lexeme(kind, [(0, spec)], merge=True)
        return None if found is None else (found[0], 0)

    def _short_text(self, conjunction: Conjunction, kind: str) -> bytes | None:
        """A shortest literal that needs no byte automaton, where there is one."""
        key = f"short {kind}"
        if key not in conjunction.kinds:
            scalars = self.scalars
            text = None
            if kind == "number":
                text = scalars.short_number(scalars.number_spec(conjunction))
            else:
                spec = scalars.string_spec(conjunction)
                if spec is not None and not scalars.is_plain(spec):
                    text = scalars.short_string(spec)
            conjunction.kinds[key] = text if text and self.spellable(text) else None
        found: bytes | None = conjunction.kinds[key]
        return found

    def scalar_cost(self, conjunction: Conjunction, kind: str) -> int:
        """Bytes of the shortest string or number of a conjunction."""
        if kind == "string" and self.ascii_spellable:
            spec = self.scalars.string_spec(conjunction)
            if spec is not None and self.scalars.is_plain(spec):
                return 2 + int(spec[2])
        text = self._short_text(conjunction, kind)
        if text is not None:
            if len(text) < self.limits.max_dfa_states:
                return len(text)
            self.costs.exceeded = "max_dfa_states"
            return INFINITE
        found = self._scalar(conjunction, kind)
        if found is None or found[0].distance[1] < 0:
            return INFINITE
        return int(found[0].distance[1]) + found[1]

    def scalar_text(self, conjunction: Conjunction, kind: str) -> bytes:
        """The shortest string or number of a conjunction."""
        short = self._short_text(conjunction, kind)
        if short is not None:
            return short
        found = self._scalar(conjunction, kind)
        assert found is not None
        lexeme, low = found
        text = lexeme.shortest(1)
        return text[:1] + lexeme.filler * low + text[1:] if low else text

    # --- keys -------------------------------------------------------------------------------

    def key_automaton(self) -> Dfa:
        """Any key, each in its one spelling."""
        key = ("key automaton",)
        found = self.vocabulary.lexemes.get(key)
        if found is None:
            found = self.vocabulary.lexemes[key] = json_string_dfa(
                Spelling.KEY, dead=self.vocabulary.dead_bytes
            )
        assert isinstance(found, Dfa)
        return found

    def key_classes(self, predicates: tuple[Predicate, ...]) -> KeyClasses:
        """The classes of keys that some predicates tell apart."""
        found = self._classes.get(predicates)
        if found is None:
            found = self._classes[predicates] = key_classes(self, predicates)
        return found

    def key_space(self, names: tuple[str, ...], predicates: tuple[Predicate, ...]) -> KeySpace:
        """The labels of all keys, for objects with these listed names and predicates."""
        found = self._spaces.get((names, predicates))
        if found is None:
            found = self._spaces[names, predicates] = KeySpace(self, names, predicates)
        return found

    def shape_of(self, specs: tuple[ObjectSpec, ...]) -> Shape:
        """The shape of some specifications, made once."""
        key = tuple(spec.number for spec in specs)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(self, len(self._shapes), specs)
        return shape

    def space_of(self, spec: ObjectSpec) -> KeySpace:
        """The labels of the keys of one specification."""
        return self.key_space(tuple(spec.names), spec.predicates)

    def predicate_text(self, predicate: Predicate) -> TextDfa:
        """The keys that satisfy a predicate. Raises TooComplex."""
        kind, what = predicate
        if kind == "pattern":
            assert isinstance(what, str)
            return self.scalars.text_of_key(what)
        text: TextDfa | None = None
        for spec in self._name_specs(what):
            one = self.scalars.text_dfa(spec)
            text = one if text is None else union(text, one, self.limits)
        return text or of_length(1, 0, self.limits)

    def predicate_name(self, predicate: Predicate) -> tuple[str, ...]:
        """The predicate by value: equal ones of different schemas share automata."""
        kind, what = predicate
        if kind == "pattern":
            return (kind, str(what))
        return (kind, *(repr(spec) for spec in self._name_specs(what)))

    def _name_specs(self, node: object) -> list[StringSpec]:
        assert isinstance(node, Node)
        specs = (self.scalars.string_spec(c) for c in self.goals.of([node]))
        return [spec for spec in specs if spec is not None]

    def holds(self, predicate: Predicate, name: str) -> bool:
        """Whether a key satisfies a predicate."""
        if predicate not in self._predicates:
            self._predicates[predicate] = self.predicate_text(predicate)
        return self._predicates[predicate].matches(name)

    def is_of_kind(self, some: Some, name: str) -> bool:
        """Whether a key is of the kind that ``some`` asks for."""
        return (
            name not in some.names
            and all(self.holds(("pattern", text), name) for text in some.matching)
            and not any(self.holds(("pattern", text), name) for text in some.missing)
            and (some.misnamed is None or not self.holds(("names", some.misnamed), name))
        )
