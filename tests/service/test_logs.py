"""The log's two forms."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta

import pytest

from service import logs


@pytest.fixture
def log():
    """A logger of its own; the root is afterwards as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield logging.getLogger("service.test")
    root.handlers[:], root.level = handlers, level


def test_a_line_has_what_is_known_of_the_event(log, capsys):
    logs.set_up("info", "json", "front")
    log.info("call of %s\nended", "Grüße", extra=logs.fields(code="OK", seconds=0.5, peer=None))
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    time = datetime.fromisoformat(said.pop("time"))
    assert timedelta() <= datetime.now(UTC) - time < timedelta(minutes=1)
    assert said == {
        "level": "info",
        "process": "front",
        "logger": "service.test",
        "message": "call of Grüße\nended",
        "code": "OK",
        "seconds": 0.5,
    }


def test_an_exception_is_on_the_same_line(log, capsys):
    logs.set_up("info", "json", "engine")
    try:
        {}["x"]
    except KeyError:
        log.exception("incident %s", "abc", extra=logs.fields(incident="abc", odd={1, 2}))
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert (said["level"], said["process"], said["incident"]) == ("error", "engine", "abc")
    assert said["exception"].startswith("Traceback")
    assert said["exception"].endswith("KeyError: 'x'")


def test_fields_do_not_hide_what_every_line_has(log, capsys):
    logs.set_up("info", "json", "front")
    log.info("true", extra=logs.fields(message="false", level="false"))
    said = json.loads(capsys.readouterr().err)
    assert (said["message"], said["level"]) == ("true", "info")


def test_lines_for_people(log, capsys):
    logs.set_up("warning", "text", "engine")
    log.info("nobody asked")
    log.warning("look", extra=logs.fields(code="OK"))
    said = capsys.readouterr().err
    assert said.endswith(" WARNING engine service.test: look\n")
    assert "nobody" not in said
    logs.set_up("warning", "text", "front")
    log.warning("look")
    assert capsys.readouterr().err.endswith(" WARNING service.test: look\n")
