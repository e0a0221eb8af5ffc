"""Constraints that the front has compiled, by the id of their content.

An id is a hash of everything that decides what is compiled: the constraint, its options with
defaults filled in, and the model's vocabulary. It says nothing about time or place, so the same
constraint has the same id after a restart and on another server. Whitespace between the tokens
of a schema decides nothing and is left out of the hash.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

import grammar
from service.engine.types import Constraint

# A compiled constraint is mostly lazily grown tables, so these bound what is kept, not what runs.
DEFAULT_CACHE_BYTES = 256 << 20
MAX_KEPT = 1_000  # their sizes are summed whenever one more is kept: a few ms
DEFAULT_MAX_PINS = 1_000
DEFAULT_PINNED_BYTES = 256 << 20
# Measured: a parsed schema takes 18 to 25 times its text, a choice or regex less.
PARSED_BYTES_PER_CHARACTER = 25
MAX_REPORTED = 1_000
MAX_REPORTED_BYTES = 512 << 10

_ID_DIGITS = 40  # 160 bits: nobody finds two constraints of one id
# A string (to its end, or the text's), or whitespace beside a structural character or the ends.
# Possessive, so that no text takes more than linear time.
_SPACED = re.compile(
    r'("(?:[^"\\]++|\\.)*+"?)|[ \t\n\r]*+([{}\[\],:])[ \t\n\r]*+|\A[ \t\n\r]++|[ \t\n\r]++\Z',
    re.DOTALL,
)


def canonical(constraint: Constraint) -> Constraint:
    """The constraint without whitespace between the tokens of its schema.

    What is no JSON stays none: space is only dropped where no token could grow together.
    """
    if constraint.kind != "json_schema":
        return constraint
    text = _SPACED.sub(lambda found: found[1] or found[2] or "", constraint.text)
    return msgspec.structs.replace(constraint, text=text)


def id_of(constraint: Constraint, vocabulary_digest: str) -> str:
    """The constraint's id for a vocabulary (``grammar.Vocabulary.digest``): hex digits."""
    content = msgspec.json.encode((vocabulary_digest, canonical(constraint)))
    return hashlib.sha256(content).hexdigest()[:_ID_DIGITS]


def parsed_bytes(constraint: Constraint) -> int:
    """Memory of what the constraint's text is parsed to, about."""
    text = len(constraint.text) + sum(map(len, constraint.choices))
    return PARSED_BYTES_PER_CHARACTER * text


class PinsFullError(Exception):
    """No more constraints may be pinned; ``limit`` names the setting that says so."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit


class Excerpt(NamedTuple):
    """The first of many reports: together they can be far larger than the schema."""

    reports: tuple[grammar.KeywordReport, ...] = ()
    total: int = 0

    @classmethod
    def of(cls, reports: grammar.Reports) -> Excerpt:
        """As many as anybody reads, and as one answer has room for."""
        kept: list[grammar.KeywordReport] = []
        room = MAX_REPORTED_BYTES
        for report in reports[:MAX_REPORTED]:
            room -= 100 + len(report.location) + len(report.reason)
            if room < 0:
                break
            kept.append(report)
        return cls(tuple(kept), len(reports))


class Summary(NamedTuple):
    """What there is to say of a compiled constraint beyond what compiling it shows."""

    example: bytes  # a shortest output known
    max_tokens: int | None  # None: no bound, or none known
    keywords: Excerpt  # of a JSON Schema, in its order

    @property
    def nbytes(self) -> int:
        """Memory, about."""
        return len(self.example) + sum(
            100 + len(each.location) + len(each.reason) for each in self.keywords.reports
        )


@dataclass(eq=False, slots=True)
class Known:
    """A compiled constraint. ``compiled`` belongs to the thread that compiles."""

    constraint_id: str
    constraint: Constraint
    compiled: grammar.Grammar
    min_tokens: int  # tokens that suffice for the shortest whole answer
    compile_us: int
    pinned: bool = False
    summary: Summary | None = None  # once somebody asked

    @property
    def lexemes(self) -> Mapping[str, grammar.Dfa]:
        """The automata that compiling had to build."""
        return self.compiled.lexemes

    @property
    def diagnostics(self) -> Sequence[grammar.Diagnostic]:
        """Remarks."""
        return self.compiled.diagnostics

    @property
    def nbytes(self) -> int:
        """Memory, about: tables as they are now, automata, and what the text was parsed to."""
        automata = sum(dfa.table.nbytes + dfa.accept.nbytes for dfa in self.lexemes.values())
        said = self.summary.nbytes if self.summary else 0
        return self.compiled.nbytes + automata + parsed_bytes(self.constraint) + said


class KnownConstraints:
    """Pinned ones stay until removed; of the others the least recently used go first."""

    def __init__(
        self,
        max_bytes: int = DEFAULT_CACHE_BYTES,
        max_pins: int = DEFAULT_MAX_PINS,
        max_pinned_bytes: int = DEFAULT_PINNED_BYTES,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_pins = max_pins
        self._max_pinned_bytes = max_pinned_bytes
        self._pinned: dict[str, Known] = {}
        self._others: OrderedDict[str, Known] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Memory of all, about."""
        return _total_bytes(self._pinned) + _total_bytes(self._others)

    def get(self, constraint_id: str) -> Known | None:
        """The constraint, if it is kept."""
        if constraint_id in self._others:
            self._others.move_to_end(constraint_id)
            return self._others[constraint_id]
        return self._pinned.get(constraint_id)

    def put(self, known: Known) -> None:
        """Keeps it, and lets go of others. One that alone is over the bound is still kept."""
        self._others[known.constraint_id] = known
        # Tables grow while they are used: sizes are asked for now, not remembered.
        while len(self._others) > MAX_KEPT or (
            len(self._others) > 1 and _total_bytes(self._others) > self._max_bytes
        ):
            self._others.popitem(last=False)

    def pin(self, known: Known) -> None:
        """Keeps it until it is removed. Raises PinsFullError."""
        if known.pinned:
            return
        if len(self._pinned) >= self._max_pins:
            message = f"{self._max_pins} constraints are pinned, the most this server keeps"
            raise PinsFullError("max_pins", message)
        total = _total_bytes(self._pinned) + known.nbytes
        if total > self._max_pinned_bytes:
            message = f"pinned constraints would take {total} bytes of {self._max_pinned_bytes}"
            raise PinsFullError("max_pinned_bytes", message)
        self._others.pop(known.constraint_id, None)
        self._pinned[known.constraint_id] = known
        known.pinned = True

    def remove(self, constraint_id: str) -> bool:
        """Forgets it, pinned or not; False if it is not here."""
        known = self._pinned.pop(constraint_id, None) or self._others.pop(constraint_id, None)
        if known is not None:
            known.pinned = False
        return known is not None


def _total_bytes(known: Mapping[str, Known]) -> int:
    return sum(each.nbytes for each in known.values())
