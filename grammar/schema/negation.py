"""``not``: the negation of a schema as alternatives of other schemas.

A node says that all of its keywords hold, so its negation is that one of them does not; each
negated keyword is again a node that asserts something (a value of another type, a longer string,
an object with some member that fails). Negations of subschemas stay what they are, a node with
``nots``, until they are unfolded. So goals need no other operation than "all of" and "one of".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from grammar.errors import UnsupportedError
from grammar.schema.node import (
    ALL_TYPES,
    ARRAY,
    NUMBER,
    OBJECT,
    STRING,
    Contains,
    Node,
    Some,
)

#: The nodes that the negation of one keyword is made of: one of the lists, all of its nodes.
Alternatives = list[list[Node]]
#: Formats that validators agree on to the letter: elsewhere "not of this format" is disputed.
EXACT_FORMATS = frozenset(("date", "uuid", "ipv4", "ipv6", "json-pointer"))
_FIRST_NUMBER = 1 << 41  # of nodes that are made here


class Negations:
    """Makes the nodes that negations need; equal ones are the same."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Node] = {}

    def make(self, key: Hashable, pointer: str, fill: Callable[[Node], None]) -> Node:
        """The node of a key, filled when new."""
        node = self._made.get(key)
        if node is None:
            node = self._made[key] = Node(_FIRST_NUMBER + len(self._made), pointer)
            node.is_made = True
            fill(node)
            node.finish()
        return node

    def release(self) -> None:
        """Forget every node made here, and what it refers to."""
        for node in self._made.values():
            vars(node).clear()
        self._made.clear()

    def negated(self, node: Node) -> Node:
        """The schema "not ``node``"."""

        def fill(made: Node) -> None:
            made.nots = (node,)

        return self.make(("not", node.number), node.pointer, fill)

    def keywords(self, node: Node) -> Alternatives:
        """What it takes that one of the node's own keywords fails.

        Raises UnsupportedError for ``uniqueItems``.
        """
        found: Alternatives = []
        if node.types != ALL_TYPES:
            found.append([self._typed(node, "type", ALL_TYPES & ~node.types)])
        found.extend([self._unlisted(node, i)] for i in range(len(node.enums)))
        found.extend([each] for each in self._strings(node))
        found.extend([each] for each in self._numbers(node))
        found.extend([each] for each in self._objects(node))
        found.extend([each] for each in self._arrays(node))
        for i, values in enumerate(node.excluded):
            found.append([self._listed(node, i, values)])
        return found

    def _typed(self, node: Node, what: Hashable, types: int, **keywords: Any) -> Node:
        def fill(made: Node) -> None:
            made.types = types
            for name, value in keywords.items():
                setattr(made, name, value)

        return self.make((node.number, what), node.pointer, fill)

    # --- listed values --------------------------------------------------------------------------

    def _unlisted(self, node: Node, place: int) -> Node:
        """No value of an enum."""
        values = node.enums[place]
        plain = [v for v in values if not isinstance(v, list | dict)]
        others = [v for v in values if isinstance(v, list | dict)]

        def fill(made: Node) -> None:
            made.excluded = (plain,) if plain else ()
            made.all_of = tuple(
                self._other_than(node.pointer, (node.number, place, i), value)
                for i, value in enumerate(others)
            )

        return self.make((node.number, "enum", place), node.pointer, fill)

    def _listed(self, node: Node, place: int, values: list[Any]) -> Node:
        def fill(made: Node) -> None:
            made.enums = (values,)

        return self.make((node.number, "excluded", place), node.pointer, fill)

    def _other_than(self, pointer: str, key: Hashable, value: Any) -> Node:
        """A value that is not ``value``."""
        if not isinstance(value, list | dict):

            def exclude(made: Node) -> None:
                made.excluded = ([value],)

            return self.make((key, "value"), pointer, exclude)
        kind = ARRAY if isinstance(value, list) else OBJECT
        branches = [self._kind(pointer, (key, "type"), ALL_TYPES & ~kind)]
        size = "items" if kind == ARRAY else "properties"
        branches.append(
            self._kind(pointer, (key, "more"), kind, **{f"min_{size}": len(value) + 1})
        )
        if value:
            branches.append(
                self._kind(pointer, (key, "less"), kind, **{f"max_{size}": len(value) - 1})
            )
        if isinstance(value, list):
            for i, item in enumerate(value):
                other = self._other_than(pointer, (key, i), item)
                prefix = (*(self.anything for _ in range(i)), other)
                branches.append(
                    self._kind(pointer, (key, i, "at"), ARRAY, prefix=prefix, min_items=i + 1)
                )
        else:
            for name, member in value.items():
                gone = {name: self.nothing}
                branches.append(self._kind(pointer, (key, name, "gone"), OBJECT, properties=gone))
                other = self._other_than(pointer, (key, name), member)
                branches.append(
                    self._kind(
                        pointer, (key, name, "at"), OBJECT,
                        properties={name: other}, required=(name,),
                    )
                )  # fmt: skip

        def choose(made: Node) -> None:
            made.any_of = (tuple(branches),)

        return self.make((key, "container"), pointer, choose)

    def _kind(self, pointer: str, key: Hashable, types: int, **keywords: Any) -> Node:
        def fill(made: Node) -> None:
            made.types = types
            for name, value in keywords.items():
                setattr(made, name, value)

        return self.make(key, pointer, fill)

    @property
    def anything(self) -> Node:
        """The schema that every value satisfies."""
        return self.make("anything", "", lambda _: None)

    @property
    def nothing(self) -> Node:
        """The schema that no value satisfies."""

        def fill(made: Node) -> None:
            made.types = 0

        return self.make("nothing", "", fill)

    # --- keywords by type -----------------------------------------------------------------------

    def _strings(self, node: Node) -> Iterator[Node]:
        if node.min_length:
            yield self._typed(node, "minLength", STRING, max_length=node.min_length - 1)
        if node.max_length is not None:
            yield self._typed(node, "maxLength", STRING, min_length=node.max_length + 1)
        for kind, text, _ in node.texts:
            if kind == "format" and text not in EXACT_FORMATS:
                message = f"the negation of format {text} is not enforced"
                raise UnsupportedError(message, f"{node.pointer}/format", "format")
            opposite = kind.removeprefix("not ") if kind.startswith("not ") else f"not {kind}"
            yield self._typed(node, (kind, text), STRING, texts=((opposite, text, None),))

    def _numbers(self, node: Node) -> Iterator[Node]:
        if node.minimum is not None:
            yield self._typed(
                node, "minimum", NUMBER,
                maximum=node.minimum, exclusive_maximum=not node.exclusive_minimum,
            )  # fmt: skip
        if node.maximum is not None:
            yield self._typed(
                node, "maximum", NUMBER,
                minimum=node.maximum, exclusive_minimum=not node.exclusive_maximum,
            )  # fmt: skip
        for step in node.multiples:
            yield self._typed(node, ("multipleOf", step), NUMBER, not_multiples=(step,))
        for step in node.not_multiples:
            yield self._typed(node, ("not multipleOf", step), NUMBER, multiples=(step,))

    def _objects(self, node: Node) -> Iterator[Node]:
        for name, sub in (node.properties or {}).items():
            yield self._typed(
                node, ("properties", name), OBJECT,
                properties={name: self.negated(sub)}, required=(name,),
            )  # fmt: skip
        for name in node.required:
            yield self._typed(node, ("required", name), OBJECT, properties={name: self.nothing})
        listed = frozenset(node.properties or ())
        patterns = tuple(text for text, _ in node.pattern_properties)
        for text, sub in node.pattern_properties:
            some = Some(self.negated(sub), matching=(text,))
            yield self._typed(node, ("patternProperties", text), OBJECT, some=(some,))
        if node.additional is not None:
            some = Some(self.negated(node.additional), names=listed, missing=patterns)
            yield self._typed(node, "additionalProperties", OBJECT, some=(some,))
        if node.property_names is not None:
            some = Some(self.anything, misnamed=node.property_names)
            yield self._typed(node, "propertyNames", OBJECT, some=(some,))
        if node.min_properties:
            yield self._typed(
                node, "minProperties", OBJECT, max_properties=node.min_properties - 1
            )
        if node.max_properties is not None:
            yield self._typed(
                node, "maxProperties", OBJECT, min_properties=node.max_properties + 1
            )
        for i, some in enumerate(node.some):
            yield self._typed(node, ("some", i), OBJECT, **self._no(some))

    def _no(self, some: Some) -> dict[str, Any]:
        """That no key of the kind has such a value."""
        raise UnsupportedError(
            "a negation of a negation of additional keys is not enforced",
            some.value.pointer,
            "not",
        )

    def _arrays(self, node: Node) -> Iterator[Node]:
        if node.unique:
            message = "the negation of uniqueItems is not enforced"
            raise UnsupportedError(message, f"{node.pointer}/uniqueItems", "uniqueItems")
        for i, sub in enumerate(node.prefix):
            prefix = (*(self.anything for _ in range(i)), self.negated(sub))
            yield self._typed(node, ("prefix", i), ARRAY, prefix=prefix, min_items=i + 1)
        if node.items is not None:
            some_item = Contains(len(node.prefix), self.negated(node.items), 1, None)
            yield self._typed(node, "items", ARRAY, contains=(some_item,))
        if node.min_items:
            yield self._typed(node, "minItems", ARRAY, max_items=node.min_items - 1)
        if node.max_items is not None:
            yield self._typed(node, "maxItems", ARRAY, min_items=node.max_items + 1)
        for i, each in enumerate(node.contains):
            if each.low:
                fewer = Contains(each.start, each.value, 0, each.low - 1)
                yield self._typed(node, ("contains", i, "fewer"), ARRAY, contains=(fewer,))
            if each.high is not None:
                more = Contains(each.start, each.value, each.high + 1, None)
                yield self._typed(node, ("contains", i, "more"), ARRAY, contains=(more,))
