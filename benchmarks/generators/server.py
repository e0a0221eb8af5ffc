"""This project: a server process, its engine process, and callers over the socket."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import grpc

from benchmarks.extraction import Answer, Run, Task
from benchmarks.generators.protocol import Setup
from service.rpc.pb.v1 import generation_pb2 as pb
from service.rpc.pb.v1 import generation_pb2_grpc
from service.rpc.pb.v1.constraint_pb2 import Constraint
from tools.local_server import LocalServer


class ServerGenerator:
    """``syntaxd serve`` with rows for the highest concurrency; one call at a time a caller."""

    def __init__(self, setup: Setup, flags: Sequence[str]) -> None:
        self._max_tokens = setup.max_tokens
        rows = max(8, setup.max_concurrency)  # 8: the default
        self._server = LocalServer("--model", str(setup.model), "--max-rows", str(rows), *flags)
        self._server.__enter__()
        self._channel = grpc.insecure_channel(self._server.address)
        self._stub = generation_pb2_grpc.GenerationServiceStub(self._channel)

    def warm_up(self, tasks: Sequence[Task], schema: dict[str, Any], concurrency: int) -> str:
        self.run(tasks[:concurrency], schema, concurrency)
        return ""

    def run(self, tasks: Sequence[Task], schema: dict[str, Any], concurrency: int) -> Run:
        requests = [self._request(task, schema) for task in tasks]
        with ThreadPoolExecutor(concurrency) as callers:
            begin = perf_counter()
            answers = list(callers.map(self._ask, requests))
            return Run(answers, perf_counter() - begin)

    def close(self) -> None:
        self._channel.close()
        self._server.stop()

    def _request(self, task: Task, schema: dict[str, Any]) -> pb.GenerateRequest:
        messages = [pb.ChatMessage(**message) for message in task.messages]
        return pb.GenerateRequest(
            chat=pb.ChatInput(messages=messages),
            sampling=pb.SamplingParams(temperature=0),
            stopping=pb.StoppingOptions(max_tokens=self._max_tokens),
            constraint=Constraint(json_schema=json.dumps(schema)),
        )

    def _ask(self, request: pb.GenerateRequest) -> Answer:
        response = self._stub.Generate(request, timeout=600)
        output = response.outputs[0]
        return Answer(
            output.text,
            response.usage.completion_tokens,
            steered=output.stop_detail.HasField("budget_close"),
        )
