"""Loading a schema: JSON text -> checked nodes, references resolved.

One iterative pass over everything reachable from the root. What constrains but is not enforced is
refused here with its JSON Pointer, never ignored; annotations and unknown keywords pass.
"""

from __future__ import annotations

import contextlib
import decimal
import json
from collections.abc import Callable, Container, Iterator
from decimal import Decimal
from typing import Any, ClassVar

from grammar.errors import (
    ConstraintSyntaxError,
    GrammarError,
    TooComplex,
    UnsupportedError,
)
from grammar.formats import ENFORCED_FORMATS, UNSUPPORTED_FORMATS
from grammar.options import JsonOptions, Limits
from grammar.regex import TextDfa, compile_text
from grammar.schema.keys import MAX_OF_CLASS
from grammar.schema.keywords import pointer_token
from grammar.schema.node import ALL_TYPES, OBJECT, TYPE_BITS, Contains, Node
from grammar.schema.resources import NO_SCOPE, Resource, Resources, Scope, Target

DIALECTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}

MAX_NUMBER_CHARACTERS = 4_000  # as Python's own limit for integers
MAX_EXPONENT = 1_000  # binary64 ends at 308
MAX_LENGTH = 1 << 20  # a longer string than this is never generated: larger bounds are none


Reader = Callable[["Document", Node, Any, str, dict[str, Any]], None]


def _count(name: str) -> Reader:
    def read(
        document: Document, node: Node, value: Any, where: str, schema: dict[str, Any]
    ) -> None:
        del document, schema
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            message = f"must be a non-negative integer, not {value!r}"
            raise ConstraintSyntaxError(message, where)
        if name == "max_length" and value >= MAX_LENGTH:
            return
        if name == "min_length" and value > MAX_LENGTH:
            message = f"minLength {value} is over {MAX_LENGTH}"
            raise TooComplex(message, where, "max_output_bytes")
        if name == "min_properties" and value > MAX_OF_CLASS:
            message = f"minProperties {value} is over {MAX_OF_CLASS}"
            raise TooComplex(message, where, "max_output_bytes")
        setattr(node, name, value)

    return read


def _bound(name: str, *, exclusive: bool) -> Reader:
    def read(
        document: Document, node: Node, value: Any, where: str, schema: dict[str, Any]
    ) -> None:
        if document.draft == 4 and isinstance(value, bool):
            return  # read beside minimum / maximum
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            message = f"must be a number, not {_kind(value)}"
            raise ConstraintSyntaxError(message, where)
        out = exclusive
        if document.draft == 4:
            if exclusive:
                return
            other = schema.get("exclusiveMinimum" if name == "minimum" else "exclusiveMaximum")
            out = other is True
        node.add_bound(name, value, out)

    return read


def dialect_of(schema: Any) -> int:
    """The draft that a schema's ``$schema`` names: 4, 6, 7, 2019, or 2020 where it names none."""
    uri = schema.get("$schema", "") if isinstance(schema, dict) else ""
    if isinstance(uri, str):
        draft = DIALECTS.get(uri.rstrip("#"))
        if draft is None and "localhost" in uri:
            message = f"unknown meta-schema {uri}"
            raise UnsupportedError(message, "/$schema", "$schema")
        return draft or 2020
    return 2020


class Document:
    """A parsed schema. ``root`` is its node; ``diagnostics`` what is an annotation here."""

    def __init__(
        self,
        text: str | bytes,
        options: JsonOptions,
        limits: Limits,
        checked: Container[str] = (),
    ) -> None:
        #: Patterns that another process compiled: "checked:" + pattern.
        self._checked = checked
        self.options = options
        self.limits = limits
        self.schema = parse_json(text, limits)
        self.draft = self._dialect()
        #: By identity of the schema and the scope it is read in.
        self._nodes: dict[tuple[int, Scope], Node] = {}
        self._pointer_bytes = 0
        self._todo: list[tuple[Any, str, Node, Resource, Scope]] = []
        self._resources = Resources(self.schema, self.draft, options, dialect_of)
        self._resource = self._resources.root
        self._scope = NO_SCOPE
        self._scopes: set[Scope] = set()
        self.diagnostics: list[tuple[str, str, str]] = []  # code, place, message
        self.root = self._node(self.schema, "")

    def scan(self) -> Iterator[None]:
        """Check every reachable node; yields after a batch of them. Raises GrammarError."""
        done = 0
        while self._todo:
            schema, pointer, node, self._resource, self._scope = self._todo.pop()
            self._read(schema, pointer, node)
            done += 1
            if done % 20 == 0:
                yield

    def all_nodes(self) -> list[Node]:
        """Every node read, in the order found."""
        return list(self._nodes.values())

    def _dialect(self) -> int:
        return dialect_of(self.schema)

    # --- nodes ------------------------------------------------------------------------------

    def _node(self, schema: Any, pointer: str, inside: Resource | None = None) -> Node:
        """The node of a subschema (by identity of the parsed object), queued when new.

        ``inside``: the resource it stands in, by default that of the schema being read. What is
        read in another dynamic scope is another node: dynamic references lead elsewhere there.
        """
        resource, scope = inside or self._resource, self._scope
        if isinstance(schema, dict):
            if self._resources.id_keyword in schema:
                resource = self._resources.of(schema, resource)
            scope = self._entered(resource, pointer)
            key = (id(schema), scope)
        else:
            key = (-1 if schema is True else -2, NO_SCOPE)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(len(self._nodes), pointer)
            self._pointer_bytes += len(pointer)
            if self._pointer_bytes > self.limits.max_pointer_bytes:
                message = f"the pointers of its subschemas take over {self._pointer_bytes} bytes"
                raise TooComplex(message, "", "max_pointer_bytes")
            if schema is False:
                node.types = 0
                node.asserts = True
            elif schema is not True:
                if not isinstance(schema, dict):
                    message = f"a schema is an object or a boolean, not {_kind(schema)}"
                    raise ConstraintSyntaxError(message, pointer)
                self._todo.append((schema, pointer, node, resource, scope))
        return node

    def _entered(self, resource: Resource, pointer: str) -> Scope:
        scope = self._resources.entered(self._scope, resource)
        self._scopes.add(scope)
        if len(self._scopes) > self.limits.max_branches:
            message = f"dynamic references see over {self.limits.max_branches} different scopes"
            raise TooComplex(message, pointer, "max_branches")
        return scope

    def _read(self, schema: dict[str, Any], pointer: str, node: Node) -> None:
        if "$ref" in schema and isinstance(schema["$ref"], str):
            self._reference(schema["$ref"], pointer, node)
            if self.draft <= 7:  # siblings of $ref are ignored
                node.finish()
                return
        for name in schema:
            self._keyword(name, schema, pointer, node)
        node.finish()

    def _keyword(self, name: str, schema: dict[str, Any], pointer: str, node: Node) -> None:
        """Read one keyword into ``node``; ``grammar.explain`` watches what comes of it."""
        value = schema[name]
        reader = self.READERS.get(name)
        if reader is not None:
            reader(self, node, value, f"{pointer}/{name}", schema)

    def _reference(self, uri: str, pointer: str, node: Node) -> None:
        self._refer(self._resources.resolve(uri, self._resource, f"{pointer}/$ref"), node)

    def _refer(self, target: Target, node: Node) -> None:
        node.refs = (*node.refs, self._node(target.schema, target.pointer, target.resource))
        node.asserts = True

    def _dynamic_ref(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        """As ``$ref``, except to an anchor that an outer resource has as well: that one's then."""
        del schema
        if self.draft < 2020:
            return
        self._expect(value, str, where)
        target = self._resources.resolve(value, self._resource, where)
        self._refer(target if not target.anchor else self._outermost(target, target.anchor), node)

    def _outermost(self, target: Target, anchor: str) -> Target:
        """The same anchor of the outermost resource of the scope, if it is a dynamic one.

        JSON Schema 2020-12, section 8.2.3.2; "": the root, 2019-09, section 8.2.4.2.2.
        """
        if anchor not in target.resource.dynamic:
            return target
        outer = dict(self._scope).get(anchor)
        return target if outer is None else outer.target(anchor)

    def _recursive_ref(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        if self.draft != 2019:
            return
        self._expect(value, str, where)
        target = self._resources.resolve(value, self._resource, where)
        self._refer(self._outermost(target, ""), node)

    # --- keyword readers --------------------------------------------------------------------

    def _type(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        names = value if isinstance(value, list) else [value]
        bits = 0
        for name in names:
            if not isinstance(name, str) or name not in TYPE_BITS:
                if self.draft == 4 and name == "any":
                    bits |= ALL_TYPES
                    continue
                message = f"unknown type {name!r}"
                raise ConstraintSyntaxError(message, where)
            bits |= TYPE_BITS[name]
        node.restrict(bits)

    def _enum(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        if not isinstance(value, list):
            message = "enum must be an array"
            raise ConstraintSyntaxError(message, where)
        if len(value) > self.limits.max_choices:
            message = f"{len(value)} values, at most {self.limits.max_choices}"
            raise TooComplex(message, where, "max_choices")
        node.enums = (*node.enums, value)

    def _const(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del where, schema
        if self.draft >= 6:
            node.enums = (*node.enums, [value])

    def _properties(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        self._expect(value, dict, where)
        closed = self.options.additional_properties_default != "allow"
        if value and closed and "additionalProperties" not in schema:
            message = "only the listed keys are generated (additional_properties_default)"
            self.diagnostics.append(("OBJECT_CLOSED", where.removesuffix("/properties"), message))
        node.properties = {
            name: self._node(sub, f"{where}/{pointer_token(name)}") for name, sub in value.items()
        }

    def _required(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        if isinstance(value, bool):  # draft 3, still common in the wild
            message = "required must be an array of names"
            raise ConstraintSyntaxError(message, where)
        self._expect(value, list, where)
        if not all(isinstance(name, str) for name in value):
            message = "required must be an array of names"
            raise ConstraintSyntaxError(message, where)
        node.required = tuple(dict.fromkeys(value))

    def _additional(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        node.additional = self._node(value, where)

    def _pattern_properties(
        self, node: Node, value: Any, where: str, schema: dict[str, Any]
    ) -> None:
        del schema
        self._expect(value, dict, where)
        found = []
        for pattern, sub in value.items():
            place = f"{where}/{pointer_token(pattern)}"
            self._checked_pattern(pattern, place)
            found.append((pattern, self._node(sub, place)))
        node.pattern_properties = tuple(found)

    def _property_names(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        if self.draft >= 6:
            names = self._node(value, where)
            node.property_names = names if value not in (True, {}) else None

    def _items(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        if isinstance(value, list):
            if self.draft >= 2020:
                message = "items must be a schema; use prefixItems for positions"
                raise ConstraintSyntaxError(message, where)
            node.prefix = tuple(self._node(sub, f"{where}/{i}") for i, sub in enumerate(value))
            if "additionalItems" in schema:
                node.items = self._node(
                    schema["additionalItems"], where.removesuffix("items") + "additionalItems"
                )
        else:
            node.items = self._node(value, where)

    def _prefix_items(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        if self.draft >= 2020:
            self._expect(value, list, where)
            node.prefix = tuple(self._node(sub, f"{where}/{i}") for i, sub in enumerate(value))

    def _contains(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        if self.draft < 6:
            return
        base = where.removesuffix("contains")
        bounds = Node(-1, "")
        if self.draft >= 2019:
            for name, attribute in (("minContains", "min_items"), ("maxContains", "max_items")):
                if name in schema:
                    _count(attribute)(self, bounds, schema[name], base + name, schema)
        low = bounds.min_items if self.draft >= 2019 and "minContains" in schema else 1
        items = Contains(
            0, self._node(value, where), low, bounds.max_items, evaluates=self.draft >= 2020
        )
        node.contains = (items,)

    def _unique_items(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        self._expect(value, bool, where)
        node.unique = value

    def _unevaluated_properties(
        self, node: Node, value: Any, where: str, schema: dict[str, Any]
    ) -> None:
        del schema
        if self.draft >= 2019:
            node.unevaluated_properties = self._node(value, where)

    def _unevaluated_items(
        self, node: Node, value: Any, where: str, schema: dict[str, Any]
    ) -> None:
        del schema
        if self.draft >= 2019:
            node.unevaluated_items = self._node(value, where)

    def _multiple(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or value <= 0:
            message = f"must be a number above zero, not {value!r}"
            raise ConstraintSyntaxError(message, where)
        node.multiples = (*node.multiples, value)

    def _pattern(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        self._expect(value, str, where)
        compiled = self._checked_pattern(value, where)
        node.texts = (*node.texts, ("pattern", value, compiled))

    def _checked_pattern(self, pattern: str, where: str) -> TextDfa | None:
        """The automaton of a pattern; None where another process has shown that it compiles."""
        if len(pattern) > self.limits.max_regex_bytes:
            message = f"longer than {self.limits.max_regex_bytes} bytes"
            raise TooComplex(message, where, "max_regex_bytes")
        if f"checked:{pattern}" in self._checked:
            return None
        try:
            return compile_text(pattern, search=True, nul=False, limits=self.limits)
        except GrammarError as error:
            raise error.at(where) from None

    def _format(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        self._expect(value, str, where)
        if self.options.formats == "annotate":
            self.diagnostics.append(
                ("FORMAT_ANNOTATED", where, f"format {value} is an annotation")
            )
        elif value in ENFORCED_FORMATS:
            node.texts = (*node.texts, ("format", value, None))
        elif value in UNSUPPORTED_FORMATS:
            message = f"format {value} is not enforced yet"
            raise UnsupportedError(message, where, "format")
        else:
            message = f"unknown format {value} is an annotation"
            self.diagnostics.append(("FORMAT_UNKNOWN", where, message))

    def _all_of(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        node.all_of = self._branches(value, where)

    def _any_of(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        node.any_of = (*node.any_of, self._branches(value, where))

    def _one_of(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        node.one_of = self._branches(value, where)

    def _not(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        node.nots = (self._node(value, where),)

    def _if(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        if self.draft < 7:
            return
        base = where.removesuffix("if")
        then, otherwise = (
            self._node(schema[name], base + name) if name in schema else None
            for name in ("then", "else")
        )
        node.conditions = (*node.conditions, (self._node(value, where), then, otherwise))

    def _dependent_required(
        self, node: Node, value: Any, where: str, schema: dict[str, Any]
    ) -> None:
        del schema
        if self.draft >= 2019:
            self._expect(value, dict, where)
            for name, names in value.items():
                place = f"{where}/{pointer_token(name)}"
                self._depends(node, name, self._requiring(names, place), place)

    def _dependent_schemas(
        self, node: Node, value: Any, where: str, schema: dict[str, Any]
    ) -> None:
        del schema
        if self.draft >= 2019:
            self._expect(value, dict, where)
            for name, sub in value.items():
                place = f"{where}/{pointer_token(name)}"
                self._depends(node, name, self._node(sub, place), place)

    def _dependencies(self, node: Node, value: Any, where: str, schema: dict[str, Any]) -> None:
        del schema
        if self.draft <= 7:
            self._expect(value, dict, where)
            for name, what in value.items():
                place = f"{where}/{pointer_token(name)}"
                if isinstance(what, list):
                    self._depends(node, name, self._requiring(what, place), place)
                else:
                    self._depends(node, name, self._node(what, place), place)

    def _requiring(self, names: Any, where: str) -> Node:
        """An object with these keys, or anything else."""
        self._expect(names, list, where)
        if not all(isinstance(name, str) for name in names):
            message = "must be an array of names"
            raise ConstraintSyntaxError(message, where)
        return self._made(where, required=tuple(dict.fromkeys(names)))

    def _depends(self, node: Node, name: str, on: Node, where: str) -> None:
        """Objects with the key ``name`` are as ``on`` says."""
        has = self._made(f"{where} given", types=OBJECT, required=(name,))
        node.conditions = (*node.conditions, (has, on, None))

    def _made(self, where: str, **keywords: Any) -> Node:
        """A node that stands for a part of a keyword."""
        made = Node(len(self._nodes), where)
        made.is_made = True
        for name, value in keywords.items():
            setattr(made, name, value)
        made.finish()
        self._nodes[-3 - made.number, NO_SCOPE] = made
        return made

    def _branches(self, value: Any, where: str) -> tuple[Node, ...]:
        self._expect(value, list, where)
        if not value:
            message = "needs at least one schema"
            raise ConstraintSyntaxError(message, where)
        if len(value) > self.limits.max_branches:
            message = f"{len(value)} branches, at most {self.limits.max_branches}"
            raise TooComplex(message, where, "max_branches")
        return tuple(self._node(sub, f"{where}/{i}") for i, sub in enumerate(value))

    def _expect(self, value: Any, kind: type, where: str) -> None:
        if not isinstance(value, kind):
            names: dict[type, str] = {
                dict: "an object", list: "an array", str: "a string", bool: "true or false",
            }  # fmt: skip
            wanted = names[kind]
            message = f"must be {wanted}, not {_kind(value)}"
            raise ConstraintSyntaxError(message, where)

    READERS: ClassVar[dict[str, Reader]] = {
        "type": _type,
        "enum": _enum,
        "const": _const,
        "properties": _properties,
        "required": _required,
        "additionalProperties": _additional,
        "patternProperties": _pattern_properties,
        "propertyNames": _property_names,
        "minProperties": _count("min_properties"),
        "maxProperties": _count("max_properties"),
        "items": _items,
        "prefixItems": _prefix_items,
        "contains": _contains,
        "unevaluatedProperties": _unevaluated_properties,
        "unevaluatedItems": _unevaluated_items,
        "minItems": _count("min_items"),
        "maxItems": _count("max_items"),
        "uniqueItems": _unique_items,
        "minLength": _count("min_length"),
        "maxLength": _count("max_length"),
        "minimum": _bound("minimum", exclusive=False),
        "maximum": _bound("maximum", exclusive=False),
        "exclusiveMinimum": _bound("minimum", exclusive=True),
        "exclusiveMaximum": _bound("maximum", exclusive=True),
        "multipleOf": _multiple,
        "pattern": _pattern,
        "format": _format,
        "allOf": _all_of,
        "anyOf": _any_of,
        "oneOf": _one_of,
        "not": _not,
        "$dynamicRef": _dynamic_ref,
        "$recursiveRef": _recursive_ref,
        "if": _if,
        "dependentRequired": _dependent_required,
        "dependentSchemas": _dependent_schemas,
        "dependencies": _dependencies,
    }


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", Decimal: "a number", str: "a string",
             list: "an array", dict: "an object"}  # fmt: skip
    return names.get(type(value), type(value).__name__)


def parse_json(text: str | bytes, limits: Limits) -> Any:
    """Strict RFC 8259 parsing with exact decimals. Raises ConstraintSyntaxError, TooComplex."""
    if len(text) > limits.max_schema_bytes:
        message = f"{len(text)} bytes, at most {limits.max_schema_bytes}"
        raise TooComplex(message, "", "max_schema_bytes")
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = json.loads(text, parse_float=_decimal, parse_constant=_constant, parse_int=int)
        if text.count("{") + text.count("[") > limits.max_schema_depth:
            _check_depth(value, limits.max_schema_depth)
    except GrammarError:
        raise
    except UnicodeDecodeError as error:
        message = f"not UTF-8 at byte {error.start}"
        raise ConstraintSyntaxError(message, f"@{error.start}") from None
    except json.JSONDecodeError as error:
        offset = len(error.doc[: error.pos].encode())
        message = f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise ConstraintSyntaxError(message, f"@{offset}") from None
    except RecursionError:
        message = "the schema is nested too deep"
        raise TooComplex(message, "", "max_schema_depth") from None
    except ValueError as error:
        raise ConstraintSyntaxError(str(error), "@0") from None
    return value


def _decimal(text: str) -> Decimal:
    value = None
    if len(text) <= MAX_NUMBER_CHARACTERS:
        with contextlib.suppress(decimal.InvalidOperation):
            value = Decimal(text)
    if value is None or (value and abs(value.adjusted()) > MAX_EXPONENT):
        message = f"the number {text[:40]} is out of any range"
        raise TooComplex(message, "", "max_number")
    return value


def _check_depth(value: Any, limit: int) -> None:
    level = [value]
    for _ in range(limit + 1):
        inner = [list(v.values()) if isinstance(v, dict) else v for v in level if v]
        level = [v for values in inner for v in values if isinstance(v, dict | list)]
        if not level:
            return
    message = f"the schema is nested deeper than {limit}"
    raise TooComplex(message, "", "max_schema_depth")


def _constant(name: str) -> Any:
    message = f"{name} is not JSON"
    raise ValueError(message)
