"""What comes of each keyword of a schema: enforced, an annotation, or refused, and why.

Nothing here knows what is enforced. A ``Document``, the reader that compiling uses, is watched
while it reads each keyword: what changes its node is enforced, what it refuses is refused, and
the rest is an annotation. The tables below are the history of JSON Schema only: where subschemas
stand and which draft has which keyword, for the words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Literal, NamedTuple, overload

from grammar.errors import GrammarError, TooComplex, Unsatisfiable, UnsupportedError
from grammar.options import JsonOptions, Limits
from grammar.schema.array_spec import ArraySpec
from grammar.schema.document import Document
from grammar.schema.goal import Goals
from grammar.schema.keywords import KEYWORDS, pointer_token
from grammar.schema.node import Node

Treatment = Literal["enforced", "annotation", "refused"]


class KeywordReport(NamedTuple):
    """One occurrence of a keyword. ``location``: JSON Pointer of the keyword itself."""

    location: str
    keyword: str
    treatment: Treatment
    reason: str


class _Note(NamedTuple):
    treatment: Treatment
    reason: str


class _Place(NamedTuple):
    """A JSON Pointer in pieces that others share."""

    inside: _Place | None
    last: str

    def __str__(self) -> str:
        pieces, here = [], self
        while here.inside is not None:
            pieces.append(here.last)
            here = here.inside
        return here.last + "".join(reversed(pieces))


_Record = tuple[_Place, str, _Note]


class Reports(Sequence[KeywordReport]):
    """Reports that are written out when looked at.

    Pointers go through keys as long as a caller likes: together they can be far longer than the
    schema, so whoever keeps reports keeps few.
    """

    def __init__(self, records: Sequence[_Record]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> KeywordReport: ...
    @overload
    def __getitem__(self, index: slice) -> Reports: ...
    def __getitem__(self, index: int | slice) -> KeywordReport | Reports:
        if isinstance(index, slice):
            return Reports(self._records[index])
        place, name, note = self._records[index]
        return KeywordReport(str(place), name, *note)

    def refused(self) -> Reports:
        """Those that are refused."""
        return Reports([record for record in self._records if record[2].treatment == "refused"])


_DRAFTS = {
    4: "draft 4",
    6: "draft 6",
    7: "draft 7",
    2019: "draft 2019-09",
    2020: "draft 2020-12",
}
#: Keywords that are read by the reader of another one.
_READ_WITH = {
    "then": "if",
    "else": "if",
    "minContains": "contains",
    "maxContains": "contains",
    "additionalItems": "items",
    "exclusiveMinimum": "minimum",  # in draft 4, where they are booleans
    "exclusiveMaximum": "maximum",
}
_SHELVES = ("$defs", "definitions")  # what is in them counts where it is referred to
_DESCRIBES = {
    *("title", "description", "default", "examples", "$comment", "readOnly", "writeOnly"),
    *("deprecated", "contentEncoding", "contentMediaType", "contentSchema"),
}
_NAMES = {
    *("$schema", "$id", "id", "$anchor", "$vocabulary", "$dynamicAnchor", "$recursiveAnchor"),
}
ENFORCED = "constrains the output"
#: Names of keywords that compiling enforces, in the drafts that have them.
ENFORCED_KEYWORDS = frozenset(
    {"$ref", *Document.READERS, *(a for a, b in _READ_WITH.items() if b in Document.READERS)}
    - _NAMES
)


def explain(
    schema_text: str | bytes, options: JsonOptions | None = None, limits: Limits | None = None
) -> list[KeywordReport]:
    """One report for each keyword in each position where its dialect has a subschema.

    In the order of the text; schemas that are only reached by a reference to somewhere else come
    last. ``refused`` appears exactly when compiling raises UnsupportedError; a schema that nothing
    refers to is listed as annotation. Raises ConstraintSyntaxError and TooComplex as compiling
    does while it reads the schema.
    """
    steps = explain_steps(schema_text, options, limits)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return list(end.value)


def explain_steps(
    schema_text: str | bytes, options: JsonOptions | None = None, limits: Limits | None = None
) -> Generator[None, None, Reports]:
    """As ``explain``; yields about every millisecond of work."""
    limits = limits or Limits()
    document = _Watched(schema_text, options or JsonOptions(), limits)
    yield from document.scan()
    yield from document.unfold(limits)
    return (yield from document.reports())


class _Watched(Document):
    """Writes down what comes of each keyword, and goes on behind one that is refused."""

    def __init__(self, text: str | bytes, options: JsonOptions, limits: Limits) -> None:
        self._notes: dict[int, dict[str, _Note]] = {}  # by identity of the schema, by keyword
        self._read_schemas: list[tuple[str, dict[str, Any]]] = []
        self._schema: dict[str, Any] = {}
        self._dialect_refused = ""
        self._has_refused = False
        self._compiled_patterns: set[str] = set()  # what Document takes for checked
        super().__init__(text, options, limits, self._compiled_patterns)

    # --- watching ---------------------------------------------------------------------------

    def _dialect(self) -> int:
        try:
            return super()._dialect()
        except UnsupportedError as error:
            self._dialect_refused = self._refusal(error).reason
            return max(_DRAFTS)

    def _read(self, schema: dict[str, Any], pointer: str, node: Node) -> None:
        self._schema = schema
        self._read_schemas.append((pointer, schema))
        notes = self._notes[id(schema)] = {}
        super()._read(schema, pointer, node)
        for name in schema:
            if name not in notes:
                notes[name] = _Note("annotation", "ignored beside $ref up to draft 7")
        self._note_companions(schema, notes)

    def _reference(self, uri: str, pointer: str, node: Node) -> None:
        try:
            super()._reference(uri, pointer, node)
        except GrammarError as error:
            note = self._refusal(error)
        else:
            note = _Note("enforced", "the schema it refers to applies here")
        self._notes[id(self._schema)]["$ref"] = note

    def _keyword(self, name: str, schema: dict[str, Any], pointer: str, node: Node) -> None:
        notes = self._notes[id(schema)]
        if name in notes:
            return
        probe, untouched = (Node(node.number, node.pointer) for _ in range(2))
        remarks = len(self.diagnostics)
        try:
            super()._keyword(name, schema, pointer, probe)
        except GrammarError as error:
            inner = error.location.removeprefix(f"{pointer}/{name}").lstrip("@")
            notes[name] = self._refusal(error, f" (at byte {inner} of it)" * inner.isdigit())
            return
        reasons = [message for _, _, message in self.diagnostics[remarks:]]
        effects = (key for key, value in vars(probe).items() if value != getattr(untouched, key))
        if next(effects, None) is None:
            reason = "; ".join(reasons) or self._idle(name, schema[name])
            notes[name] = _Note("annotation", reason)
        else:
            notes[name] = _Note("enforced", "; ".join([ENFORCED, *reasons]))
            if name == "pattern":  # compiling one takes long enough once
                self._compiled_patterns.add(f"checked:{schema[name]}")
            super()._keyword(name, schema, pointer, node)
            del self.diagnostics[remarks + len(reasons) :]

    def _refusal(self, error: GrammarError, where: str = "") -> _Note:
        """The note of what compiling refuses. Raises the error where it is another one.

        Behind a refusal, which ends compiling, another error can be its consequence: a reference
        into a schema whose ``$id`` was not resolved.
        """
        self._has_refused |= isinstance(error, UnsupportedError)
        if not self._has_refused:
            raise error
        return _Note("refused", error.message + where)

    def _idle(self, name: str, value: Any) -> str:
        """Why a keyword that did nothing did nothing."""
        known = KEYWORDS.get(name)
        if known is None:
            return "unknown keyword"
        if not known.since <= self.draft <= known.until:
            return f"not a keyword of {_DRAFTS[self.draft]}"
        if name in _DESCRIBES:
            return "describes, constrains nothing"
        if name in _NAMES:
            return "names or identifies the schema"
        if name in _SHELVES:
            return "holds schemas for references"
        if name in _READ_WITH and not isinstance(value, bool):
            return f"says nothing without `{_READ_WITH[name]}`"
        return "says nothing with this value"

    def _note_companions(self, schema: dict[str, Any], notes: dict[str, _Note]) -> None:
        for name, other in _READ_WITH.items():
            if name not in notes or other not in notes or not self._is_companion(name, schema):
                continue
            if notes[name].treatment == "annotation":
                notes[name] = _beside(notes[other], f"read with `{other}`")

    def _is_companion(self, name: str, schema: dict[str, Any]) -> bool:
        known = KEYWORDS[name]
        if "$ref" in schema and self.draft <= 7:
            return False
        if name == "additionalItems" and not isinstance(schema["items"], list):
            return False
        if name.startswith("exclusive") and not (self.draft == 4 and schema[name] is True):
            return False
        return known.since <= self.draft <= known.until

    def unfold(self, limits: Limits) -> Iterator[None]:
        """Note what compiling refuses when it unfolds references and combinators."""
        goals = Goals(limits)
        schemas = dict(self._read_schemas)
        for i, node in enumerate(self.all_nodes()):
            try:
                # Impossible or too large is not for this report to say: compiling does.
                with contextlib.suppress(Unsatisfiable, TooComplex, RecursionError):
                    goals.of([node])
                    if node.unique:
                        ArraySpec(0, [node], goals)
            except UnsupportedError as error:
                pointer, _, name = error.location.rpartition("/")
                self._notes[id(schemas[pointer])][name] = _Note("refused", error.message)
            if i % 50 == 49:
                yield

    # --- reporting --------------------------------------------------------------------------

    def reports(self) -> Generator[None, None, Reports]:
        """Every keyword, in the order of the text."""
        found: list[_Record] = []
        listed: set[int] = set()
        for pointer, schema in (("", self.schema), *self._read_schemas):
            if isinstance(schema, dict) and id(schema) not in listed:
                yield from self._report(schema, pointer, found, listed)
        return Reports(found)

    def _report(
        self, schema: dict[str, Any], pointer: str, found: list[_Record], listed: set[int]
    ) -> Generator[None, None, None]:
        """The keywords of a schema and of the schemas inside it, without recursion."""
        # What is left to do: (a schema, its place, a keyword or None for all of them, the note
        # that holds unless the schema was read).
        unused = _Note("annotation", "unused: nothing refers to this schema")
        stack: list[tuple[dict[str, Any], _Place, str | None, _Note]] = []
        stack.append((schema, _Place(None, pointer), None, unused))
        while stack:
            here, at, name, inherited = stack.pop()
            notes = self._notes.get(id(here))
            if name is None:
                if id(here) not in listed:
                    listed.add(id(here))
                    stack.extend((here, at, each, inherited) for each in reversed(here))
                continue
            note = inherited if notes is None else notes[name]
            if name == "$schema" and here is self.schema and self._dialect_refused:
                note = _Note("refused", self._dialect_refused)
            place = _Place(at, f"/{pointer_token(name)}")
            found.append((place, name, note))
            if len(found) % 1_000 == 0:
                yield
            inside = inherited if notes is None else _inside(name, note, unused)
            stack.extend(
                (sub, _Place(place, below) if below else place, None, inside)
                for below, sub in reversed(self._subschemas(name, here[name]))
            )

    def _subschemas(self, name: str, value: Any) -> list[tuple[str, dict[str, Any]]]:
        """(pointer below the keyword, schema) of those inside a keyword of this draft."""
        known = KEYWORDS.get(name)
        if known is None or not known.holds or not known.since <= self.draft <= known.until:
            return []
        if known.holds == "map" and isinstance(value, dict):
            members = [(f"/{pointer_token(key)}", sub) for key, sub in value.items()]
        elif known.holds == "list" and isinstance(value, list):
            members = [(f"/{i}", sub) for i, sub in enumerate(value)]
        else:
            members = [("", value)]
        return [(below, sub) for below, sub in members if isinstance(sub, dict)]


def _beside(note: _Note, reason: str) -> _Note:
    """The note of a keyword that belongs to another one, which alone is refused."""
    if note.treatment == "refused":
        return _Note("annotation", f"{reason}, which is refused")
    return _Note(note.treatment, reason)


def _inside(name: str, note: _Note, unused: _Note) -> _Note:
    """What holds inside a keyword for a schema that was not read."""
    if name in _SHELVES and note.treatment == "annotation":
        return unused
    if note.treatment == "refused":
        return _Note("annotation", f"inside `{name}`, which is refused")
    return _Note("annotation", f"inside `{name}`, which constrains nothing here")
