"""Keys: who is let in, who is not, and what a file of keys may say."""

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from service.rpc.api_keys import ApiKeys, ApiKeysError, Key, KeyFile, read_keys
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import generation_pb2_grpc, model_pb2_grpc
from service.rpc.pb.v1 import model_pb2 as m
from tests.service.rpc.calls import refused
from tests.service.rpc.fakes import serving
from tests.service.rpc.test_draining import all_calls

KEYS = [b"first-key-of-ours", b"second-key-of-ours"]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_a_known_key_opens_unary_calls_and_streams(key, scheme):
    metadata = [("authorization", f"{scheme} {key.decode()}")]
    async with serving(api_keys=ApiKeys(map(Key, KEYS))) as served:
        models = model_pb2_grpc.ModelServiceStub(served.channel)
        assert (await models.GetModel(m.GetModelRequest(), metadata=metadata)).model.name
        stub = generation_pb2_grpc.GenerationServiceStub(served.channel)
        call = stub.GenerateStream(g.GenerateRequest(prompt="x"), metadata=metadata)
        assert [event.WhichOneof("event") async for event in call][-1] == "summary"


async def test_without_a_key_every_rpc_is_refused_and_nothing_reaches_the_engine():
    async with serving(api_keys=ApiKeys(map(Key, KEYS))) as served:
        for name, call in all_calls(served.channel).items():
            code, reason, _ = await refused(call)
            assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNKNOWN_API_KEY"), name
        assert not served.engine.submitted


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "Bearer first-key-of-our", "Bearer first-key-of-ours2", KEYS[0]],
)
async def test_what_is_not_quite_a_key_is_refused(value):
    async with serving(api_keys=ApiKeys(map(Key, KEYS))) as served:
        models = model_pb2_grpc.ModelServiceStub(served.channel)
        call = models.GetModel(m.GetModelRequest(), metadata=[("authorization", value)])
        assert (await refused(call))[0] is grpc.StatusCode.UNAUTHENTICATED


async def test_health_needs_no_key():
    async with serving(api_keys=ApiKeys(map(Key, KEYS))) as served:
        health = health_pb2_grpc.HealthStub(served.channel)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_file_has_a_key_a_line(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(b"# ours\n\nfirst-key-of-ours\r\n  second-key-of-ours\n")
    assert read_keys(path) == [Key(each) for each in KEYS]


@pytest.mark.parametrize("text", [b"", b"# none\n", b"short\n", b"a key with a few spaces\n"])
def test_a_file_that_protects_nothing_is_refused_without_showing_it(tmp_path, text):
    path = tmp_path / "keys"
    path.write_bytes(text)
    with pytest.raises(ApiKeysError) as caught:
        read_keys(path)
    assert not text.strip() or text.decode().strip() not in str(caught.value)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_file_that_changes_is_read_again_but_not_with_every_call(tmp_path, caplog):
    path, clock = tmp_path / "keys", Clock()
    path.write_bytes(KEYS[0])
    file = KeyFile(path, clock)
    assert file.keys == [Key(KEYS[0])]
    path.write_bytes(KEYS[1] + b"\n")
    assert file.reread() is None
    clock.now += 1
    assert file.reread() == [Key(KEYS[1])]
    clock.now += 1
    assert file.reread() is None

    path.write_bytes(b"short")
    for _ in range(3):
        clock.now += 1
        assert file.reread() is None
    path.unlink()
    clock.now += 1
    assert file.reread() is None
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(errors) == 2
    assert "the API keys in use stay: " in errors[0]
    assert "short" not in errors[0]
    path.write_bytes(KEYS[0])
    clock.now += 1
    assert file.reread() == [Key(KEYS[0])]


async def test_a_new_key_holds_and_an_old_one_no_more_on_an_open_connection():
    found = [None]
    keys = ApiKeys([Key(KEYS[0])], lambda: found[0])
    async with serving(api_keys=keys) as served:
        models = model_pb2_grpc.ModelServiceStub(served.channel)

        def call(key):
            metadata = [("authorization", f"Bearer {key.decode()}")]
            return models.GetModel(m.GetModelRequest(), metadata=metadata)

        assert (await call(KEYS[0])).model.name
        assert (await refused(call(KEYS[1])))[1] == "UNKNOWN_API_KEY"
        found[0] = [Key(KEYS[1])]
        assert (await call(KEYS[1])).model.name
        assert (await refused(call(KEYS[0])))[1] == "UNKNOWN_API_KEY"
