"""The installed console script against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("syntaxd")
SCHEMA = '{"type":"object","properties":{"a":{"enum":[1,22]}},"required":["a"]}'


def call(server, *arguments):
    """Exit status and the JSON object that was printed."""
    done = subprocess.run(
        [SCRIPT, *arguments, "--json", "--server", server.address],
        capture_output=True,
        timeout=120,
        text=True,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_check_compile_and_tokenize(server):
    status, found = call(server, "check", "--schema", SCHEMA, '{"a": 2')
    assert (status, found["verdict"], found["shortest_completion"]) == (1, "incomplete", "2}")
    status, found = call(server, "compile", "--schema", SCHEMA)
    assert (status, found["example"], found["max_output_tokens"]) == (0, '{"a":1}', 8)
    status, found = call(server, "tokenize", "Hello")
    assert (status, found["count"], found["tokens"][0]["text"]) == (0, 1, "Hello")
    status, found = call(server, "compile", "--schema", '{"$ref":"x.json"}')
    assert (status, found["error"]["reason"]) == (1, "UNSUPPORTED_KEYWORD")
