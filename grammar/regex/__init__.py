"""Regular expressions: pattern text -> text automaton -> byte automaton.

Code map, in reading order: ``charset`` sets of characters; ``parse`` pattern -> postfix program;
``nfa`` program -> Thompson automaton; ``look`` removes lookaheads; ``determinize`` -> least
automaton over characters (``text``), where patterns and lengths are combined; ``spelling`` and
``utf8`` -> bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grammar.dfa import Dfa
from grammar.errors import GrammarError
from grammar.options import Limits
from grammar.regex.determinize import determinize
from grammar.regex.look import leading_looks, without_looks
from grammar.regex.nfa import build
from grammar.regex.parse import Op, parse
from grammar.regex.spelling import Spelling, json_string_dfa, spell, spell_dfa
from grammar.regex.text import TextDfa, bounded, intersect, subtract

__all__ = [
    "Spelling",
    "TextDfa",
    "compile_regex",
    "compile_text",
    "json_string_dfa",
    "spell",
    "spell_dfa",
]


def compile_text(
    pattern: str, *, search: bool = False, nul: bool = True, limits: Limits | None = None
) -> TextDfa:
    """The automaton over characters of a pattern.

    ``search``: the pattern may match anywhere in the text (JSON Schema's ``pattern``), else it
    is the whole text. ``nul``: whether sets with other members keep U+0000. The language may be
    empty (``is_empty``). Raises ConstraintSyntaxError, UnsupportedError, TooComplex at ``@N``.
    """
    limits = limits or Limits()
    program = parse(pattern, limits)
    try:
        return _compile(program, search, nul, limits)
    except GrammarError as error:
        if not error.location:
            error.location = "@0"
        raise


def _compile(program: tuple[Op, ...], search: bool, nul: bool, limits: Limits) -> TextDfa:
    looks, program = leading_looks(program, search=search)
    nfa = build(program, before=search, after=search, nul=nul, limits=limits)
    text = determinize(without_looks(nfa, limits), limits)
    for look in looks:
        nfa = build(look.body, before=False, after=True, nul=True, limits=limits)
        body = determinize(without_looks(nfa, limits), limits)
        text = (subtract if look.negative else intersect)(text, body, limits)
    return text


def compile_regex(
    pattern: str,
    *,
    search: bool = False,
    spelling: Spelling = Spelling.RAW,
    dead: npt.NDArray[np.bool_] | None = None,
    limits: Limits | None = None,
    min_length: int = 0,
    max_length: int | None = None,
) -> Dfa:
    """The byte automaton of a pattern; see ``compile_text`` and ``spell_dfa``.

    ``min_length``/``max_length``: bounds on the number of characters, applied before spelling.
    """
    limits = limits or Limits()
    text = compile_text(pattern, search=search, nul=spelling.keeps_nul, limits=limits)
    if min_length or max_length is not None:
        text = bounded(text, min_length, max_length, limits)
    try:
        return spell_dfa(text, spelling, dead, limits)
    except GrammarError as error:
        raise error.at("@0") from None
