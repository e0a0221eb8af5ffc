"""The judge of JSON answers: jsonschema, with the differences that decision 23 lists removed.

Every named format has a checker, numbers are decimals (19.99 is a multiple of 0.01), ``pattern``
means what ECMA-262 says, a repeated key is an error, and ``$schema`` chooses the dialect.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import jsonschema
import referencing
import referencing.exceptions
import referencing.jsonschema
from jsonschema import _keywords, _legacy_keywords, _utils
from jsonschema.validators import validator_for

from tests import ecma

FORMATS = (
    "date-time",
    "date",
    "time",
    "duration",
    "uri",
    "uri-reference",
    "iri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "regex",
    "json-pointer",
)

# Of the latest draft, which knows all of them, for schemas of every draft: the checker of no draft
# in particular has draft 3's idea of "time".
FORMAT_CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER

# jsonschema searches with Python's re; these modules are where.
for _module in (_keywords, _legacy_keywords, _utils):
    assert hasattr(_module, "re"), f"{_module.__name__} looks patterns up in another way now"
    _module.re = ecma  # type: ignore[attr-defined]


class NotJson(ValueError):  # noqa: N818 - names the verdict
    """The text is not one JSON value with distinct keys in every object."""


def valid(
    schema: Any,
    text: str | bytes,
    *,
    formats: bool = True,
    remotes: Mapping[str, Any] | None = None,
) -> bool:
    """Whether ``text`` is JSON that ``schema`` allows. ``remotes``: URI -> schema."""
    try:
        value = parse(text)
    except NotJson:
        return False
    return valid_value(schema, value, formats=formats, remotes=remotes)


def valid_value(
    schema: Any, value: Any, *, formats: bool = True, remotes: Mapping[str, Any] | None = None
) -> bool:
    """Whether ``schema`` allows ``value``, as ``parse`` returns it."""
    schema = parse(json.dumps(schema))
    base = validator_for(schema, default=jsonschema.Draft202012Validator)
    cls = jsonschema.validators.extend(base, type_checker=_decimals(base.TYPE_CHECKER))
    validator = cls(
        schema,
        format_checker=FORMAT_CHECKER if formats else None,
        registry=_registry(remotes or {}, base),
    )
    with decimal.localcontext(prec=2_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
        return bool(validator.is_valid(value))


def parse(text: str | bytes) -> Any:
    """JSON with its numbers as int or Decimal. Raises NotJson."""
    try:
        return json.loads(
            text,
            parse_float=Decimal,
            parse_constant=_no_constant,
            object_pairs_hook=_distinct_keys,
        )
    except (ValueError, UnicodeDecodeError) as error:
        raise NotJson(str(error)) from error


def _no_constant(name: str) -> None:
    raise NotJson(f"{name} is not JSON")


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotJson("a key twice in one object")
    return members


def _decimals(checker: jsonschema.TypeChecker) -> jsonschema.TypeChecker:
    """Knows Decimal as a number; an integral one is an integer where a float would be."""
    if not checker.is_type(1.0, "integer"):  # draft 4
        return checker

    def is_integer(_checker: jsonschema.TypeChecker, value: object) -> bool:
        if isinstance(value, Decimal):
            return value == value.to_integral_value()
        return isinstance(value, int) and not isinstance(value, bool)

    return checker.redefine("integer", is_integer)


def _registry(remotes: Mapping[str, Any], base: Any) -> Any:
    dialect = referencing.jsonschema.specification_with(base.META_SCHEMA["$schema"])

    def retrieve(uri: str) -> Any:
        if uri not in remotes:
            raise referencing.exceptions.NoSuchResource(uri)
        return referencing.Resource.from_contents(remotes[uri], default_specification=dialect)

    # Asked for one by one: a schema of another dialect is not looked through unless it is used.
    return referencing.Registry(retrieve=retrieve)  # type: ignore[call-arg]
