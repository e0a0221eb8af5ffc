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


def test_it_comes_after_the_last_user_message():
    first, reply, last = Message("user", "1"), Message("assistant", "2"), Message("user", "3")
    got = with_description((first, reply, last), REGEX)
    assert got == (first, reply, Message("user", f"3\n\n{describe(REGEX)}"))


def test_what_the_assistant_began_stays_last():
    user, begun = Message("user", "1"), Message("assistant", "So")
    got = with_description((user, begun), REGEX)
    assert got == (Message("user", f"1\n\n{describe(REGEX)}"), begun)


def test_without_a_user_message_it_becomes_one():
    system = Message("system", "Be brief.")
    assert with_description((system,), REGEX) == (system, Message("user", describe(REGEX)))
