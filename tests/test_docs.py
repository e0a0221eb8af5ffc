"""docs/constraints.md: every example is run, every table compared with what it is about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grammar
from benchmarks.suite import DIALECTS
from grammar.formats import ENFORCED_FORMATS, UNSUPPORTED_FORMATS
from grammar.schema.keywords import KEYWORDS
from service.engine import grammars
from service.engine.types import Constraint, GenerationRequest, ModelInfo, Sampling
from service.errors import ServiceError
from service.rpc import refusals
from service.rpc.convert import request as convert
from service.rpc.draft import ConstraintId, Draft
from service.rpc.pb.v1 import generation_pb2
from syntaxd_client import requests
from syntaxd_client.options import GenerateOptions, JsonFormatOptions, StoppingOptions
from tests import fakes
from tests.service.engine.decoding import answer, make_decoder, run

PAGE = (Path(__file__).resolve().parents[1] / "docs/constraints.md").read_text()
BLOCKS = list(re.finditer(r"^```example\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
EXAMPLES = [each[1] for each in BLOCKS]
LINES = [f"line {PAGE.count(chr(10), 0, each.start()) + 1}" for each in BLOCKS]
VERBS = {"writes", "never", "valid", "begun", "invalid", "spelling", "refused", "remark"}
VERBS |= {"says", "answer", "complete", "finish", "cause"}
MODEL = ModelInfo(
    name="bytes",
    max_context_tokens=256,
    max_request_tokens=256,
    vocab_size=256,
    logit_size=256,
    dtype="float32",
    device="cpu",
    eos_token_ids=(fakes.EOS,),
    default_sampling=Sampling(temperature=0),
)
VERDICTS = {"valid": "complete", "begun": "incomplete", "invalid": "rejected"}


class Example:
    """One block: a request through the real checks, and what the page says of it."""

    def __init__(self, block: str) -> None:
        lines = [line.partition(" ")[::2] for line in block.splitlines()]
        self.says = [(name, unescaped(rest)) for name, rest in lines if name in VERBS]
        given: dict[str, Any] = {}
        for name, rest in lines:
            if name == "choice":
                given.setdefault("choice", []).append(rest.strip())
            elif name not in VERBS:
                given["schema" if name == "json_schema" else name] = value(name, rest.strip())
        # Over the wire: the client's stubs are not the service's.
        sent = requests.generate("x", given).SerializeToString()
        self.request = generation_pb2.GenerateRequest.FromString(sent)

    def said(self, name: str) -> str | None:
        return next((text for each, text in self.says if each == name), None)

    def draft(self) -> tuple[Draft, Constraint | None]:
        """The request as the front reads it. Raises ServiceError."""
        draft = convert.read(self.request, MODEL)
        assert not isinstance(draft.constraint, ConstraintId)
        return draft, draft.constraint


def unescaped(text: str) -> str:
    r"""``\n`` is a line break and ``\x20`` a space at the end of a line; JSON has neither here."""
    return text.strip().replace("\\n", "\n").replace("\\x20", " ")


def value(name: str, text: str) -> Any:
    assert name in GenerateOptions.__optional_keys__ or name == "json_schema", name
    if name == "logit_bias":
        return {int(token): float(bias) for token, bias in (text.split("="),)}
    if name == "stop_token_ids":
        return [int(text)]
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


def compiled(constraint: Constraint) -> grammar.Grammar:
    """As the front compiles it, with a byte a token. Raises ServiceError."""
    steps = grammars.compile_steps(constraint, grammars.byte_vocabulary(), grammar.Limits())
    try:
        found: grammar.Grammar = finished(steps)
    except grammar.GrammarError as error:
        raise refusals.from_grammar(error, constraint) from error
    return found


def recogniser(constraint: Constraint) -> grammar.Grammar:
    assert constraint.kind == "json_schema", "texts of others differ from ours only in JSON"
    options = grammars._recognising(constraint.json_format)
    return grammar.compile_json_schema(constraint.text, grammars.byte_vocabulary(), options)


def finished(steps: Iterator[None]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def matches(found: grammar.Grammar, text: str) -> bool:
    matcher = found.matcher()
    data = text.encode()
    return matcher.advance_bytes(data) == len(data) and matcher.is_complete


def generated(
    draft: Draft, constraint: Constraint | None, found: grammar.Grammar | None, wish: str
) -> Any:
    """What the decoder makes of a model that wants to say ``wish`` and then end."""
    model = fakes.FakeModel(fakes.replies({"x>": wish}))
    decoder = make_decoder(model, fill_masks=grammar.fill_masks)
    request = GenerationRequest(
        request_id="x",
        prompt_ids=fakes.encode("x>"),
        sampling=draft.sampling,
        stopping=draft.stopping,
        constraint=constraint,
        guaranteed=draft.guaranteed,
    )
    decoder.submit(request, found)
    return answer(run(decoder)["x"])


@pytest.mark.parametrize("block", EXAMPLES, ids=LINES)
def test_the_example_is_as_the_page_says(block):
    example = Example(block)
    assert example.says, "an example says something"
    if refusal := example.said("refused"):
        with pytest.raises(ServiceError) as caught:
            check(example)
        reason, _, place = refusal.partition(" ")
        assert (caught.value.reason, caught.value.metadata.get("location", "")) == (reason, place)
    else:
        check(example)


def check(example: Example) -> None:
    draft, constraint = example.draft()
    found = compiled(constraint) if constraint else None
    chunk = generated(draft, constraint, found, example.said("says") or "")
    if chunk.finish.error:
        raise refusals.from_failure(chunk.finish.error)
    if example.said("says") is not None:
        check_answer(example, chunk)
    elif constraint and found:
        for verb, text in example.says:
            check_line(constraint, found, verb, text)


def check_line(constraint: Constraint, found: grammar.Grammar, verb: str, text: str) -> None:
    match verb:
        case "writes":
            assert matches(found, text), text
        case "never":
            assert not matches(found, text), text
        case "valid" | "begun" | "invalid":
            judged = grammar.check_text(recogniser(constraint), text.encode())
            assert judged.verdict == VERDICTS[verb], text
        case "spelling":
            judged = grammar.check_text(recogniser(constraint), text.encode())
            assert judged.spelling_only, text
        case "remark":
            code, _, place = text.partition(" ")
            assert (code, place) in [(each.code, each.location) for each in found.diagnostics]
        case _:
            raise AssertionError(f"nothing checks {verb} here")


def check_answer(example: Example, chunk: Any) -> None:
    assert chunk.text == example.said("answer")
    finish = chunk.finish
    if complete := example.said("complete"):
        assert finish.complete is (complete == "yes")
    if reason := example.said("finish"):
        assert finish.reason.value == reason
    if cause := example.said("cause"):
        assert getattr(finish.detail, cause) is not None


ROWS = re.findall(r"^\| `([^`]+)` \| (\w+) \| ([^|]+) \| `(\{.*\})` \|$", PAGE, re.MULTILINE)
DRAFTS = {4: "4", 6: "6", 7: "7", 2019: "2019-09", 2020: "2020-12"}


def test_the_table_has_every_keyword():
    assert sorted(name for name, *_ in ROWS) == sorted(KEYWORDS)


@pytest.mark.parametrize(("name", "treatment", "drafts", "text"), ROWS, ids=[r[0] for r in ROWS])
def test_the_keyword_is_treated_as_the_table_says(name, treatment, drafts, text):
    since, until = KEYWORDS[name].since, KEYWORDS[name].until
    assert drafts == span(since, until)
    schema = json.loads(text)
    if until != max(DRAFTS):
        schema = {"$schema": DIALECTS[f"draft{DRAFTS[until]}"]} | schema
    assert treated(name, json.dumps(schema)) == treatment


def span(since: int, until: int) -> str:
    if (since, until) == (min(DRAFTS), max(DRAFTS)):
        return "all"
    if until == max(DRAFTS):
        return f"from {DRAFTS[since]}"
    return f"{DRAFTS[since]} to {DRAFTS[until]}" if since != until else f"only {DRAFTS[since]}"


def treated(name: str, schema: str) -> str:
    """Of a keyword that only counts beside another one: refused with it."""
    try:
        grammar.compile_json_schema(schema, grammars.byte_vocabulary())
    except grammar.UnsupportedError:
        return "refused"
    (found,) = {each.treatment for each in grammar.explain(schema) if each.keyword == name}
    return found


def test_the_formats_are_those_that_are_enforced():
    section = PAGE[PAGE.index("### Formats") :].split("```")[0]
    enforced, refused = re.findall(
        r"^(?:Enforced|Refused)\b(.*?)\n\n", section, re.DOTALL | re.MULTILINE
    )
    assert set(re.findall(r"`([\w-]+)`", enforced)) == ENFORCED_FORMATS
    assert set(re.findall(r"`([\w-]+)`", refused)) == UNSUPPORTED_FORMATS


def test_every_option_of_a_constraint_has_an_example():
    used = {name for block in EXAMPLES for name in re.findall(r"^(\w+)", block, re.MULTILINE)}
    options = set(JsonFormatOptions.__optional_keys__) | {"regex", "choice", "json_schema"}
    options |= {*StoppingOptions.__optional_keys__, "completion_policy", "logit_bias"}
    options -= {"ignore_eos"}  # whose text has no end worth showing
    assert options <= used
    units = {name for block in EXAMPLES for name in re.findall(r"^unit +(\w+)", block)}
    assert units == set(grammar.UNITS)


def test_every_escape_of_the_regex_table_compiles():
    table = PAGE[PAGE.index("| syntax | example |") :].split("\n\n")[0]
    patterns = re.findall(r"\| `([^`]+)` \|$", table, re.MULTILINE)
    assert len(patterns) >= 8
    for pattern in patterns:
        grammar.compile_regex(pattern.replace(r"\|", "|"), grammars.byte_vocabulary())
