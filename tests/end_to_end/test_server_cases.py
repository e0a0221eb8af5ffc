"""What was reported of other servers, held here: one test for each line of the list of cases.

Each docstring names the public thread that it comes from and tells, in our words, what was seen
there. All run against the real server with the default model.
"""

import json
import re
import statistics
import time
from itertools import pairwise

import numpy as np
import pytest

from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import model_pb2, model_pb2_grpc
from tests import ecma
from tests.end_to_end.calls import TIMEOUT, ask, details, refused, regex
from tests.validator import valid

WARM = {"temperature": 1.0}


def schema(value: object, **form) -> c.Constraint:
    """``value``: a schema, or its text."""
    text = value if isinstance(value, str) else json.dumps(value)
    return c.Constraint(json_schema=text, json_format=c.JsonFormat(**form))


def generate(stub, content: str = "Answer.", **fields) -> g.GenerateResponse:
    response: g.GenerateResponse = stub.Generate(ask(content, **fields), timeout=TIMEOUT)
    return response


def outputs(stub, number: int, **fields) -> list[g.Output]:
    """Answers under so many seeds, hot."""
    return [
        generate(stub, sampling={"temperature": 1.5, "seed": seed}, **fields).outputs[0]
        for seed in range(number)
    ]


# --- line 1 -----------------------------------------------------------------------------------

AGE = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "description": {"type": "string"}},
    "required": ["age", "description"],
}


@pytest.mark.parametrize("max_tokens", [1, 8, 12, 20, 32, 64])
def test_line_1_a_small_budget_gives_a_whole_answer_or_the_number_that_would(stub, max_tokens):
    """vllm#8350: JSON was cut off wherever max_tokens happened to end."""
    fields = {"constraint": schema(AGE), "sampling": WARM}

    def ask_for(tokens):
        return generate(stub, "A person.", stopping={"max_tokens": tokens}, **fields)

    if max_tokens < 8:
        code, reason, found = refused(lambda: ask_for(max_tokens))
        assert (code, reason) == ("INVALID_ARGUMENT", "BUDGET_TOO_SMALL")
        max_tokens = int(found["ErrorInfo"].metadata["minOutputTokens"])
    response = ask_for(max_tokens)
    assert valid(AGE, response.outputs[0].text)
    assert response.outputs[0].complete
    assert response.usage.completion_tokens <= max_tokens


# --- line 2 -----------------------------------------------------------------------------------

SENTIMENT = {
    "type": "object",
    "properties": {"sentiment": {"enum": ["positive", "negative", "neutral"]}},
    "required": ["sentiment"],
}


@pytest.mark.parametrize("cap", [None, 1, 3])
def test_line_2_whitespace_that_the_model_may_choose_is_bounded(stub, cap):
    """vllm#26362, #38696: small models wrote line breaks until the budget was used up."""
    constraint = schema(SENTIMENT, whitespace=c.WHITESPACE_FLEXIBLE, max_whitespace_run=cap)
    spaced = '{\n\n\n\n\n\n\n\n\n\n\n\n"sentiment"            :'  # asks for more of the same
    for content, number in (("Sentiment of: I like it.", 1), (spaced, 2)):
        for output in outputs(stub, number, content=content, constraint=constraint):
            assert valid(SENTIMENT, output.text)
            gaps = re.findall(r"[ \t\r\n]+", output.text)
            assert max(map(len, gaps), default=0) <= (8 if cap is None else cap)


# --- line 3 -----------------------------------------------------------------------------------


def test_line_3_a_pattern_and_a_length_hold_together(stub):
    """xgrammar#895, sglang#37707: beside a pattern the length bounds were dropped."""
    constraint = schema({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3})
    for output in outputs(stub, 5, constraint=constraint):
        assert re.fullmatch('"[a-z]{1,3}"', output.text)
        assert output.complete


# --- line 4 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({"type": "boolean"}, ["true", "false"]),
        ({"type": "null"}, ["null"]),
        ({"enum": ["a"]}, ['"a"']),
    ],
    ids=["boolean", "null", "enum"],
)
def test_line_4_min_tokens_does_not_outlast_a_finished_constraint(stub, value, texts):
    """vllm PR#47489: with EOS held back nothing was allowed any more, and the request died."""
    output = generate(stub, constraint=schema(value), stopping={"min_tokens": 16}).outputs[0]
    assert output.text in texts
    assert output.finish_reason == g.FINISH_REASON_STOP
    assert output.complete


# --- line 5 -----------------------------------------------------------------------------------

PATTERNS = {
    "^+[a-z]$": "1",
    "^{2}times$": "1",
    "(?<=x)": "0",
    r"^hello there indeed\!$": None,  # fine: an escape that stands for itself
    "(" * 10_000: "",
    "(" * 10_000 + "a" + ")" * 10_000: "",
}


PATTERN_NAMES = ["plus", "count", "lookbehind", "escape", "unclosed", "nested"]


@pytest.mark.parametrize("inside", [True, False], ids=["keyword", "whole"])
@pytest.mark.parametrize(("pattern", "offset"), PATTERNS.items(), ids=PATTERN_NAMES)
def test_line_5_a_pattern_is_enforced_or_refused_at_its_offset(stub, pattern, offset, inside):
    """llama.cpp PR#22606, PR#25308, #19051: such patterns were ignored, or ended the process."""
    constraint = schema({"type": "string", "pattern": pattern}) if inside else regex(pattern)
    if offset is None:
        text = generate(stub, constraint=constraint).outputs[0].text
        assert ecma.search(pattern, json.loads(text) if inside else text)
        return
    code, reason, found = refused(lambda: generate(stub, constraint=constraint))
    # The nesting is over a limit, whichever way such a pattern would end.
    if offset:
        assert code == "INVALID_ARGUMENT"
        assert reason in ("CONSTRAINT_SYNTAX", "UNSUPPORTED_KEYWORD")
    else:
        assert (code, reason) == ("RESOURCE_EXHAUSTED", "CONSTRAINT_TOO_COMPLEX")
        assert found["QuotaFailure"].violations[0].subject == "max_regex_depth"
    place = "/pattern@" if inside else "@"
    location = found["ErrorInfo"].metadata["location"]
    assert re.fullmatch(re.escape(place) + (offset or r"\d+"), location)
    assert generate(stub, constraint=regex("fine")).outputs[0].text == "fine"


# --- line 6 -----------------------------------------------------------------------------------


def test_line_6_large_bounds_are_counted_not_expanded(stub):
    """llama.cpp#27859: bounds of 50 and 2,000 were unrolled into rules beyond any limit."""
    row = {
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 2_000}},
        "required": ["text"],
    }
    value = {"type": "array", "maxItems": 50, "items": row}
    began = time.monotonic()
    response = generate(
        stub, "Three facts.", constraint=schema(value), stopping={"max_tokens": 60}
    )
    assert time.monotonic() - began < 20
    assert valid(value, response.outputs[0].text)


def test_line_6_an_object_without_properties_is_empty(stub):
    """llama.cpp#25923: a closed object of no properties made a grammar that did not parse."""
    value = {"type": "object", "properties": {}, "additionalProperties": False}
    assert generate(stub, constraint=schema(value)).outputs[0].text == "{}"


# --- line 7 -----------------------------------------------------------------------------------


def test_line_7_masks_of_counted_nested_arrays_take_as_long_late_as_early(stub, record_property):
    """vllm#19732: the time of a mask grew with every element of such arrays."""
    strings = {"type": "array", "items": {"type": "string"}, "minItems": 5, "maxItems": 10}
    value = {"type": "array", "items": strings, "minItems": 5, "maxItems": 10}

    def mask_us(max_tokens: int, seed: int) -> float:
        """Per token of one answer."""
        response = generate(
            stub,
            "Lists of words.",
            constraint=schema(value),
            stopping={"max_tokens": max_tokens},
            sampling={"temperature": 1.0, "seed": seed},
            response={"timing": True},
        )
        assert valid(value, response.outputs[0].text)
        return response.timing.mask_us / response.usage.completion_tokens

    mask_us(60, 0)  # grows the tables
    short = [mask_us(60, seed) for seed in range(2)]
    long = [mask_us(120, seed) for seed in range(2)]
    p99 = float(np.percentile(short + long, 99))
    record_property("mask_us_per_token_p99", p99)
    assert min(long) < 3 * min(short) + 500


# --- line 8 -----------------------------------------------------------------------------------


def branching(depth: int) -> dict:
    """oneOf of two objects at each level, 2 to the ``depth`` paths, levels shared by reference."""
    levels: dict = {"f0": {"type": "string"}}
    for d in range(1, depth + 1):
        below = {"$ref": f"#/$defs/f{d - 1}"}
        levels[f"f{d}"] = {
            "oneOf": [
                {"type": "object", "properties": {key: below}, "required": [key]} for key in "ab"
            ]
        }
    return {"$ref": f"#/$defs/f{depth}", "$defs": levels}


def written_out(depth: int) -> str:
    """The same without references: twice the text at each level."""
    text = '{"type":"string"}'
    for _ in range(depth):
        objects = ",".join(
            f'{{"type":"object","properties":{{"{key}":{text}}},"required":["{key}"]}}'
            for key in "ab"
        )
        text = f'{{"oneOf":[{objects}]}}'
    return text


def gaps(stream) -> list[float]:
    """Seconds between the events of a stream until it ends."""
    times = [time.monotonic() for event in stream if event.WhichOneof("event") == "delta"]
    return [after - before for before, after in pairwise(times)]


@pytest.mark.parametrize(
    "text",
    [*(json.dumps(branching(d)) for d in (8, 14, 16, 20)), written_out(8), written_out(14)],
    ids=["8", "14", "16", "20", "8 written out", "14 written out"],
)
def test_line_8_branching_schemas_compile_in_time_and_neighbours_do_not_notice(stub, text):
    """vllm#54003: compile time doubled with each level, and all running requests waited."""
    free = ask("Tell me a story.", stopping={"max_tokens": 25, "min_tokens": 25})
    alone = gaps(stub.GenerateStream(free, timeout=TIMEOUT))
    neighbour = stub.GenerateStream(free, timeout=TIMEOUT)
    assert next(neighbour).WhichOneof("event") == "started"
    began = time.monotonic()
    call = stub.Generate.future(
        ask(constraint=schema(text), stopping={"max_tokens": 150}), timeout=TIMEOUT
    )
    beside = gaps(neighbour)
    if error := call.exception():
        refusal = details(error)["ErrorInfo"].reason
        assert refusal in ("UNSUPPORTED_KEYWORD", "CONSTRAINT_TOO_COMPLEX", "COMPILE_TIMEOUT")
    else:
        assert valid(json.loads(text), call.result().outputs[0].text)
    assert time.monotonic() - began < 30
    # Not its share of the batch, which two requests have, but waiting: no gap like a compile.
    assert statistics.median(beside) < 3 * statistics.median(alone) + 0.05
    assert max(beside) < max(alone) + 1.0


def test_line_8_one_that_is_larger_than_a_message_is_refused_as_such(stub):
    """The same, of 2 to the 16 paths written out: 7 MB."""
    call = stub.Generate.future(ask(constraint=schema(written_out(16))), timeout=TIMEOUT)
    assert call.exception().code().name == "RESOURCE_EXHAUSTED"


# --- line 9 -----------------------------------------------------------------------------------

LINES = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "end_line": {"type": "integer"},
        "start_line": {"type": "integer"},
    },
    "required": ["path"],
}
IN_ORDER = [
    '{"path":"a.py"}',
    '{"path":"a.py","end_line":9}',
    '{"path":"a.py","start_line":3}',
    '{"path":"a.py","end_line":9,"start_line":3}',
]
OTHER_ORDER = [
    '{"path":"a.py","start_line":3,"end_line":9}',
    '{"start_line":3,"path":"a.py","end_line":9}',
    '{"start_line":3,"end_line":9,"path":"a.py"}',
]


def copied(stub, text: str, order: c.PropertyOrder) -> str:
    """What the model writes after having read the text eight times: the text, if it may."""
    return (
        generate(
            stub,
            prompt=f"{text}\n" * 8,
            constraint=schema(LINES, property_order=order),
            sampling={"temperature": 0},
            stopping={"max_tokens": 60},
        )
        .outputs[0]
        .text
    )


@pytest.mark.parametrize("text", IN_ORDER + OTHER_ORDER)
def test_line_9_with_any_order_every_order_is_reachable(stub, text):
    """llama.cpp#15216: models that wrote keys in another order than the schema's went astray."""
    assert copied(stub, text, c.PROPERTY_ORDER_ANY) == text


@pytest.mark.parametrize("text", IN_ORDER)
def test_line_9_with_the_schemas_order_every_later_key_stays_reachable(stub, text):
    """llama.cpp#15216: leaving out one optional key must not close the way to the next."""
    assert copied(stub, text, c.PROPERTY_ORDER_SCHEMA) == text


def test_line_9_with_the_schemas_order_there_is_no_other(stub):
    """The counterpart of the two above."""
    found = copied(stub, OTHER_ORDER[0], c.PROPERTY_ORDER_SCHEMA)
    keys = list(json.loads(found))
    assert keys == [key for key in LINES["properties"] if key in keys]


# --- line 10 ----------------------------------------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
}
PERSON_TEXT = r'\{"name":"[^"]*","age":\d+\}'


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_end|>", "a", '"', "}"])
@pytest.mark.parametrize("listed", [True, False], ids=["stop token", "only biased"])
def test_line_10_a_token_that_ends_is_masked_until_the_object_is_whole(
    stub, channel, text, listed
):
    """vllm#42403, PR#49227: a second EOS or a stop token cut objects in half.

    The bias makes the token the first choice wherever it is allowed.
    """
    models = model_pb2_grpc.ModelServiceStub(channel)
    (token,) = models.Tokenize(model_pb2.TokenizeRequest(text=text), timeout=TIMEOUT).token_ids
    response = generate(
        stub,
        "A person.",
        constraint=schema(PERSON),
        sampling={"temperature": 1.0, "seed": 1, "logit_bias": {token: 100}},
        stopping={"stop_token_ids": [token] if listed else [], "max_tokens": 60},
    )
    output = response.outputs[0]
    assert output.complete
    assert re.fullmatch(PERSON_TEXT, output.text)
    assert valid(PERSON, output.text)
    if listed and text == "a":  # masked: it is not needed, and nowhere may it end
        assert "a" not in json.loads(output.text)["name"]


def test_line_10_the_token_ends_the_output_as_soon_as_it_may(stub, channel):
    """The counterpart: where the text is whole but could go on, the stop token ends it."""
    models = model_pb2_grpc.ModelServiceStub(channel)
    asked = model_pb2.TokenizeRequest(text="<|endoftext|>")
    (token,) = models.Tokenize(asked, timeout=TIMEOUT).token_ids
    output = generate(
        stub,
        constraint=regex("ab(c{1,50})?"),
        sampling={"logit_bias": {token: 100}},
        stopping={"stop_token_ids": [token]},
    ).outputs[0]
    assert output.text == "ab"
    assert output.complete
    assert output.stop_detail.WhichOneof("cause") == "stop_token_id"
