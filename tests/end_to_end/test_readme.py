"""What the README tells a newcomer to type works."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from service.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def run_python(code, server) -> list[str]:
    """Lines that the page's code prints, asking our server."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code.replace("127.0.0.1:50051", server.address), {"__name__": "page"})
    return output.getvalue().splitlines()


def test_the_readme_s_python_prints_a_city_and_an_answer(server):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    city, answer = run_python(code, server)
    name, _, inhabitants = city.rpartition(" ")
    assert 1 <= len(name) <= 30
    assert 0 <= int(inhabitants) <= 50_000_000
    assert answer in ("yes", "no")


def test_the_python_of_the_page_on_constraints_runs(server):
    page = (ROOT / "docs/constraints.md").read_text()
    named, checked = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    shortest, answer = run_python(named, server)
    assert shortest.split()[0] in "123456"
    assert answer in list("123456")
    complete, completion, wrong = run_python(checked, server)
    assert complete == "complete"
    assert re.fullmatch(r"\d\}", completion)
    assert wrong.startswith("rejected 8 ")


PYTHON_README = (ROOT / "clients/python/README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PYTHON_README, re.DOTALL))
def test_the_python_of_the_client_s_page_runs(server, code):
    assert run_python(code, server)


def test_the_command_line_answers_the_same_to_both_ways_of_reading(server, capsys):
    ask = ["generate", "Is water wet?", "--choice", "yes", "--choice", "no"]
    ask += ["--address", server.address, "--temperature", "0"]
    assert main(ask) == 0
    whole = capsys.readouterr().out
    assert whole in ("yes\n", "no\n")
    assert main([*ask, "--stream"]) == 0
    assert capsys.readouterr().out == whole


COMMANDS = re.findall(r"^syntaxd (.+)$", README, re.MULTILINE)
SAID = {  # what stands in the command -> what is printed
    "--choice": r"(yes|no)\n",
    "letter.txt": r'\{"sender": "[^"]+", "written": "[0-9-]{10}", "amounts": \[.+\]\}\n',
    "--unit fence": r".*```.*```\n",
    "check": r"rejected at byte 32.*expected: .*",
    "compile": r".*/properties/sender/maxLength +enforced .*",
    "tokenize": r".*' water'.*4 tokens\n",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_line_prints_what_the_page_says(server, monkeypatch, capsys, command):
    (said,) = [pattern for mark, pattern in SAID.items() if mark in command]
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SYNTAXD_ADDRESS", server.address)
    arguments = shlex.split(command)
    assert main(arguments) == (arguments[0] == "check")  # whose text does not match
    assert re.fullmatch(said, capsys.readouterr().out, re.DOTALL)


def test_every_kind_of_command_is_on_the_page():
    assert {command.split()[0] for command in COMMANDS} == {
        *("generate", "check", "compile", "tokenize")
    }


def test_every_command_named_is_a_target_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    commands = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", README, re.MULTILINE))
    assert {"demo", "serve", "test", "check"} <= commands
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_every_folder_of_the_map_is_there():
    for folder in re.findall(r"^\| `([a-z/]+)/` \|", README, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder
