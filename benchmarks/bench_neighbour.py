"""What a hostile compile does to somebody else's stream.

    python -m benchmarks.bench_neighbour

A real server with the default model; one stream, alone and then while a second client keeps
sending schemas that take the front about a second to compile, each a different one. Prints the
gaps between the stream's events for both, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Iterator

import grpc

from service.rpc.pb.v1 import constraint_pb2, generation_pb2, generation_pb2_grpc
from tools.local_server import LocalServer


def heavy(number: int) -> constraint_pb2.Constraint:
    """A schema with sixty long counted patterns, a new one for each number."""
    properties = {
        f"p{i}": {
            "type": "string",
            "pattern": f"^([a-z]{{{i + 1},{150 + i}}}|[0-9a-f]{{3,90}}[xyz]|n{number})$",
        }
        for i in range(60)
    }
    schema = {"type": "object", "properties": properties, "required": ["p1"]}
    return constraint_pb2.Constraint(json_schema=json.dumps(schema))


def request(
    max_tokens: int, constraint: constraint_pb2.Constraint
) -> generation_pb2.GenerateRequest:
    """A request at temperature 1 with a fixed seed."""
    return generation_pb2.GenerateRequest(
        prompt="Once upon a time",
        sampling=generation_pb2.SamplingParams(temperature=1, seed=7),
        stopping=generation_pb2.StoppingOptions(max_tokens=max_tokens),
        constraint=constraint,
    )


def gaps(stub: generation_pb2_grpc.GenerationServiceStub, tokens: int) -> list[float]:
    """Milliseconds between the events of one stream."""
    found = []
    last = None
    constraint = constraint_pb2.Constraint(regex=f"[a-z ]{{{8 * tokens}}}")
    for event in stub.GenerateStream(request(tokens, constraint)):
        if event.WhichOneof("event") == "delta":
            now = time.perf_counter()
            if last is not None:
                found.append(1e3 * (now - last))
            last = now
    return found


class Neighbour:
    """``with Neighbour(address, numbers):`` sends heavy schemas all the while."""

    def __init__(self, address: str, numbers: Iterator[int]) -> None:
        self._address = address
        self._numbers = numbers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.compiled = 0

    def __enter__(self) -> Neighbour:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        with grpc.insecure_channel(self._address) as channel:
            stub = generation_pb2_grpc.GenerationServiceStub(channel)
            while not self._stop.is_set():
                # one token is too few for an object: the request ends after its compile
                try:
                    stub.Generate(request(1, heavy(next(self._numbers))))
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                        raise
                self.compiled += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    numbers = iter(range(10**9))
    alone: list[float] = []
    beside: list[float] = []
    compiled = 0
    with LocalServer() as server, grpc.insecure_channel(server.address) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        gaps(stub, 20)
        for _ in range(options.rounds):
            alone += gaps(stub, options.tokens)
            with Neighbour(server.address, numbers) as neighbour:
                beside += gaps(stub, options.tokens)
            compiled += neighbour.compiled
    for name, found in (("alone", alone), ("beside compiles", beside)):
        found.sort()
        p99 = found[int(0.99 * (len(found) - 1))]
        print(
            f"{name:16} {len(found)} gaps, p50 {statistics.median(found):.1f} ms, p99 {p99:.1f} ms"
        )
    print(f"{compiled} schemas compiled meanwhile")
    print(f"ratio of medians {statistics.median(beside) / statistics.median(alone):.3f}")


if __name__ == "__main__":
    main()
