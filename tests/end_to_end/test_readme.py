"""What the README tells a newcomer to type works."""

import contextlib
import io
import json
import re
from pathlib import Path

from service.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_call_in_python_prints_an_answer(server):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code.replace("127.0.0.1:50051", server.address), {})
    answer = json.loads(output.getvalue())
    assert list(answer) == ["city", "inhabitants"]
    assert 0 <= answer["inhabitants"] <= 50_000_000


def test_the_command_line_answers_the_same_to_both_ways_of_reading(server, capsys):
    ask = ["generate", "Is water wet?", "--choice", "yes", "--choice", "no"]
    ask += ["--address", server.address, "--temperature", "0"]
    assert main(ask) == 0
    whole = capsys.readouterr().out
    assert whole in ("yes\n", "no\n")
    assert main([*ask, "--stream"]) == 0
    assert capsys.readouterr().out == whole


def test_every_command_named_is_a_target_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    commands = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", README, re.MULTILINE))
    assert {"demo", "serve", "test", "check"} <= commands
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_every_folder_of_the_map_is_there():
    for folder in re.findall(r"^\| `([a-z/]+)/` \|", README, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder
