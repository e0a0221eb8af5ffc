"""The constraint in the conversation."""

import pytest

from service.engine.types import Constraint
from service.rpc.describe import describe, with_description
from service.rpc.draft import Message

REGEX = Constraint(kind="regex", text="[0-9]+")


@pytest.mark.parametrize(
    ("constraint", "contains"),
    [
        (REGEX, "[0-9]+"),
        (Constraint(kind="json_schema", text='{"type": "null"}'), '{"type": "null"}'),
        (Constraint(kind="choice", choices=("yes", "no")), "- yes\n- no"),
    ],
)
def test_the_description_has_the_constraint_word_for_word(constraint, contains):
    assert contains in describe(constraint)


def test_without_a_system_message_it_becomes_one():
    user = Message("user", "?")
    assert with_description((user,), REGEX) == (Message("system", describe(REGEX)), user)


def test_a_system_message_keeps_its_text_in_front():
    system, user = Message("system", "Be brief."), Message("user", "?")
    got = with_description((system, user), REGEX)
    assert got == (Message("system", f"Be brief.\n\n{describe(REGEX)}"), user)
