"""Grammar = constraint x vocabulary, compiled, with the tables its matchers share."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Literal, NamedTuple

from grammar.arena import Arena, Config
from grammar.dfa import Dfa
from grammar.errors import ConstraintSyntaxError, TooComplex
from grammar.graph import Graph, choice_dfa, live_only
from grammar.longest import longest_of_dfa, longest_of_schema
from grammar.matcher import Matcher, Words
from grammar.options import JsonOptions, Limits
from grammar.regex import compile_regex as regex_dfa
from grammar.respell import Canonical
from grammar.schema.places import Root, Value
from grammar.schema.program import Program
from grammar.units import Unit, unit_steps
from grammar.vocabulary import Vocabulary
from grammar.witness import Bounds

Kind = Literal["json_schema", "regex", "choice", "unit"]


class Shortest(NamedTuple):
    """A shortest output known: its tokens and bytes."""

    tokens: list[int]
    text: bytes


class Diagnostic(NamedTuple):
    """A remark about a constraint; ``code`` is stable, ``location`` a JSON Pointer."""

    code: str  # OBJECT_CLOSED, FORMAT_ANNOTATED, FORMAT_UNKNOWN
    location: str
    message: str


class Grammar:
    """A compiled constraint. Matchers of one grammar share its lazily grown arena.

    An arena over its limit is retired: live matchers keep it, new ones get a fresh one.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        source: Program | Dfa | Unit,
        limits: Limits,
        lexemes: dict[str, Dfa],
    ) -> None:
        self.vocabulary = vocabulary
        self.limits = limits
        #: Automata that this compile built; give them to ``lexemes=`` elsewhere.
        self.lexemes = lexemes
        self.diagnostics: list[Diagnostic] = []
        if isinstance(source, Program):
            self.diagnostics = [Diagnostic(*d) for d in source.document.diagnostics]
        #: How JSON is spelled when there is a choice; None where the text is not JSON.
        self.canonical = _canonical(source) if isinstance(source, Program) else None
        self._source = source
        self._retired_pruned = 0
        self.renew()

    def __del__(self) -> None:
        # Matchers keep their grammar, so nobody can use the program any more.
        if isinstance(getattr(self, "_source", None), Program):
            self._source.release()  # type: ignore[union-attr]

    def renew(self) -> None:
        """Start a fresh arena."""
        self.arena, self.root = _fresh(self._source)
        self.bounds = Bounds(self.arena, self.vocabulary, self.root)

    @property
    def pruned(self) -> int:
        """Transitions that a limit made dead although the constraint allows them."""
        own = 0
        if isinstance(self._source, Program):
            own = self._source.pruned + self._source.scalars.pruned + self._source.goals.pruned
        return own + self.arena.pruned + self._retired_pruned

    @property
    def has_items(self) -> bool:
        """Whether some array takes only different items."""
        if not isinstance(self._source, Program):
            return False
        return any(node.unique for node in self._source.document.all_nodes())

    @property
    def nbytes(self) -> int:
        """Bytes of the current tables and cached masks, about."""
        return self.arena.nbytes

    def matcher(self) -> Matcher:
        """A cursor at the start."""
        if self.arena.nbytes > self.limits.max_arena_bytes:
            self._retired_pruned += self.arena.pruned
            self.renew()
        return Matcher(self)

    @property
    def shortest(self) -> Shortest:
        """A shortest output known."""
        tokens = self.bounds.plan(self.root)
        return Shortest(tokens, b"".join(map(self.vocabulary.token_bytes, tokens)))

    @property
    def min_tokens(self) -> int:
        """Tokens that suffice for an output (EOS not counted): an upper bound, exact if small."""
        return self.bounds.in_tokens(self.root)

    def prepare(self) -> Iterator[None]:
        """Work out the bounds that ``min_tokens`` needs; yields about every millisecond."""
        yield from self.bounds.explore()

    @property
    def max_tokens(self) -> int | None:
        """Most tokens an output can take, an upper bound; None when infinite or hard to say."""
        if isinstance(self._source, Dfa):
            return longest_of_dfa(self._source)
        if not isinstance(self._source, Program):
            return None  # text before a unit has no bound
        return longest_of_schema(*_fresh(self._source))


def _fresh(source: Program | Dfa | Unit) -> tuple[Arena, Config]:
    """An arena, and where a text starts in it."""
    if not isinstance(source, Program | Dfa):
        return source.fresh()
    if isinstance(source, Dfa):
        arena = Arena()
        return arena, Graph(arena, source).root
    arena = Arena(source.options.max_whitespace_run if source.flexible else 0)
    root = Root(source, arena.number("root"), source.root, 0, merged=True)
    return arena, arena.place("value", lambda: Value(root, space=False))


def _canonical(program: Program) -> Canonical:
    return Canonical(
        program.comma,
        program.colon,
        ascii_only=program.options.ascii_only,
        plain_integers=program.scalars.plain_integers,
    )


# --- compiling --------------------------------------------------------------------------------


def compile_steps(
    kind: Kind,
    text: str | bytes,
    choices: Sequence[str],
    vocabulary: Vocabulary,
    options: JsonOptions | None = None,
    limits: Limits | None = None,
    lexemes: dict[str, Dfa] | None = None,
    *,
    eager: bool = False,
) -> Generator[None, None, Grammar]:
    """Compile in slices: yields about every millisecond of work, returns the Grammar.

    ``text``: the schema, the pattern, or the name of a unit (``grammar.units.UNITS``).
    ``lexemes``: automata another process built for the same constraint and vocabulary (its
    ``Grammar.lexemes``), which are then not built again. ``eager``: build the automata of every
    string and number now, also of parts that may never be visited, for such another process.
    Raises GrammarError subclasses.
    """
    limits = limits or Limits()
    if kind == "json_schema":
        shipped = lexemes or {}
        options = options or JsonOptions()
        program = Program(text, vocabulary, options, limits, shipped, eager=eager)
        yield from program.load()
        return Grammar(vocabulary, program, limits, program.scalars.built)
    if kind == "unit":
        name = text if isinstance(text, str) else text.decode()
        unit, built = yield from unit_steps(name, vocabulary, limits, lexemes or {}, eager=eager)
        return Grammar(vocabulary, unit, limits, built)
    whole = (lexemes or {}).get("whole")
    if whole is not None:
        return Grammar(vocabulary, whole, limits, {"whole": whole})
    if kind == "regex":
        dfa = _regex(text, vocabulary, limits)
    else:
        dfa = choice_dfa(choices, vocabulary, limits)
    yield
    return Grammar(vocabulary, dfa, limits, {"whole": dfa})


def _regex(text: str | bytes, vocabulary: Vocabulary, limits: Limits) -> Dfa:
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            message = f"not UTF-8 at byte {error.start}"
            raise ConstraintSyntaxError(message, f"@{error.start}") from None
    if len(text.encode("utf-8", "surrogatepass")) > limits.max_regex_bytes:
        message = f"longer than {limits.max_regex_bytes} bytes"
        raise TooComplex(message, "@0", "max_regex_bytes")
    return live_only(regex_dfa(text, limits=limits), vocabulary)


def _run(steps: Generator[None, None, Grammar]) -> Grammar:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            grammar: Grammar = end.value
            return grammar


def compile_json_schema(
    text: str | bytes,
    vocabulary: Vocabulary,
    options: JsonOptions | None = None,
    limits: Limits | None = None,
    lexemes: dict[str, Dfa] | None = None,
) -> Grammar:
    """A JSON Schema, as JSON text. Raises GrammarError subclasses."""
    return _run(compile_steps("json_schema", text, (), vocabulary, options, limits, lexemes))


def compile_regex(
    pattern: str | bytes,
    vocabulary: Vocabulary,
    limits: Limits | None = None,
    lexemes: dict[str, Dfa] | None = None,
) -> Grammar:
    """A regular expression that the whole output matches. Raises GrammarError subclasses."""
    return _run(compile_steps("regex", pattern, (), vocabulary, None, limits, lexemes))


def compile_choice(
    choices: Sequence[str],
    vocabulary: Vocabulary,
    limits: Limits | None = None,
    lexemes: dict[str, Dfa] | None = None,
) -> Grammar:
    """One of some texts. Raises GrammarError subclasses."""
    return _run(compile_steps("choice", "", choices, vocabulary, None, limits, lexemes))


def compile_unit(name: str, vocabulary: Vocabulary, limits: Limits | None = None) -> Grammar:
    """Free text up to the end of a unit, one of ``UNITS``. Raises GrammarError subclasses."""
    return _run(compile_steps("unit", name, (), vocabulary, None, limits))


def fill_masks(matchers: Sequence[Matcher], rows: Words, budgets: Sequence[int | None]) -> None:
    """``fill_mask`` for a batch: rows uint32[len(matchers), words]."""
    for i, (matcher, budget) in enumerate(zip(matchers, budgets, strict=True)):
        matcher.fill_mask(rows[i], budget)
