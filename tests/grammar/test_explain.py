"""What ``explain`` says of a schema is what compiling does with it."""

from __future__ import annotations

import json
import lzma
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import referencing.jsonschema

import grammar
from benchmarks.suite import DIALECTS
from grammar.schema import document
from tests import shared_data, verdicts
from tests.random_schemas import random_schema

FILES = shared_data.suite_files() if shared_data.SUITE.is_dir() else []
DRAFT_4, DRAFT_7 = (DIALECTS[name] for name in ("draft4", "draft7"))
SAMPLE = 150


def treatments(schema: Any, **options: Any) -> dict[str, str]:
    """Location -> treatment."""
    reports = grammar.explain(json.dumps(schema), grammar.JsonOptions(**options))
    found: dict[str, str] = {report.location: report.treatment for report in reports}
    assert len(found) == len(reports), "one report for each occurrence"
    return found


def reason(schema: Any, location: str, **options: Any) -> str:
    reports = grammar.explain(json.dumps(schema), grammar.JsonOptions(**options))
    (found,) = [report.reason for report in reports if report.location == location]
    return found


# --- against compiling ------------------------------------------------------------------------


def refusal(text: str, options: grammar.JsonOptions) -> grammar.GrammarError | None:
    try:
        grammar.compile_json_schema(text, verdicts.byte_vocabulary(), options)
    except grammar.GrammarError as error:
        return error
    return None


def agrees(schema: Any, **options: Any) -> bool:
    """Whether ``explain`` has something refused exactly when compiling refuses something."""
    text, how = json.dumps(schema), grammar.JsonOptions.recognise(**options)
    error = refusal(text, how)
    try:
        reports = grammar.explain(text, how)
    except (grammar.ConstraintSyntaxError, grammar.TooComplex) as same:
        return (type(error), str(error)) == (type(same), str(same))
    refused = [report.keyword for report in reports if report.treatment == "refused"]
    if isinstance(error, grammar.UnsupportedError):
        return bool(refused)
    return not refused


@pytest.mark.parametrize("file", FILES)
def test_the_official_suite_is_refused_exactly_where_explain_says_so(file):
    options: dict[str, Any] = {"formats": "enforce" if "/format/" in file else "annotate"}
    options["remote_schemas"] = shared_data.suite.remotes
    for group in shared_data.suite.groups(file):
        assert agrees(group.schema, **options), group.description


def test_real_schemas_are_refused_exactly_where_explain_says_so():
    with lzma.open(shared_data.need(shared_data.MASKBENCH), "rt", encoding="utf-8") as lines:
        sample = random.Random(3).sample(list(lines), SAMPLE)
    assert [row["name"] for row in map(json.loads, sample) if not agrees(row["schema"])] == []


@pytest.mark.parametrize("seed", range(30))
def test_what_compiles_has_nothing_refused(seed):
    schema = random_schema(random.Random(seed))
    assert "refused" not in treatments(schema).values()


@pytest.mark.parametrize("text", ["{", '{"type":"strin"}', '{"properties":[]}', '"x"', b"\xff"])
def test_malformed_schemas_raise_as_compiling_does(text):
    with pytest.raises(grammar.ConstraintSyntaxError) as explained:
        grammar.explain(text)
    with pytest.raises(grammar.ConstraintSyntaxError) as compiled:
        grammar.compile_json_schema(text, verdicts.byte_vocabulary())
    assert str(explained.value) == str(compiled.value)


# --- positions --------------------------------------------------------------------------------


def occurrences(schema: Any) -> Iterator[str]:
    """Every keyword of every subschema, as the library ``referencing`` finds them."""
    uri = schema.get("$schema", DIALECTS["draft2020-12"])
    dialect = referencing.jsonschema.specification_with(uri)
    stack = [schema]
    while stack:
        here = stack.pop()
        if isinstance(here, dict):
            yield from here
            stack.extend(dialect.subresources_of(here))


@pytest.mark.parametrize("file", FILES)
def test_every_keyword_of_every_subschema_is_listed_once(file):
    for group in shared_data.suite.groups(file):
        if not isinstance(group.schema, dict) or group.schema["$schema"].startswith("http://loc"):
            continue
        reports = grammar.explain(
            json.dumps(group.schema), grammar.JsonOptions(formats="annotate")
        )
        locations = [report.location for report in reports]
        assert len(set(locations)) == len(locations)
        missing = Counter(occurrences(group.schema)) - Counter(r.keyword for r in reports)
        assert not missing, group.description
        for report in reports:  # of schemas that only a reference finds, too
            assert report.location.endswith(f"/{document.pointer_token(report.keyword)}")
            assert report.reason


def test_reports_follow_the_text():
    schema = {"title": "t", "properties": {"b": {"type": "null"}, "a/~": {"const": 1}}, "type": 1}
    del schema["type"]
    assert list(treatments(schema)) == [
        "/title", "/properties", "/properties/b/type", "/properties/a~1~0/const",
    ]  # fmt: skip


# --- what is said -----------------------------------------------------------------------------


def test_unused_definitions_are_listed_and_said_to_be_unused():
    schema = {"$defs": {"a": {"type": "null"}, "b": {"not": {"$ref": "#/nowhere"}}}}
    schema["$ref"] = "#/$defs/a"
    found = treatments(schema)
    assert found["/$defs/a/type"] == "enforced"
    assert found["/$defs/b/not"] == found["/$defs/b/not/$ref"] == "annotation"
    assert "unused" in reason(schema, "/$defs/b/not")
    assert refusal(json.dumps(schema), grammar.JsonOptions()) is None


def test_a_schema_that_only_a_reference_finds_comes_last():
    schema = {"x-own": {"place": {"type": "null"}}, "$ref": "#/x-own/place"}
    assert list(treatments(schema)) == ["/x-own", "/$ref", "/x-own/place/type"]


def test_siblings_of_a_reference_count_from_2019_on():
    schema = {"$schema": DRAFT_7, "definitions": {"a": {}}, "$ref": "#/definitions/a", "const": 1}
    assert treatments(schema)["/const"] == "annotation"
    assert "$ref" in reason(schema, "/const")
    del schema["$schema"]
    assert treatments(schema)["/const"] == "enforced"


@pytest.mark.parametrize(
    ("schema", "location", "treatment", "words"),
    [
        ({"type": "string"}, "/type", "enforced", "constrains"),
        ({"title": "x"}, "/title", "annotation", "describes"),
        ({"x-mine": 1}, "/x-mine", "annotation", "unknown keyword"),
        ({"a~/b": 1}, "/a~0~1b", "annotation", "unknown keyword"),
        ({"$schema": DRAFT_4, "const": 1}, "/const", "annotation", "draft 4"),
        ({"$schema": DRAFT_7, "prefixItems": [{}]}, "/prefixItems", "annotation", "draft 7"),
        ({"dependencies": {"a": ["b"]}}, "/dependencies", "annotation", "draft 2020-12"),
        ({"then": {"type": "null"}}, "/then", "annotation", "without `if`"),
        ({"then": {"type": "null"}}, "/then/type", "annotation", "inside `then`"),
        ({"minContains": 2}, "/minContains", "annotation", "without `contains`"),
        ({"format": "x-mine"}, "/format", "annotation", "unknown format"),
        ({"format": "date"}, "/format", "enforced", "constrains"),
        ({"format": "idn-hostname"}, "/format", "refused", "idn-hostname"),
        ({"pattern": "a(?<=b)"}, "/pattern", "refused", "lookbehind are not supported (at byte 1"),
        ({"$ref": "http://x.example/y"}, "/$ref", "refused", "another document"),
        ({"minLength": 0}, "/minLength", "annotation", "says nothing"),
        ({"properties": {"a": {}}}, "/properties", "enforced", "only the listed keys"),
        (
            {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True},
            "/exclusiveMinimum",
            "enforced",
            "read with `minimum`",
        ),
        (
            {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": False},
            "/exclusiveMinimum",
            "annotation",
            "says nothing",
        ),
        (
            {"$schema": DRAFT_7, "items": [{}], "additionalItems": False},
            "/additionalItems",
            "enforced",
            "read with `items`",
        ),
        (
            {"$schema": DRAFT_7, "items": {}, "additionalItems": False},
            "/additionalItems",
            "annotation",
            "",
        ),
        ({"exclusiveMinimum": 3, "minimum": 1}, "/minimum", "enforced", "constrains"),
    ],
)
def test_one_keyword(schema, location, treatment, words):
    assert treatments(schema)[location] == treatment
    assert words in reason(schema, location)


def test_formats_are_annotations_where_the_caller_says_so():
    schema = {"format": "date"}
    assert treatments(schema, formats="annotate") == {"/format": "annotation"}


def test_the_reader_decides_and_no_list_of_its_own(monkeypatch):
    """A keyword that the document learns to read, or to refuse, is told so at once."""

    def reads(self, node, value, where, schema):
        node.restrict(1)

    schema = {"x-new": 1, "type": "string"}
    monkeypatch.setitem(document.Document.READERS, "x-new", reads)
    assert treatments(schema)["/x-new"] == "enforced"

    def refuses(self, node, value, where, schema):
        raise grammar.UnsupportedError("not this", where, "x-new")

    monkeypatch.setitem(document.Document.READERS, "x-new", refuses)
    assert treatments(schema)["/x-new"] == "refused"


def test_long_pointers_are_written_out_only_when_looked_at():
    """Ten thousand keywords behind a key of a megabyte: no machine has memory for their names."""
    few = {"x": {"properties": {f"a{i}": {"title": ""} for i in range(10_000)}}}
    schema = {"$defs": {"k" * 1_000_000: few["x"]}}
    steps = grammar.explain_steps(json.dumps(schema))
    tracemalloc.start()
    try:
        while True:
            next(steps)
    except StopIteration as end:
        reports = end.value
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
    assert len(reports) == 10_002
    assert reports[-1].location.endswith("kkk/properties/a9999/title")
    assert [each.keyword for each in reports[:2]] == ["$defs", "properties"]
    assert len(reports.refused()) == 0


def test_a_report_of_a_large_schema_comes_in_slices():
    text = json.dumps({"properties": {f"p{i}": {"type": "integer"} for i in range(2_000)}})
    assert sum(1 for _ in grammar.explain_steps(text)) > 20
