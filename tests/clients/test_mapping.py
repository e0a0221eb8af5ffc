"""Python types as JSON Schemas, and the values of those schemas as Python objects."""

import collections.abc
import dataclasses
import datetime as dt
import enum
import json
import random
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import jsonschema
import pydantic
import pytest

import grammar
from syntaxd_client import Answer, AnswerError, Keywords, UnmappableTypeError, Usage
from syntaxd_client.targets import schema_text, target_of
from tests.naive import byte_vocabulary, mask


class Colour(enum.Enum):
    RED = "red"
    GREEN = 2


class Level(enum.IntEnum):
    LOW = 1


Name = NewType("Name", str)


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5


@dataclass
class Node:
    value: Annotated[str, Keywords(maxLength=3)]
    left: "Node | None" = None
    children: "list[Node]" = field(default_factory=list)


@dataclass
class Everything:
    flag: bool
    number: int
    ratio: float
    price: Decimal
    text: str
    nothing: None
    when: dt.datetime
    day: dt.date
    clock: dt.time
    key: uuid.UUID
    colour: Colour
    level: Level
    mode: Literal["a", 1, None, True]
    points: list[Point]
    pair: tuple[int, str]
    many: tuple[Point, ...]
    names: dict[str, Name]
    maybe: Optional[Point]  # noqa: UP045
    either: Union[int, str]  # noqa: UP007
    anything: Any
    some: collections.abc.Sequence[int]
    table: collections.abc.Mapping[str, list[Decimal]]


SCHEMAS = {
    bool: {"type": "boolean"},
    Decimal: {"type": "number"},
    dt.date: {"type": "string", "format": "date"},
    Name: {"type": "string"},
    Colour: {"enum": ["red", 2]},
    Literal["a", "b"]: {"enum": ["a", "b"]},
    list[int]: {"type": "array", "items": {"type": "integer"}},
    list: {"type": "array", "items": {}},
    set[str]: {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    tuple[int, str]: {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "minItems": 2,
        "maxItems": 2,
    },
    dict[str, bool]: {"type": "object", "additionalProperties": {"type": "boolean"}},
    int | None: {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    Annotated[str, Keywords(maxLength=4), "ignored"]: {"type": "string", "maxLength": 4},
    Point: {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
        "required": ["x"],
        "additionalProperties": False,
    },
    list[Point]: {
        "type": "array",
        "items": {"$ref": "#/$defs/Point"},
        "$defs": {
            "Point": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
                "required": ["x"],
                "additionalProperties": False,
            }
        },
    },
}


@pytest.mark.parametrize("kind", SCHEMAS, ids=str)
def test_the_schema_of_a_type(kind):
    assert json.loads(schema_text(kind)) == SCHEMAS[kind]


def test_properties_keep_the_order_of_fields():
    schema = json.loads(schema_text(Everything))
    assert list(schema["properties"]) == [each.name for each in dataclasses.fields(Everything)]


def test_a_dataclass_may_contain_itself():
    schema = json.loads(schema_text(Node))
    assert schema["$ref"] == "#/$defs/Node"
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    text = '{"value":"a","left":{"value":"b"},"children":[{"value":"c"}]}'
    assert read(Node, text) == Node("a", Node("b"), [Node("c")])


def test_two_dataclasses_of_one_name_are_two_definitions():
    other = dataclasses.make_dataclass("Point", [("z", str)])
    schema = json.loads(schema_text(tuple[Point, other]))
    assert [each["$ref"] for each in schema["prefixItems"]] == ["#/$defs/Point", "#/$defs/Point2"]
    assert read(tuple[Point, other], '[{"x":1},{"z":"a"}]') == (Point(1), other("a"))


def answer(text: str, *, complete: bool = True) -> Answer:
    return Answer(text, complete, "stop", None, "", "", Usage(1, 1, 2, None))


def read(target, text: str, **changes):
    return target_of(target).read(answer(text, **changes))


READ = [
    (bool, "true", True),
    (int, "3", 3),
    (int, "3.0", 3),
    (float, "3", 3.0),
    (float, "1e2", 100.0),
    (Decimal, "0.10000000000000000001", Decimal("0.10000000000000000001")),
    (str, '"é"', "é"),
    (type(None), "null", None),
    (
        dt.datetime,
        '"2026-03-01t10:20:30.5z"',
        dt.datetime(2026, 3, 1, 10, 20, 30, 500_000, dt.UTC),
    ),
    (dt.date, '"2026-03-01"', dt.date(2026, 3, 1)),
    (dt.time, '"10:20:30Z"', dt.time(10, 20, 30, tzinfo=dt.UTC)),
    (
        uuid.UUID,
        '"12345678-1234-5678-1234-567812345678"',
        uuid.UUID("12345678123456781234567812345678"),
    ),
    (Colour, "2", Colour.GREEN),
    (Level, "1", Level.LOW),
    (Literal[True, 1], "1", 1),
    (Literal[1, True], "true", True),
    (list[Decimal], "[1.5]", [Decimal("1.5")]),
    (tuple[int, ...], "[1,2]", (1, 2)),
    (set[int], "[1,2]", {1, 2}),
    (frozenset[int], "[1]", frozenset({1})),
    (dict[str, Point], '{"a":{"x":1}}', {"a": Point(1)}),
    (Optional[Point], "null", None),  # noqa: UP045
    (int | str, '"1"', "1"),
    (dt.date | str, '"2026-03-01"', dt.date(2026, 3, 1)),
    (dt.date | str, '"soon"', "soon"),
    (Any, '{"a":[1.5]}', {"a": [1.5]}),
    (list, "[1.5]", [1.5]),
    (Point, '{"x":1}', Point(1, 0.5)),
    ({"type": "object"}, '{"a":1.5}', {"a": 1.5}),
    ('{"type": "number"}', "1.5", 1.5),
    (True, "1", 1),
]


@pytest.mark.parametrize(("target", "text", "value"), READ, ids=[f"{a} {b}" for a, b, _ in READ])
def test_a_value_becomes_an_object(target, text, value):
    got = read(target, text)
    assert got == value
    assert type(got) is type(value)


KINDS = [
    bool,
    int,
    float,
    Decimal,
    dt.datetime,
    dt.date,
    dt.time,
    uuid.UUID,
    Colour,
    Literal["a", 1, None, True],
    tuple[int, str],
    list[int | bool | None],
    dict[str, float],
    Point,
    Node,
    Everything,
]


def some_text(schema: str, rng: random.Random) -> str:
    """A walk that is random for a while and then takes the shortest way to the end."""
    vocabulary = byte_vocabulary()
    matcher = grammar.compile_json_schema(schema, vocabulary).matcher()
    text = b""
    for _ in range(rng.randint(0, 300)):
        tokens = [each for each in mask(matcher) if each not in vocabulary.eos_ids]
        if not tokens:
            break
        token = rng.choice(tokens)
        matcher.advance(token)
        text += vocabulary.token_bytes(token)
    return (text + matcher.witness()).decode()


@pytest.mark.parametrize("target", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_server_may_answer_is_read(target, seed):
    """Random texts of the schema's language, which is all that the type has told the server."""
    schema = schema_text(target)
    text = some_text(schema, random.Random(seed))
    jsonschema.validate(json.loads(text), json.loads(schema))
    got = read(target, text)
    assert got is not None
    if dataclasses.is_dataclass(target):
        assert isinstance(got, target)


@dataclass
class Positive:
    number: int

    def __post_init__(self):
        if self.number <= 0:
            raise ValueError("not positive")


REFUSED_VALUES = [
    (list[Positive], '[{"number":1},{"number":-1}]', "/1", "not positive"),
    (dict[str, int], '{"a/b":"x"}', "/a~1b", "'x' is not a number"),
    (Point, '{"y":1}', "", "x"),
    (Point, '{"x":1,"z":1}', "", "no field 'z'"),
    (tuple[int, str], "[1]", "", "1 items, not 2"),
    (int, "1.5", "", "not an integer"),
    (int, "true", "", "not a number"),
    (bool, "1", "", "not a boolean"),
    (dt.date, '"2026-02-30"', "", "not a date"),
    (Literal["a"], '"b"', "", "not one of those listed"),
    (int | bool, '"a"', "", "'a' is not a boolean"),
    (set[Node], '[{"value":"a"}]', "", "unhashable"),
    ({}, "{", None, "Expecting property name"),
]


@pytest.mark.parametrize(("target", "text", "pointer", "message"), REFUSED_VALUES, ids=str)
def test_a_value_that_the_type_refuses_says_where_and_why(target, text, pointer, message):
    with pytest.raises(AnswerError, match=message) as caught:
        read(target, text)
    assert caught.value.text == text
    assert caught.value.pointer == pointer
    assert caught.value.code is None


def test_a_text_that_was_cut_short_is_no_answer():
    with pytest.raises(AnswerError, match="cut short"):
        read({}, '{"a":1', complete=False)


class Loose(TypedDict):
    a: int


@dataclass
class WithInitVar:
    a: dataclasses.InitVar[int]


@dataclass
class WithUnknown:
    a: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Deep:
    inner: "list[tuple[int, bytes]]"


class Model(pydantic.BaseModel):
    a: int


@dataclass
class WithModel:
    model: Model


REFUSED_TYPES = [
    (bytes, "bytes: bytes has no JSON Schema"),
    (complex, "complex"),
    (Deep, r"Deep.inner\[\]\[1\]: bytes"),
    (dict[int, str], "int as a key"),
    (WithInitVar, "'a', which is no field"),
    (WithUnknown, "Nowhere"),
    (dt.timedelta, "timedelta"),
    (Literal[b"a"], "b'a'"),
    (collections.abc.Callable, "Callable"),
    (object(), "object"),
    ([int], "is no type"),
    ({"a": b""}, "not JSON"),
    ({"const": float("nan")}, "not JSON"),
]


@pytest.mark.parametrize(("target", "message"), REFUSED_TYPES, ids=str)
def test_a_type_that_json_schema_cannot_say_is_refused_by_its_place(target, message):
    with pytest.raises(UnmappableTypeError, match=message) as caught:
        schema_text(target)
    assert isinstance(caught.value, TypeError)


class Line(pydantic.BaseModel):
    price: Decimal = pydantic.Field(ge=0, le=100, decimal_places=2)
    day: dt.date | None = None
    colour: Colour

    @pydantic.field_validator("price")
    @classmethod
    def whole(cls, price: Decimal) -> Decimal:
        if price % 1:
            raise ValueError("whole amounts only")
        return price


class Bill(pydantic.BaseModel):
    model_config = {"populate_by_name": True}
    lines: list[Line] = pydantic.Field(alias="Lines", max_length=2)


def test_a_pydantic_model_speaks_for_itself():
    schema = json.loads(schema_text(Bill))
    assert schema["properties"] == Bill.model_json_schema()["properties"]
    assert schema["$defs"]["Line"]["required"] == ["price", "colour"]
    got = read(Bill, '{"Lines":[{"price":2,"colour":"red"}]}')
    assert got == Bill(lines=[Line(price=Decimal(2), colour=Colour.RED)])
    assert type(got.lines[0].price) is Decimal


def test_a_pydantic_decimal_is_a_number_with_its_places():
    """Pydantic's own schema lets it be any string."""

    class Prices(pydantic.BaseModel):
        any_: Decimal
        cents: Decimal = pydantic.Field(ge=0, decimal_places=2)
        whole: Decimal | None = pydantic.Field(decimal_places=0)

    properties = json.loads(schema_text(Prices))["properties"]
    assert properties["any_"] == {"type": "number", "title": "Any"}
    assert properties["cents"]["type"] == "number"
    assert properties["cents"]["multipleOf"] == 0.01
    assert properties["whole"]["anyOf"][0] == {"type": "number", "multipleOf": 1}
    text = '{"any_":0.1,"cents":0.07,"whole":3}'
    assert read(Prices, text) == Prices(any_="0.1", cents="0.07", whole=3)


def test_what_a_validator_refuses_is_an_answer_error():
    with pytest.raises(AnswerError, match="whole amounts only") as caught:
        read(Bill, '{"Lines":[{"price":2.5,"colour":"red"}]}')
    assert isinstance(caught.value.__cause__, pydantic.ValidationError)


def test_a_pydantic_dataclass_is_one_of_pydantics():
    @pydantic.dataclasses.dataclass
    class Small:
        size: int = pydantic.Field(le=3)

    assert json.loads(schema_text(Small))["properties"]["size"]["maximum"] == 3
    with pytest.raises(AnswerError):
        read(Small, '{"size":4}')


@pytest.mark.parametrize("target", [list[Model], Model | None, dict[str, Model], WithModel])
def test_a_type_with_a_pydantic_model_in_it_is_read_by_pydantic(target):
    text = {
        list[Model]: '[{"a":1}]',
        Model | None: '{"a":1}',
        dict[str, Model]: '{"b":{"a":1}}',
        WithModel: '{"model":{"a":1}}',
    }[target]
    jsonschema.validate(json.loads(text), json.loads(schema_text(target)))
    found = read(target, text)
    if isinstance(found, WithModel):
        found = found.model
    found = found[0] if isinstance(found, list) else found
    found = found["b"] if isinstance(found, dict) else found
    assert found == Model(a=1)


def test_keywords_count_for_pydantic_too():
    class Short(pydantic.BaseModel):
        name: Annotated[str, Keywords(maxLength=3)]

    assert json.loads(schema_text(Short))["properties"]["name"]["maxLength"] == 3


def test_a_pydantic_model_without_a_schema_is_refused():
    class Odd(pydantic.BaseModel):
        call: collections.abc.Callable[[], int]

    with pytest.raises(UnmappableTypeError, match="Odd"):
        schema_text(Odd)
