"""Start, health, stop, and what happens when either process dies. Each test has its own server."""

import os
import signal
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

import syntaxd_client
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import (
    constraint_pb2_grpc,
    generation_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
)
from tests.end_to_end.calls import LONG, TIMEOUT, ask, choice, refused, regex
from tests.end_to_end.conftest import ONE_THREAD
from tests.service.engine import tiny
from tools.local_server import LocalServer

SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def own(default_model, tmp_path):
    """A server that a test may break; its log is ``own.log``."""
    with LocalServer("--model", str(default_model), *ONE_THREAD, log=tmp_path / "log") as server:
        server.log = tmp_path / "log"
        yield server


@pytest.fixture
def own_stub(own):
    with grpc.insecure_channel(own.address) as channel:
        yield generation_pb2_grpc.GenerationServiceStub(channel)


def children(pid: int) -> list[int]:
    """Processes that this one started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def alive(pid: int) -> bool:
    """Whether the process runs (a dead one that nobody waited for does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, pids))


def engine_of(server: LocalServer) -> int:
    """The largest child: the one that holds the model."""

    def resident(pid: int) -> int:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])

    return max(children(server.process.pid), key=resident)


def test_health_has_the_server_each_service_and_the_model(channel, server):
    health = health_pb2_grpc.HealthStub(channel)
    for name in (
        "",
        "syntaxd.v1.GenerationService",
        "syntaxd.v1.ConstraintService",
        "syntaxd.v1.ModelService",
        server.model,
    ):
        asked = health_pb2.HealthCheckRequest(service=name)
        assert health.Check(asked, timeout=TIMEOUT).status == SERVING
    with pytest.raises(grpc.RpcError) as caught:
        health.Check(health_pb2.HealthCheckRequest(service="gpt"), timeout=TIMEOUT)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_reflection_lists_the_services(channel):
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    ours = {f"syntaxd.v1.{name}Service" for name in ("Generation", "Constraint", "Model")}
    assert ours <= set(services)


def test_a_port_in_use_is_said_before_the_model_is_loaded(server, default_model, tmp_path):
    port = server.address.rpartition(":")[2]
    second = LocalServer("--model", str(default_model), "--port", port, log=tmp_path / "log")
    with pytest.raises(RuntimeError, match="status 1"):
        second.__enter__()
    assert f"cannot listen on 127.0.0.1:{port}" in (tmp_path / "log").read_text()


def new_calls(channel):
    """One of each service."""
    generation = generation_pb2_grpc.GenerationServiceStub(channel)
    constraints = constraint_pb2_grpc.ConstraintServiceStub(channel)
    models = model_pb2_grpc.ModelServiceStub(channel)
    yes = choice("yes")
    return (
        lambda: generation.Generate(ask(constraint=yes), timeout=TIMEOUT),
        lambda: next(generation.GenerateStream(ask(constraint=yes), timeout=TIMEOUT)),
        lambda: constraints.CompileConstraint(
            c.CompileConstraintRequest(constraint=yes), timeout=TIMEOUT
        ),
        lambda: constraints.CheckText(c.CheckTextRequest(constraint=yes), timeout=TIMEOUT),
        lambda: models.Tokenize(model_pb2.TokenizeRequest(), timeout=TIMEOUT),
    )


def test_told_to_stop_it_lets_running_calls_end_and_refuses_new_ones_with_words(own):
    """On the connection that is open, and on a new one."""
    with grpc.insecure_channel(own.address) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        health = health_pb2_grpc.HealthStub(channel)
        call = stub.GenerateStream(ask(constraint=regex("[a-z ]{150}")), timeout=TIMEOUT)
        while next(call).WhichOneof("event") != "delta":
            pass
        engine = children(own.process.pid)
        for pid in (*engine, own.process.pid):  # as a supervisor does: the whole group
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + 10
        while health.Check(health_pb2.HealthCheckRequest()).status == SERVING:
            assert time.monotonic() < until
        with grpc.insecure_channel(own.address) as another:
            for each in (channel, another):
                for refuse in new_calls(each):
                    code, reason, found = refused(refuse)
                    assert (code, reason) == ("UNAVAILABLE", "DRAINING")
                    assert found["RetryInfo"].retry_delay.ToMilliseconds() > 0
        assert call.is_active()
        assert [event.WhichOneof("event") for event in call][-1] == "summary"
    assert own.process.wait(30) == 0
    assert gone(engine)


def test_a_call_that_outlasts_the_grace_period_ends_saying_why(default_model, tmp_path):
    flags = ("--model", str(default_model), *ONE_THREAD, "--drain-seconds", "0.5")
    with (
        LocalServer(*flags, log=tmp_path / "log") as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        call = stub.GenerateStream(ask(constraint=LONG), timeout=TIMEOUT)
        while next(call).WhichOneof("event") != "delta":
            pass
        server.process.terminate()
        code, reason, found = refused(lambda: list(call))
        assert (code, reason) == ("UNAVAILABLE", "ENGINE_GONE")
        assert "RetryInfo" in found
        assert server.process.wait(30) == 0
    assert "did not end in time" in (tmp_path / "log").read_text()


def test_told_to_stop_with_nothing_to_do_it_ends_at_once(own):
    with grpc.insecure_channel(own.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        own.process.terminate()
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert own.process.wait(10) == 0
    # Nobody reports what he could not free: the last words are those of the engine process.
    assert own.log.read_text().endswith("the front process has gone; the engine ends\n")


def begun(stub):
    """A stream that has said something and has much more to say."""
    call = stub.GenerateStream(ask(constraint=LONG), timeout=TIMEOUT)
    while next(call).WhichOneof("event") != "delta":
        pass
    return call


def test_an_engine_that_is_killed_ends_its_calls_and_the_next_one_serves(own):
    """Health says so meanwhile, of what needs the engine; what was compiled is known still."""
    with grpc.insecure_channel(own.address) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        constraints = constraint_pb2_grpc.ConstraintServiceStub(channel)
        health = health_pb2_grpc.HealthStub(channel)

        def status(service):
            return health.Check(health_pb2.HealthCheckRequest(service=service)).status

        pinned = c.CompileConstraintRequest(constraint=regex("[a-f]{9}"), pin=True)
        known = constraints.CompileConstraint(pinned).constraint.constraint_id
        asked = ask(constraint=c.Constraint(constraint_id=known), request_id="mine")
        asked.sampling.seed = 5
        before = stub.Generate(asked, timeout=TIMEOUT).outputs[0].text
        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        call, engine = begun(stub), engine_of(own)

        os.kill(engine, signal.SIGKILL)
        code, reason, found = refused(lambda: list(call))
        assert (code, reason) == ("UNAVAILABLE", "ENGINE_GONE")
        assert found["RetryInfo"].retry_delay.ToTimedelta().total_seconds() >= 1
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        code, reason, found = refused(lambda: stub.Generate(asked, timeout=TIMEOUT))
        assert (code, reason) == ("UNAVAILABLE", "MODEL_LOADING")
        assert "RetryInfo" in found
        for service in ("syntaxd.v1.GenerationService", own.model):
            assert status(service) == health_pb2.HealthCheckResponse.NOT_SERVING
        assert status("syntaxd.v1.ConstraintService") == SERVING
        assert constraints.CheckText(c.CheckTextRequest(constraint=choice("yes"), text="yes"))

        assert next(watch).status == SERVING
        watch.cancel()
        assert engine_of(own) != engine
        assert not alive(engine)
        assert stub.Generate(asked, timeout=TIMEOUT).outputs[0].text == before
        assert status(own.model) == SERVING
    assert "the engine process ended: signal 9" in own.log.read_text()


def test_who_is_refused_while_it_is_loaded_again_is_served_a_little_later(own, own_stub):
    """By gRPC's own retries, at the time that the server named."""
    begun(own_stub)
    os.kill(engine_of(own), signal.SIGKILL)
    with syntaxd_client.Client(own.address, timeout=TIMEOUT) as client:
        while client.get_model().name:  # served without the engine
            if "the engine process ended" in own.log.read_text():
                break
        assert client.generate("Yes?", choice=["yes"]).text == "yes"
    assert "is up again" in own.log.read_text()


def test_an_engine_that_is_not_to_be_replaced_ends_the_server(default_model, tmp_path):
    flags = ("--model", str(default_model), *ONE_THREAD, "--engine-restarts", "0")
    with (
        LocalServer(*flags, log=tmp_path / "log") as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        call = begun(generation_pb2_grpc.GenerationServiceStub(channel))
        os.kill(engine_of(server), signal.SIGKILL)
        assert refused(lambda: list(call))[:2] == ("UNAVAILABLE", "ENGINE_GONE")
        assert server.process.wait(30) == 1
    assert "not started again: signal 9" in (tmp_path / "log").read_text()


def damage(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (damage, "model: SafetensorError: "),
        (lambda folder: (folder / "model.safetensors").unlink(), "model"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json"),
    ],
)
def test_a_model_that_does_not_load_is_named(tmp_path, spoil, said):
    folder = tiny.save_folder(tmp_path / "model")
    spoil(folder)
    with pytest.raises(RuntimeError, match="status 1"):
        LocalServer("--model", str(folder), log=tmp_path / "log").__enter__()
    log = (tmp_path / "log").read_text()
    last = log.splitlines()[-1]
    assert last.startswith("syntaxd: ")
    assert str(folder) in last
    assert said in last


def test_when_the_front_dies_the_engine_ends(own, own_stub):
    own_stub.Generate(ask(constraint=choice("yes")), timeout=TIMEOUT)
    engine = children(own.process.pid)
    assert engine
    own.process.kill()
    assert gone(engine)
