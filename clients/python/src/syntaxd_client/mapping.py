"""A Python type as a JSON Schema, and JSON values back as its instances.

Each rule gives both directions at once, so that they cannot disagree:

====================================  ==========================================================
None, bool, int, float, str           the JSON type
Decimal                               "number", read without going through binary64
datetime, date, time, UUID            "string" with "format"
Enum, Literal                         "enum"
list, Sequence, tuple[X, ...]         "array" (set, frozenset: with "uniqueItems")
tuple[X, Y]                           "array" with "prefixItems"
dict[str, X], Mapping[str, X]         "object" with "additionalProperties"
Optional, Union                       "anyOf"; read by the first that takes the value
dataclass                             "object"; fields without a default are "required"
Annotated[X, Keywords(...)]           X, and those keywords (other metadata is ignored)
Any, object                           anything
====================================  ==========================================================

A dataclass inside another is a definition of its own, so it may contain itself.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import inspect
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from syntaxd_client.errors import UnmappableTypeError

Reader = Callable[[Any], Any]
"""Makes an object of a JSON value (with Decimal for 1.5). Raises MismatchError."""


class Mapped(NamedTuple):
    """One type in both directions."""

    schema: dict[str, Any]
    read: Reader


class PydanticInsideError(UnmappableTypeError):
    """A part is a Pydantic model or dataclass: Pydantic knows the whole type better."""


class MismatchError(ValueError):
    """A JSON value that the type does not take, and the JSON Pointer to it."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


class Keywords:
    """JSON Schema keywords for a part of a type: ``Annotated[str, Keywords(maxLength=40)]``."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords

    def __repr__(self) -> str:
        return f"Keywords(**{self.keywords!r})"

    def __get_pydantic_json_schema__(self, schema: Any, described: Any) -> dict[str, Any]:
        """Pydantic asks this of what stands in Annotated."""
        return {**described(schema), **self.keywords}


def map_type(target: Any) -> Mapped:
    """The whole schema, with ``$defs`` where it needs them. Raises UnmappableTypeError."""
    types_ = _Types()
    schema, read = types_.map(target, getattr(target, "__name__", str(target)))
    if not types_.definitions:
        return Mapped(schema, read)
    definitions = types_.definitions
    if schema.keys() == {"$ref"} and not _mentions(definitions, schema["$ref"]):
        schema = definitions.pop(schema["$ref"].removeprefix("#/$defs/"))
    return Mapped(schema | ({"$defs": definitions} if definitions else {}), read)


class _Types:
    """The rules, and the dataclasses met so far."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self._dataclasses: dict[type[Any], Mapped] = {}

    def map(self, target: Any, where: str) -> Mapped:
        """``where`` names the part in messages: "Invoice.lines"."""
        origin, arguments = typing.get_origin(target), typing.get_args(target)
        if isinstance(target, typing.NewType):
            return self.map(target.__supertype__, where)
        if origin is typing.Annotated:
            return _annotated(self.map(arguments[0], where), arguments[1:])
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, where)
        if origin is typing.Literal:
            return _one_of(arguments, arguments, where)
        if not isinstance(target, collections.abc.Hashable):
            _refuse(where, target, "is no type")
        if target in _SIMPLE:
            return _SIMPLE[target]
        if (container := origin or target) in _ARRAYS:
            return self._array(_ARRAYS[container], arguments or (Any,), where)
        if container is tuple:
            return self._tuple(arguments or (Any, ...), where)
        if container in _OBJECTS:
            return self._object(arguments or (str, Any), where)
        return self._class(target, where)

    def _class(self, target: Any, where: str) -> Mapped:
        if isinstance(target, type) and issubclass(target, enum.Enum):
            members = list(target)
            return _one_of([each.value for each in members], members, where)
        if hasattr(target, "__pydantic_validator__"):
            raise PydanticInsideError(f"{where}: {target.__name__} is one of Pydantic's")
        if not (isinstance(target, type) and dataclasses.is_dataclass(target)):
            _refuse(where, target, "has no JSON Schema")
        return self._dataclass(target, where)

    def _union(self, members: tuple[Any, ...], where: str) -> Mapped:
        mapped = [self.map(each, where) for each in members]

        def read(value: Any) -> Any:
            for each in mapped:
                try:
                    return each.read(value)
                except MismatchError as mismatch:
                    last = mismatch
            raise last

        return Mapped({"anyOf": [each.schema for each in mapped]}, read)

    def _array(self, make: Callable[[Any], Any], arguments: Any, where: str) -> Mapped:
        items = self.map(arguments[0], f"{where}[]")
        schema: dict[str, Any] = {"type": "array", "items": items.schema}
        if make in (set, frozenset):
            schema["uniqueItems"] = True

        def read(value: Any) -> Any:
            _check(value, list, "an array")
            read_items = [_at(place, items.read, each) for place, each in enumerate(value)]
            try:
                return make(read_items)
            except TypeError as error:  # a set of what has no hash
                raise MismatchError(str(error)) from error

        return Mapped(schema, read)

    def _tuple(self, arguments: tuple[Any, ...], where: str) -> Mapped:
        if arguments[1:] == (...,):
            return self._array(tuple, arguments, where)
        items = [self.map(each, f"{where}[{place}]") for place, each in enumerate(arguments)]
        schema = {
            "type": "array",
            "prefixItems": [each.schema for each in items],
            "minItems": len(items),
            "maxItems": len(items),
        }

        def read(value: Any) -> Any:
            _check(value, list, "an array")
            if len(value) != len(items):
                raise MismatchError(f"{len(value)} items, not {len(items)}")
            return tuple(
                _at(place, each.read, item)
                for place, (each, item) in enumerate(zip(items, value, strict=True))
            )

        return Mapped(schema, read)

    def _object(self, arguments: tuple[Any, ...], where: str) -> Mapped:
        key, value_type = arguments
        if key is not str:
            _refuse(where, key, "as a key: keys of a JSON object are str")
        values = self.map(value_type, f"{where}{{}}")

        def read(value: Any) -> Any:
            _check(value, dict, "an object")
            return {name: _at(name, values.read, each) for name, each in value.items()}

        return Mapped({"type": "object", "additionalProperties": values.schema}, read)

    def _dataclass(self, target: type[Any], where: str) -> Mapped:
        if target not in self._dataclasses:
            name = _free_name(target.__name__, self.definitions)
            readers: dict[str, Reader] = {}
            # Before its fields are: one of them may be of this type.
            self.definitions[name] = {}
            self._dataclasses[target] = Mapped(
                {"$ref": f"#/$defs/{name}"}, _dataclass_reader(target, readers)
            )
            properties = {}
            for field, annotation in _fields(target, where):
                properties[field.name], readers[field.name] = self.map(
                    annotation, f"{target.__name__}.{field.name}"
                )
            required = [field.name for field, _ in _fields(target, where) if _is_required(field)]
            self.definitions[name] |= {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            }
        return self._dataclasses[target]


def _fields(target: type[Any], where: str) -> Iterable[tuple[dataclasses.Field[Any], Any]]:
    """Those that the constructor takes, with their types."""
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        _refuse(where, target, f"has an annotation that cannot be resolved: {error}")
    fields = [field for field in dataclasses.fields(target) if field.init]
    names = {field.name for field in fields}
    for parameter in inspect.signature(target).parameters.values():
        if parameter.default is parameter.empty and parameter.name not in names:
            _refuse(where, target, f"needs {parameter.name!r}, which is no field")
    return [(field, hints[field.name]) for field in fields]


def _is_required(field: dataclasses.Field[Any]) -> bool:
    absent = dataclasses.MISSING
    return field.default is absent and field.default_factory is absent


def _dataclass_reader(target: type[Any], readers: Mapping[str, Reader]) -> Reader:
    def read(value: Any) -> Any:
        _check(value, dict, "an object")
        for name in value:
            if name not in readers:
                raise MismatchError(f"{target.__name__} has no field {name!r}")
        values = {name: _at(name, readers[name], each) for name, each in value.items()}
        try:
            return target(**values)
        except (TypeError, ValueError) as error:  # a field is missing; its __post_init__ objects
            raise MismatchError(f"{target.__name__}: {error}") from error

    return read


def _annotated(inner: Mapped, metadata: tuple[Any, ...]) -> Mapped:
    schema = dict(inner.schema)
    for each in metadata:
        if isinstance(each, Keywords):
            schema |= each.keywords
    return Mapped(schema, inner.read)


def _one_of(values: Iterable[Any], results: Iterable[Any], where: str) -> Mapped:
    """An enum: a JSON value, and what is read for it."""
    pairs = list(zip(values, results, strict=True))
    for value, _ in pairs:
        if not isinstance(value, str | int | float | None):
            _refuse(where, value, "is not a JSON value that can be listed")

    def read(value: Any) -> Any:
        given = plain(value)
        for listed, result in pairs:
            if isinstance(given, bool) == isinstance(listed, bool) and given == listed:
                return result
        raise MismatchError(f"{given!r} is not one of those listed")

    return Mapped({"enum": [value for value, _ in pairs]}, read)


def plain(value: Any) -> Any:
    """A JSON value as ``json.loads`` gives it: its Decimals are floats."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value


def _number(make: type[Any]) -> Reader:
    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise MismatchError(f"{value!r} is not a number")
        if make is int and value != int(value):
            raise MismatchError(f"{value} is not an integer")
        return make(value)

    return read


def _kind(kind: type[Any], words: str) -> Reader:
    def read(value: Any) -> Any:
        _check(value, kind, words)
        return value

    return read


def _spelled(parse: Callable[[str], Any], words: str) -> Reader:
    def read(value: Any) -> Any:
        _check(value, str, words)
        try:
            return parse(value)
        except ValueError as error:
            raise MismatchError(f"{value!r} is not {words}: {error}") from None

    return read


def _check(value: Any, kind: type[Any], words: str) -> None:
    if not isinstance(value, kind):
        raise MismatchError(f"{plain(value)!r} is not {words}")


def _at(step: str | int, read: Reader, value: Any) -> Any:
    """Reads a part; a mismatch in it says where it is."""
    try:
        return read(value)
    except MismatchError as mismatch:
        token = str(step).replace("~", "~0").replace("/", "~1")
        raise MismatchError(str(mismatch), f"/{token}{mismatch.pointer}") from mismatch.__cause__


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    number = 2
    result = name
    while result in taken:
        result, number = f"{name}{number}", number + 1
    return result


def _mentions(definitions: Any, reference: str) -> bool:
    match definitions:
        case dict():
            return definitions.get("$ref") == reference or any(
                _mentions(each, reference) for each in definitions.values()
            )
        case list():
            return any(_mentions(each, reference) for each in definitions)
    return False


def _refuse(where: str, target: Any, why: str) -> NoReturn:
    name = getattr(target, "__name__", None) or repr(target)
    raise UnmappableTypeError(f"{where}: {name} {why}")


def _string(format_: str, parse: Callable[[str], Any], words: str) -> Mapped:
    return Mapped({"type": "string", "format": format_}, _spelled(parse, words))


_SIMPLE: dict[Any, Mapped] = {
    Any: Mapped({}, plain),
    object: Mapped({}, plain),
    None: Mapped({"type": "null"}, _kind(types.NoneType, "null")),
    types.NoneType: Mapped({"type": "null"}, _kind(types.NoneType, "null")),
    bool: Mapped({"type": "boolean"}, _kind(bool, "a boolean")),
    int: Mapped({"type": "integer"}, _number(int)),
    float: Mapped({"type": "number"}, _number(float)),
    Decimal: Mapped({"type": "number"}, _number(Decimal)),
    str: Mapped({"type": "string"}, _kind(str, "a string")),
    # RFC 3339 lets "T" and "Z" be small, which fromisoformat does not.
    datetime.datetime: _string(
        "date-time", lambda text: datetime.datetime.fromisoformat(text.upper()), "a date and time"
    ),
    datetime.date: _string("date", datetime.date.fromisoformat, "a date"),
    datetime.time: _string(
        "time", lambda text: datetime.time.fromisoformat(text.upper()), "a time"
    ),
    uuid.UUID: _string("uuid", uuid.UUID, "a UUID"),
}
_ARRAYS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
}
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
