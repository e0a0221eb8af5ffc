"""What ``extract`` may be asked for: a JSON Schema out, the answer's text in.

A type with something of Pydantic's in it is Pydantic's to describe and to read; other types go
through ``mapping``; a JSON Schema is taken as it stands and answered with plain Python objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Generic, TypeVar

from syntaxd_client.answers import Answer
from syntaxd_client.errors import AnswerError, UnmappableTypeError
from syntaxd_client.mapping import MismatchError, PydanticInsideError, map_type
from syntaxd_client.options import JsonSchema

T = TypeVar("T")


class Target(Generic[T]):
    """A schema and the way back."""

    def __init__(self, schema: str, read: Callable[[str], T]) -> None:
        self.schema = schema  # JSON text
        self._read = read

    def read(self, answer: Answer) -> T:
        """The object for an answer. Raises AnswerError."""
        text = answer.text
        if not answer.complete:  # BEST_EFFORT
            raise AnswerError("the answer was cut short", text)
        try:
            return self._read(text)
        except MismatchError as error:
            raise AnswerError(str(error), text, error.pointer) from error
        except ValueError as error:  # no JSON at all; Pydantic's ValidationError
            raise AnswerError(str(error), text) from error


def target_of(target: type[T] | JsonSchema) -> Target[Any]:
    """Raises UnmappableTypeError."""
    if isinstance(target, str):
        return Target(target, json.loads)
    if isinstance(target, Mapping | bool):
        return Target(_dump(target), json.loads)
    try:
        schema, read = map_type(target)
    except PydanticInsideError:
        # Pydantic is optional: whoever has a model has it.
        from syntaxd_client.pydantic_types import schema_and_reader

        described, validate = schema_and_reader(target)
        return Target(_dump(described), validate)
    return Target(_dump(schema), lambda text: read(json.loads(text, parse_float=Decimal)))


def schema_text(target: type[Any] | JsonSchema) -> str:
    """The JSON Schema of anything that ``extract`` takes. Raises UnmappableTypeError."""
    return target_of(target).schema


def _dump(schema: Any) -> str:
    """As JSON text, in order. Raises UnmappableTypeError."""
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnmappableTypeError(f"the schema is not JSON: {error}") from None
