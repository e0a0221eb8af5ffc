"""Pydantic models and dataclasses, and whatever contains one: Pydantic's schema and reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from syntaxd_client.errors import UnmappableTypeError

T = TypeVar("T")


class _Schema(GenerateJsonSchema):
    """Pydantic's, but a Decimal is a number, with as many places as it may have.

    Pydantic would have it be a string too, and says nothing of what is in that string: the answer
    could be any text, which the model then refuses.
    """

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        described = super().decimal_schema(schema)
        for each in described.get("anyOf", ()):
            if each.get("type") == "number":
                described = each
        places = schema.get("decimal_places")
        if places is not None and "multipleOf" not in described:
            described["multipleOf"] = 10**-places if places else 1
        return described


def schema_and_reader(target: type[T]) -> tuple[dict[str, Any], Callable[[str], T]]:
    """The reader raises ValueError (Pydantic's ValidationError). Raises UnmappableTypeError."""
    try:
        adapter = TypeAdapter(target)
        return adapter.json_schema(schema_generator=_Schema), adapter.validate_json
    except PydanticUserError as error:
        raise UnmappableTypeError(f"{getattr(target, '__name__', target)}: {error}") from error
