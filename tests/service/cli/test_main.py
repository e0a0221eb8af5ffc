"""The console script, against a scripted server."""

import io
import json
import subprocess
import sys

import pytest

from service.cli.main import main
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from tests.service.cli.fake_server import running


@pytest.fixture
def server():
    with running() as each:
        yield each


@pytest.fixture
def ask(server, capsys):
    def call(*arguments):
        status = main(["generate", "--address", server.address, *arguments])
        return status, capsys.readouterr()

    return call


def test_the_answer_is_printed(ask, server):
    status, printed = ask("Say it", "--choice", "yes", "--choice", "no", "--seed", "7")
    assert (status, printed.out) == (0, "yes\n")
    (request,) = server.requests
    assert request.chat.messages[0].content == "Say it"
    assert request.chat.describe_constraint
    assert list(request.constraint.choice.choices) == ["yes", "no"]
    assert request.sampling.seed == 7
    assert not request.sampling.HasField("temperature")
    assert not request.stopping.HasField("max_tokens")


def test_a_stream_prints_the_same(ask):
    status, printed = ask("Say it", "--stream")
    assert (status, printed.out, printed.err) == (0, "yes\n", "")


def test_what_the_text_does_not_show_is_remarked(ask):
    status, printed = ask("cut", "--raw", "--stop-regex", "(a+)+b")
    assert (status, printed.out) == (0, "ye\n")
    assert "cut short" in printed.err
    assert "--stop-regex (a+)+b: took too long" in printed.err


def test_schema_and_prompt_come_from_files(ask, server, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "string"}))
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Grüße")
    status, _ = ask(f"@{prompt}", "--schema", f"@{schema}", "--max-tokens", "5")
    assert status == 0
    (request,) = server.requests
    assert request.chat.messages[0].content == "Grüße"
    assert request.constraint.json_schema == '{"type": "string"}'
    assert request.stopping.max_tokens == 5


def test_the_spelling_of_json_is_asked_for(ask, server):
    ask("x", "--schema", "{}", "--whitespace", "single_space", "--property-order", "any")
    json_format = server.requests[0].constraint.json_format
    assert json_format.whitespace == c.WHITESPACE_SINGLE_SPACE
    assert json_format.property_order == c.PROPERTY_ORDER_ANY
    ask("x", "--schema", "{}")
    assert not server.requests[1].constraint.HasField("json_format")


def test_a_file_of_choices_has_one_on_each_line(ask, server, tmp_path):
    (tmp_path / "c").write_text("red\ngreen\n\n")
    ask("x", "--choice", f"@{tmp_path / 'c'}", "--choice", "blue")
    assert list(server.requests[0].constraint.choice.choices) == ["red", "green", "blue"]


def test_the_final_newline_of_a_regex_file_is_not_part_of_it(ask, server, tmp_path):
    (tmp_path / "r").write_text("a+\n")
    ask("x", "--regex", f"@{tmp_path / 'r'}")
    assert server.requests[0].constraint.regex == "a+"


def test_the_prompt_may_come_from_standard_input(ask, server, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe"))
    ask("--raw")
    assert server.requests[0].prompt == "from a pipe"


def test_a_refusal_says_code_reason_and_message(ask):
    status, printed = ask("x", "--regex", "(")
    assert status == 1
    assert printed.out == ""
    assert "INVALID_ARGUMENT CONSTRAINT_SYNTAX: constraint.regex: at @0" in printed.err


def test_without_a_server_the_way_to_start_one_is_told(capsys):
    assert main(["generate", "x", "--address", "127.0.0.1:1"]) == 1
    assert "no server answers at 127.0.0.1:1" in capsys.readouterr().err


def test_a_missing_file_is_a_wrong_command(ask, server, tmp_path):
    status, printed = ask("x", "--schema", f"@{tmp_path / 'none'}")
    assert status == 2
    assert "none" in printed.err
    assert not server.requests


def test_every_way_to_stop_is_asked_for(ask, server):
    ask(
        *("x", "--stop", "a", "--stop", "b", "--stop-regex", "c+", "--stop-token", "7"),
        *("--include-stop", "--ignore-eos", "--min-tokens", "3", "--unit", "json_value"),
        *("--logit-bias", "5=-1.5", "--logit-bias", "6=100", "--best-effort"),
    )
    (request,) = server.requests
    stopping = request.stopping
    assert (list(stopping.stop), list(stopping.stop_regex)) == (["a", "b"], ["c+"])
    assert list(stopping.stop_token_ids) == [7]
    assert stopping.include_stop_in_output
    assert stopping.ignore_eos
    assert stopping.min_tokens == 3
    assert stopping.unit == g.STOP_UNIT_JSON_VALUE
    assert dict(request.sampling.logit_bias) == {5: -1.5, 6: 100}
    assert request.completion_policy == g.COMPLETION_POLICY_BEST_EFFORT


def test_every_unit_of_the_contract_may_be_asked_for(ask, server):
    for name in g.StopUnit.keys()[1:]:
        ask("x", "--unit", name.removeprefix("STOP_UNIT_").lower())
    assert [each.stopping.unit for each in server.requests] == g.StopUnit.values()[1:]


def test_a_bias_that_is_none_is_a_wrong_command(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["generate", "x", "--logit-bias", "5"])
    assert caught.value.code == 2
    assert "--logit-bias" in capsys.readouterr().err


def test_a_negative_seed_is_a_wrong_command(ask):
    status, printed = ask("x", "--seed", "-1")
    assert status == 2
    assert printed.err


def test_two_kinds_of_constraint_are_a_wrong_command(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["generate", "x", "--regex", "a", "--choice", "b"])
    assert caught.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_a_wrong_setting_of_serve_is_a_wrong_command(capsys):
    assert main(["serve", "--port", "70000"]) == 2
    assert "SYNTAXD_PORT" in capsys.readouterr().err


def test_help_needs_none_of_the_heavy_libraries():
    script = (
        "import sys; from service.cli.main import main\n"
        "try: main(['serve', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'transformers', 'grpc', 'numba'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "SYNTAXD_MAX_ROWS" in done.stdout
