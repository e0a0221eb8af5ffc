"""The shortest texts of different values of a goal: the items of a shortest ``uniqueItems``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammar.arena import Arena
from grammar.errors import TooComplex
from grammar.schema.goal import Goal
from grammar.schema.places import Root, Value

if TYPE_CHECKING:
    from grammar.schema.program import Program

MAX_TEXTS = 1_000  # of one goal
MAX_EXPANDED = 2_000  # positions looked at, and
EXPANDED_PER_TEXT = 64  # more for each text that is asked for


def shortest_texts(program: Program, goal: Goal, count: int, where: str) -> list[bytes]:
    """The shortest texts of ``count`` different values, shorter ones first; fewer if there are
    no more.

    Raises TooComplex (max_solver_steps) where they are too many or too hard to find.
    """
    from grammar.item_search import nearest
    from grammar.items import key_of, parse
    from grammar.witness import witness

    message = f"uniqueItems with minItems {count}: finding that many different items"
    if count > MAX_TEXTS:
        message = f"{message}, at most {MAX_TEXTS}"
        raise TooComplex(message, where, "max_solver_steps")
    arena = Arena()
    root = Root(program, arena.number("root"), goal, 0, merged=True)
    start = arena.place("value", lambda: Value(root, space=False))
    lengths: dict[int, int] = {}

    def estimate(config: int) -> int:
        if config not in lengths:
            lengths[config] = len(witness(arena, config))
        return lengths[config]

    most = MAX_EXPANDED + EXPANDED_PER_TEXT * count
    found: dict[str, bytes] = {}
    for number, (text, position) in enumerate(nearest(arena, (start, (), None), estimate, most)):
        if number == most - 1:
            raise TooComplex(f"{message} takes too long", where, "max_solver_steps")
        if arena.accepting(position[0]):
            found.setdefault(key_of(parse(text)), text)
            if len(found) == count:
                break
    return list(found.values())
