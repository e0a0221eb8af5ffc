"""Real calls to a real server with the default model: ``make demo``.

Starts the server on a free loopback port, asks it five things over gRPC, prints each prompt and
answer and what jsonschema or re say about it, and stops the server. Exit status 0 only if every
answer is valid.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc
import jsonschema
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from service.rpc.pb.v1 import generation_pb2_grpc
from service.rpc.pb.v1.constraint_pb2 import (
    WHITESPACE_SINGLE_SPACE,
    ChoiceConstraint,
    Constraint,
    JsonFormat,
)
from service.rpc.pb.v1.generation_pb2 import (
    ChatInput,
    ChatMessage,
    GenerateRequest,
    ResponseOptions,
    SamplingParams,
    StoppingOptions,
    Timing,
    Usage,
)
from tools.local_server import LocalServer

Stub = generation_pb2_grpc.GenerationServiceStub

PARAGRAPH = (
    "Maria Jensen, who runs procurement at Nordic Wind A/S in Aarhus, confirmed on Tuesday that "
    "the company will pay 48500 euros for the new rotor blades and another 1200 dollars for "
    "their transport."
)
SCHEMA = {
    "type": "object",
    "properties": {
        "person": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "maxLength": 40},
                "department": {"enum": ["procurement", "sales", "engineering", "unknown"]},
            },
            "required": ["name", "department"],
        },
        "company": {"type": "string", "minLength": 2, "maxLength": 40},
        "amounts": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "value": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
                    "currency": {"enum": ["EUR", "USD", "GBP"]},
                },
                "required": ["value", "currency"],
            },
        },
    },
    "required": ["person", "company", "amounts"],
    "additionalProperties": False,
}
DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
SENTIMENTS = ("positive", "neutral", "negative")
EXTRACT = f"Extract the person, the company and the amounts of money.\n\n{PARAGRAPH}"


@dataclass(frozen=True)
class Case:
    """One question: what it shows, what is asked, and who judges the answer."""

    title: str
    prompt: str
    constraint: Constraint
    judge: str
    agrees: Callable[[str], bool]
    max_tokens: int = 200

    def request(self, max_tokens: int | None = None) -> GenerateRequest:
        """Greedy, through the chat template, the model told what its answer must match."""
        return GenerateRequest(
            chat=ChatInput(
                messages=[ChatMessage(role="user", content=self.prompt)], describe_constraint=True
            ),
            sampling=SamplingParams(temperature=0, repetition_penalty=1),
            stopping=StoppingOptions(max_tokens=max_tokens or self.max_tokens),
            response=ResponseOptions(timing=True),
            constraint=self.constraint,
        )


@dataclass
class Answer:
    """What came back."""

    text: str = ""
    usage: Usage = field(default_factory=Usage)
    timing: Timing = field(default_factory=Timing)


def fits_schema(text: str) -> bool:
    """Whether jsonschema accepts the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(value)


EXTRACTION = Case(
    "JSON Schema: nested object, array, enum, integer bounds",
    EXTRACT,
    Constraint(
        json_schema=json.dumps(SCHEMA),
        json_format=JsonFormat(whitespace=WHITESPACE_SINGLE_SPACE),  # as the model learnt it
    ),
    "jsonschema",
    fits_schema,
)
DATED = Case(
    "Regular expression: an ISO date",
    "On which date did the moon landing of Apollo 11, July 20th 1969, take place?",
    Constraint(regex=DATE),
    "re",
    lambda text: re.fullmatch(DATE, text) is not None,
)
SENTIMENT = Case(
    "Choice: a sentiment",
    "Is this review positive, neutral or negative? "
    "'The blades arrived early and run without a sound.'",
    Constraint(choice=ChoiceConstraint(choices=SENTIMENTS)),
    "membership",
    lambda text: text in SENTIMENTS,
)


def ask(stub: Stub, case: Case, max_tokens: int | None = None) -> Answer:
    """One unary call."""
    response = stub.Generate(case.request(max_tokens), timeout=300)
    print(f"  answer   {response.outputs[0].text}")
    return Answer(response.outputs[0].text, response.usage, response.timing)


def ask_streaming(stub: Stub, case: Case) -> Answer:
    """One streaming call; prints the text as it comes."""
    answer = Answer()
    print("  answer   ", end="")
    for event in stub.GenerateStream(case.request(), timeout=300):
        match event.WhichOneof("event"):
            case "delta":
                answer.text += event.delta.text
                print(event.delta.text, end="", flush=True)
            case "summary":
                answer.usage, answer.timing = event.summary.usage, event.summary.timing
    print()
    return answer


def ask_barely(stub: Stub, case: Case) -> Answer:
    """One call with too small a budget, whose refusal says what suffices; then two above that."""
    try:
        stub.Generate(case.request(max_tokens=1), timeout=300)
    except grpc.RpcError as error:
        minimum = int(_error_info(error).metadata["minOutputTokens"])
        print(f"  refused  max_tokens 1: {_error_info(error).reason}, {minimum} suffice")
    else:
        raise RuntimeError("a budget of one token was not refused")
    print(f"  now with max_tokens {minimum + 2}")
    return ask(stub, case, max_tokens=minimum + 2)


def report(case: Case, answer: Answer) -> bool:
    """Prints the verdict and the figures; returns the verdict."""
    valid = case.agrees(answer.text)
    print(f"  verdict  {case.judge} {'agrees' if valid else 'DOES NOT AGREE'}")
    usage, timing = answer.usage, answer.timing
    figures = (
        f"{usage.prompt_tokens} + {usage.completion_tokens} tokens "
        f"({usage.forced_tokens} forced), first after "
        f"{timing.time_to_first_token_us / 1e3:.0f} ms"
    )
    if usage.completion_tokens > 1 and timing.decode_us:
        rate = (usage.completion_tokens - 1) / (timing.decode_us / 1e6)
        figures += f", then {rate:.0f} tokens/s"
    print(f"  figures  {figures}\n")
    return valid


def run(stub: Stub) -> bool:
    """All five; True if every answer is valid."""
    barely = "The same, with max_tokens barely above the shortest whole answer"
    parts: list[tuple[str, Case, Callable[[Stub, Case], Answer]]] = [
        (EXTRACTION.title, EXTRACTION, ask),
        (DATED.title, DATED, ask),
        (SENTIMENT.title, SENTIMENT, ask),
        ("The first one again, streamed", EXTRACTION, ask_streaming),
        (barely, EXTRACTION, ask_barely),
    ]
    verdicts = []
    for title, case, how in parts:
        print(f"{title}\n  prompt   {case.prompt.replace(chr(10), chr(10) + ' ' * 11)}")
        verdicts.append(report(case, how(stub, case)))
    return all(verdicts)


def main() -> int:
    """Runs the demo; returns the exit status."""
    try:
        with LocalServer() as server, grpc.insecure_channel(server.address) as channel:
            print(f"server: {server.address}, model: {server.model}\n")
            valid = run(Stub(channel))
    except grpc.RpcError as error:
        print(f"a call failed: {error.code().name}: {error.details()}", file=sys.stderr)
        return 1
    print("every answer is valid" if valid else "NOT every answer is valid")
    return 0 if valid else 1


def _error_info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo:
    info = error_details_pb2.ErrorInfo()
    status = rpc_status.from_call(error)
    if status is None or not status.details[0].Unpack(info):
        raise error
    return info


if __name__ == "__main__":
    sys.exit(main())
