"""The plain meaning of a loaded node on a parsed value: the obvious recursive definition.

Used where listed values (``enum``, ``const``) meet other keywords; values come from the schema.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from grammar.formats import format_text
from grammar.regex import TextDfa, compile_text
from grammar.schema.equality import json_key
from grammar.schema.node import ARRAY, BOOLEAN, FRACTION, INTEGER, NULL, OBJECT, STRING, Node, Some


def type_of(value: Any) -> int:
    """The type bit of a parsed JSON value."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int | Decimal):
        return INTEGER if value == int(value) else FRACTION
    if isinstance(value, str):
        return STRING
    return ARRAY if isinstance(value, list) else OBJECT


def satisfies(value: Any, nodes: Sequence[Node]) -> bool:
    """Whether ``value`` satisfies every node, their applicators included."""
    return all(_satisfies(value, node) for node in nodes)


def satisfies_own(value: Any, nodes: Sequence[Node]) -> bool:
    """Whether ``value`` satisfies every node's own keywords (no refs or combinators)."""
    return all(_own(value, node) for node in nodes)


def _satisfies(value: Any, node: Node) -> bool:
    return (
        _own(value, node)
        and all(_satisfies(value, part) for part in (*node.refs, *node.all_of))
        and all(any(_satisfies(value, b) for b in choice) for choice in node.any_of)
        and (not node.one_of or sum(_satisfies(value, b) for b in node.one_of) == 1)
        and not any(_satisfies(value, part) for part in node.nots)
        and all(_conditional(value, *condition) for condition in node.conditions)
        and (not node.has_rest or _rest(value, node))
    )


def _rest(value: Any, node: Node) -> bool:
    """The members and items that no other keyword of the node has evaluated."""
    evaluated = _evaluated(value, node)
    if isinstance(value, dict) and node.unevaluated_properties is not None:
        rest = [item for name, item in value.items() if name not in evaluated]
        if not all(_satisfies(item, node.unevaluated_properties) for item in rest):
            return False
    if isinstance(value, list) and node.unevaluated_items is not None:
        rest = [item for i, item in enumerate(value) if i not in evaluated]
        return all(_satisfies(item, node.unevaluated_items) for item in rest)
    return True


def _evaluated(value: Any, node: Node) -> set[Any]:
    """Keys or indices that the keywords of a node which holds have evaluated."""
    found: set[Any] = set()
    if isinstance(value, dict):
        for name in value:
            matched = any(_matches(text, name) for text, _ in node.pattern_properties)
            if name in (node.properties or {}) or matched or node.additional is not None:
                found.add(name)
    elif isinstance(value, list):
        found |= set(range(len(value) if node.items is not None else len(node.prefix)))
        for each in node.contains:
            if each.evaluates:
                found |= {i for i, item in enumerate(value) if _satisfies(item, each.value)}
    else:
        return found
    inner = [
        *node.refs,
        *node.all_of,
        *(b for choice in node.any_of for b in choice),
        *node.one_of,
    ]
    for test, then, otherwise in node.conditions:
        holds = _satisfies(value, test)
        inner += [test, *([then] if holds and then else [otherwise] if otherwise else [])]
    for part in inner:
        if _satisfies(value, part):
            found |= _evaluated(value, part)
            if part.has_rest:
                found |= set(value) if isinstance(value, dict) else set(range(len(value)))
    return found


def _conditional(value: Any, test: Node, then: Node | None, otherwise: Node | None) -> bool:
    branch = then if _satisfies(value, test) else otherwise
    return branch is None or _satisfies(value, branch)


def _own(value: Any, node: Node) -> bool:
    kind = type_of(value)
    if not node.types & kind:
        return False
    if (node.enums or node.excluded) and not _is_listed(json_key(value), node):
        return False
    if kind == STRING:
        return _string(value, node)
    if kind & (INTEGER | FRACTION):
        return _number(Fraction(value), node)
    if kind == ARRAY:
        return _array(value, node)
    return kind != OBJECT or _object(value, node)


def _is_listed(key: Hashable, node: Node) -> bool:
    return all(key in each for each in node.enum_keys) and all(
        key not in each for each in node.excluded_keys
    )


def _string(value: str, node: Node) -> bool:
    high = node.max_length
    return (
        node.min_length <= len(value)
        and (high is None or len(value) <= high)
        and all(_matches_text(value, *text) for text in node.texts)
    )


def _matches_text(value: str, kind: str, name: str, text: TextDfa | None) -> bool:
    if kind.startswith("not "):
        return not _automaton(kind.removeprefix("not "), name, None).matches(value)
    return _automaton(kind, name, text).matches(value)


def _automaton(kind: str, name: str, text: TextDfa | None) -> TextDfa:
    if text is not None:
        return text
    return format_text(name) if kind == "format" else compile_text(name, search=True, nul=False)


def _number(value: Fraction, node: Node) -> bool:
    if node.minimum is not None:
        low = Fraction(node.minimum)
        if value < low or (value == low and node.exclusive_minimum):
            return False
    if node.maximum is not None:
        high = Fraction(node.maximum)
        if value > high or (value == high and node.exclusive_maximum):
            return False
    if any((value / Fraction(m)).denominator == 1 for m in node.not_multiples):
        return False
    return all((value / Fraction(m)).denominator == 1 for m in node.multiples)


def _array(value: list[Any], node: Node) -> bool:
    if len(value) < node.min_items or (node.max_items is not None and len(value) > node.max_items):
        return False
    if node.unique and len(set(map(json_key, value))) < len(value):
        return False
    for i, item in enumerate(value):
        schema = node.prefix[i] if i < len(node.prefix) else node.items
        if schema is not None and not _satisfies(item, schema):
            return False
    for each in node.contains:
        number = sum(_satisfies(item, each.value) for item in value[each.start :])
        if number < each.low or (each.high is not None and number > each.high):
            return False
    return True


def _object(value: dict[str, Any], node: Node) -> bool:
    if any(name not in value for name in node.required):
        return False
    high = node.max_properties
    if len(value) < node.min_properties or (high is not None and len(value) > high):
        return False
    names = node.property_names
    if names is not None and not all(_satisfies(name, names) for name in value):
        return False
    for name, item in value.items():
        schemas = [sub for text, sub in node.pattern_properties if _matches(text, name)]
        if name in (node.properties or {}):
            schemas.append((node.properties or {})[name])
        if not schemas and node.additional is not None:
            schemas.append(node.additional)
        if not all(_satisfies(item, schema) for schema in schemas):
            return False
    return all(
        any(
            _is_of_kind(some, name) and _satisfies(item, some.value)
            for name, item in value.items()
        )
        for some in node.some
    )


def _matches(pattern: str, name: str) -> bool:
    return compile_text(pattern, search=True).matches(name)


def _is_of_kind(some: Some, name: str) -> bool:
    return (
        name not in some.names
        and all(_matches(text, name) for text in some.matching)
        and not any(_matches(text, name) for text in some.missing)
        and (some.misnamed is None or not _satisfies(name, some.misnamed))
    )
