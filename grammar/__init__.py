"""The constraint engine: (constraint, text so far) -> the set of tokens that may come next.

Pure: bytes and ints in, bit masks out; imports numpy and numba only. Code map in reading order:
``options``/``errors``; ``dfa``, ``automata``, ``regex``, ``numbers``, ``formats`` (byte automata);
``vocabulary`` and ``kernels`` (the token trie and the loops over it); ``lexemes`` and ``arena``
(tables); ``schema`` (JSON Schema -> states); ``units`` (text up to the end of a structural unit);
``witness`` (certified completions); ``matcher``.
"""

from grammar.check import Check, check_steps, check_text
from grammar.compiled import (
    Diagnostic,
    Grammar,
    Shortest,
    compile_choice,
    compile_json_schema,
    compile_regex,
    compile_steps,
    compile_unit,
    fill_masks,
)
from grammar.dfa import Dfa
from grammar.errors import (
    ConstraintSyntaxError,
    GrammarError,
    TooComplex,
    Unsatisfiable,
    UnsupportedError,
)
from grammar.explain import (
    ENFORCED_KEYWORDS,
    KeywordReport,
    Reports,
    explain,
    explain_steps,
)
from grammar.matcher import Matcher
from grammar.options import JsonOptions, Limits
from grammar.units import UNITS
from grammar.vocabulary import Vocabulary
from grammar.warmup import warmup

__all__ = [
    "ENFORCED_KEYWORDS",
    "UNITS",
    "Check",
    "ConstraintSyntaxError",
    "Dfa",
    "Diagnostic",
    "Grammar",
    "GrammarError",
    "JsonOptions",
    "KeywordReport",
    "Limits",
    "Matcher",
    "Reports",
    "Shortest",
    "TooComplex",
    "Unsatisfiable",
    "UnsupportedError",
    "Vocabulary",
    "check_steps",
    "check_text",
    "compile_choice",
    "compile_json_schema",
    "compile_regex",
    "compile_steps",
    "compile_unit",
    "explain",
    "explain_steps",
    "fill_masks",
    "warmup",
]
