"""``syntaxd check``, ``compile`` and ``tokenize``: here and on a server, with the same answers."""

from __future__ import annotations

import functools
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.check import excerpt
from service.cli.main import main
from service.engine.tokenizer import Tokenizer
from service.rpc import workbench
from tests.service.cli import served

LOAD = Tokenizer.load
PERSON = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "format": "age"}},
        "required": ["name"],
    }
)
REFUSED = json.dumps({"items": {"pattern": "(?<=a)b"}, "properties": {"a": {"$ref": "x.json"}}})


@pytest.fixture(scope="module")
def address(default_model):
    with served.running(default_model) as each:
        yield each


@pytest.fixture(autouse=True)
def _load_once(monkeypatch):
    """The tokenizer takes a second; a process loads it once anyway."""
    monkeypatch.setattr(workbench.Tokenizer, "load", _loaded)


@functools.cache
def _loaded(folder: Path) -> Tokenizer:
    return LOAD(folder)


@pytest.fixture
def run(capsys):
    def call(*arguments):
        status = main(list(arguments))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


@pytest.fixture(params=["here", "there"])
def where(request, default_model):
    """Arguments that make a command ask this machine or a server."""
    if request.param == "here":
        return ()
    return ("--server", request.getfixturevalue("address"))


# --- check ------------------------------------------------------------------------------------


def test_a_text_that_matches(run, where):
    assert run("check", "--schema", PERSON, '{"name": "a"}', *where) == (0, "complete\n", "")


def test_a_wrong_byte_is_pointed_at(run, where):
    status, out, err = run("check", "--schema", PERSON, '{"name": 3}', *where)
    assert (status, err) == (1, "")
    assert out.splitlines() == [
        "rejected at byte 9 (line 1, column 10)",
        '  {"name": 3}',
        "           ^",
        "expected: a string or whitespace",
    ]


def test_a_beginning_and_its_completion(run, where):
    status, out, _ = run("check", "--schema", PERSON, '{"age": 1', *where)
    assert status == 1
    assert out.splitlines() == [
        "incomplete after 9 bytes",
        '  {"age": 1',
        "           ^",
        "expected: a digit, `.`, `e`, `,` or whitespace",
        'shortest completion: ,"name":""}',
    ]


def test_only_the_spelling(run, where):
    status, out, _ = run("check", "--schema", PERSON, r'{"n\u0061me": ""}', *where)
    assert status == 1
    assert "only the spelling is wrong" in out


def test_the_wrong_byte_of_a_text_of_several_lines(run, where, tmp_path):
    (tmp_path / "text").write_text('{\n\t"näme": "",\n  "name": x}\n')
    status, out, _ = run("check", "--schema", PERSON, f"@{tmp_path / 'text'}", *where)
    assert status == 1
    assert out.splitlines()[:3] == [
        "rejected at byte 26 (line 3, column 11)",
        '    "name": x}',
        "            ^",
    ]


def test_bytes_that_are_no_utf_8(run, where, tmp_path):
    (tmp_path / "text").write_bytes(b'{"name": "a\xff"}')
    status, out, _ = run("check", "--json", "--schema", PERSON, f"@{tmp_path / 'text'}", *where)
    assert status == 1
    found = json.loads(out)
    assert (found["verdict"], found["byte_offset"]) == ("rejected", 11)
    assert found["expected"] == ["a character of the string", '`"`']


def test_control_characters_do_not_reach_the_terminal(run, where):
    status, out, _ = run("check", "--regex", "a\x1b\x9bb\nc", "a", *where)
    assert status == 1
    assert "shortest completion: \u241b\ufffdb\u240ac" in out


def test_check_in_json(run, where):
    status, out, _ = run("check", "--json", "--choice", "yes", "--choice", "no", "ye", *where)
    assert status == 1
    assert json.loads(out) == {
        "verdict": "incomplete",
        "byte_offset": 2,
        "expected": ["`s`"],
        "shortest_completion": "s",
        "spelling_only": False,
    }


def test_options_of_a_schema_count(run, where):
    text = '{"name": "a", "b": 1}'
    assert run("check", "--schema", PERSON, text, *where)[0] == 0
    closed = ("--additional-properties", "forbid")
    assert run("check", "--schema", PERSON, text, *closed, *where)[0] == 1
    dated = ("--schema", '{"format":"date"}', '"soon"')
    assert run("check", *dated, *where)[0] == 1
    assert run("check", *dated, "--formats", "annotate", *where)[0] == 0


def test_constraints_and_texts_come_from_files(run, where, tmp_path, monkeypatch):
    (tmp_path / "regex").write_text("a+\n")
    (tmp_path / "choices").write_text("red\ngreen\n")
    (tmp_path / "text").write_text("aaa\n")
    assert (
        run("check", "--regex", f"@{tmp_path / 'regex'}", f"@{tmp_path / 'text'}", *where)[0] == 0
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"green\n")))
    assert run("check", "--choice", f"@{tmp_path / 'choices'}", *where)[0] == 0


def test_check_needs_no_model(run, monkeypatch):
    monkeypatch.setattr("service.models.folder_of", None)
    assert run("check", "--choice", "a", "a")[0] == 0


# --- compile ----------------------------------------------------------------------------------


def test_what_becomes_of_each_keyword(run, where):
    status, out, err = run("compile", "--schema", PERSON, *where)
    assert (status, err) == (0, "")
    lines = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
    assert ["tokens", "4 suffice, no limit known"] in lines
    assert ["shortest", '{"name":""}'] in lines
    assert ["/properties/name/type", "enforced", "constrains the output"] in lines
    assert ["/properties/age/format", "annotation", "unknown format age is an annotation"] in lines
    assert any(line[:2] == ["root", "OBJECT_CLOSED"] for line in lines)


def test_compile_in_json(run, where):
    status, out, _ = run("compile", "--json", "--schema", '{"enum":["a",12]}', *where)
    assert status == 0
    found = json.loads(out)
    assert found["example"] == "12"
    assert found["max_output_tokens"] == 3
    assert found["compiled_bytes"] > 0
    assert found["compile_time_us"] > 0
    assert found["keywords"] == [
        {
            "location": "/enum",
            "keyword": "enum",
            "treatment": "enforced",
            "reason": "constrains the output",
        }
    ]
    assert found["diagnostics"] == []


def test_how_json_is_written_counts(run, where):
    one = ("compile", "--json", "--schema", '{"const":{"é":1,"b":2}}')
    example = json.loads(run(*one, "--whitespace", "single_space", *where)[1])["example"]
    assert example == '{"é": 1, "b": 2}'
    ascii_only = json.loads(run(*one, "--ascii-only", *where)[1])["constraint_id"]
    assert ascii_only != json.loads(run(*one, *where)[1])["constraint_id"]


def test_refused_keywords_are_told_all_at_once(run, where):
    status, out, err = run("compile", "--schema", REFUSED, *where)
    assert (status, out) == (1, "")
    first, *others = err.splitlines()
    assert first.startswith("syntaxd: UNSUPPORTED_KEYWORD: constraint.json_schema: at /")
    assert sorted(line.split(":")[0] for line in others) == [
        "  at /items/pattern",
        "  at /properties/a/$ref",
    ]


def test_a_refusal_in_json(run, where):
    status, out, _ = run("compile", "--json", "--regex", "(", *where)
    assert status == 1
    error = json.loads(out)["error"]
    assert error["reason"] == "CONSTRAINT_SYNTAX"
    assert "@0" in error["message"]


def test_checking_under_a_refused_constraint_fails_likewise(run, where):
    status, out, err = run("check", "--schema", REFUSED, "[]", *where)
    assert (status, out) == (1, "")
    assert "UNSUPPORTED_KEYWORD" in err


# --- tokenize ---------------------------------------------------------------------------------


def test_tokens_of_a_text(run, where):
    status, out, _ = run("tokenize", "Hello, wörld 😀", *where)
    assert status == 0
    *table, count = out.splitlines()
    assert count == f"{len(table) - 2} tokens"
    assert table[2].split() == ["19556", "'Hello'"]


def test_tokens_in_json_spell_the_text(run, where):
    _, out, _ = run("tokenize", "--json", "Hello, 😀", *where)
    found = json.loads(out)
    assert found["count"] == len(found["tokens"])
    pieces = b"".join(bytes.fromhex(each["bytes"]) for each in found["tokens"])
    assert pieces.decode() == "Hello, 😀"
    assert found["tokens"][0] == {"id": 19556, "bytes": b"Hello".hex(), "text": "Hello"}
    assert None in [each["text"] for each in found["tokens"]]  # half a character


# --- here is there ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--schema", PERSON, '{"name": [1]}'),
        ("check", "--regex", "[a-c]+x", "abd"),
        ("check", "--choice", "", ""),
        ("compile", "--schema", PERSON),
        ("compile", "--schema", REFUSED),
        ("compile", "--schema", "{"),
        ("compile", "--schema", '{"type":"string","minLength":9,"maxLength":3}'),
        ("compile", "--choice", "a", "--choice", "bc"),
        ("compile", "--json", "--regex", "a{1,9}"),
        ("tokenize", "<|im_start|> a"),
        ("tokenize", "--no-special-tokens", "a"),
        ("tokenize", ""),
    ],
)
def test_a_server_says_the_same(run, address, arguments):
    def timeless(text):
        text = re.sub(r"\d+ kB, compiled in [\d.]+ ms", "", text)
        return re.sub(r'"(compile_time_us|compiled_bytes)": \d+', "", text)

    status, out, err = run(*arguments)
    assert (status, timeless(out), timeless(err)) == tuple(
        timeless(each) if isinstance(each, str) else each
        for each in run(*arguments, "--server", address)
    )


# --- wrong commands ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "text"),
        ("check", "--regex", "a", "--choice", "b", "text"),
        ("compile",),
        ("compile", "--schema", "{}", "--whitespace", "wide"),
        ("tokenize", "--server"),
    ],
)
def test_a_wrong_command(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == 2
    assert "usage: syntaxd" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--schema", "@/no/such/file", "x"),
        ("check", "--regex", "a", "@/no/such/file"),
        ("compile", "--schema", "@/no/such/file"),
        ("tokenize", "@/no/such/file"),
    ],
)
def test_a_missing_file_is_a_wrong_command(run, arguments):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "/no/such/file" in err


@pytest.mark.parametrize("command", [("check", "text"), ("compile",)])
def test_a_constraint_that_is_no_utf_8_is_a_wrong_command(run, command):
    assert run(*command, "--regex", "\udcff")[0] == 2  # as Python reads the byte 0xff
    assert run("tokenize", "\udcff")[0] == 2


def test_no_such_model_and_no_such_server(run):
    status, _, err = run("compile", "--regex", "a", "--model", "/no/such/folder")
    assert status == 1
    assert "/no/such/folder" in err
    status, _, err = run("tokenize", "a", "--server", "127.0.0.1:1")
    assert status == 1
    assert "no server answers at 127.0.0.1:1" in err
    status, out, _ = run("tokenize", "a", "--json", "--server", "127.0.0.1:1")
    assert status == 1
    assert json.loads(out)["error"]["reason"] == "FAILED"


@pytest.mark.parametrize("command", ["check", "compile", "tokenize"])
def test_help_tells_the_exit_status(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "Exit status: 0 " in " ".join(capsys.readouterr().out.split())


# --- the caret --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "offset", "shown"),
    [
        (b"abc", 1, ("a", "bc")),
        (b"abc", 3, ("abc", "")),
        (b"ab\ncd\nef", 4, ("c", "d")),
        (b"ab\ncd", 2, ("ab", "")),  # the wrong byte is the line break
        (b"a\tb", 2, ("a\u2409", "b")),
        ("aé".encode(), 2, ("a", "é")),  # inside a character: the whole of it
        (b"a\xffb", 1, ("a", "\ufffdb")),
        (b"x" * 100 + b"y" * 100, 100, ("…" + "x" * 60, "y" * 30 + "…")),
    ],
)
def test_the_line_around_a_byte(text, offset, shown):
    assert excerpt(text, offset) == shown


# --- installed --------------------------------------------------------------------------------


def test_the_installed_command(tmp_path):
    script = Path(sys.executable).with_name("syntaxd")
    (tmp_path / "schema.json").write_text(PERSON)
    done = subprocess.run(
        [script, "check", "--schema", "@schema.json", "--json"],
        input=b'{"name": 3}\n',
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["byte_offset"] == 9
    assert done.stderr == b""
