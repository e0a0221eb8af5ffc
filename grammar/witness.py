"""Certified completions: for every config, concrete bytes that end the text.

Every state was only made reachable because it has such a completion (no dead ends by
construction); this module writes it down. ``Bounds`` turns it into tokens: exact for grammars
with few configs (choices, small regexes, enums), else the fewest tokens that spell the witness.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Container, Generator, Iterator

import numpy as np

from grammar import kernels
from grammar.arena import Arena, Config, Place
from grammar.lexemes import KeyLexeme, Lexeme
from grammar.overlay import Position, step_byte, used_keys
from grammar.vocabulary import Vocabulary

EXACT_CONFIGS = 3_000  # configs an exact search may visit: about 10 ms
EXACT_STATES = 3_000  # states it may make: of schemas, about 50 microseconds each
EXPLORE_SLICE = 10  # configs between two turns for others
EXACT_TOKENS = 100_000  # tokens it may find allowed, over all configs: about as long
FEW_BYTES = 72  # a state with more live bytes makes an exact search too wide


def witness(arena: Arena, config: Config) -> bytes:
    """A shortest completion known for ``config``; b"" where the text may end."""
    state = config & kernels.STATE_MASK
    found = arena.lexeme_of(state)
    if found is None:
        return _structural(arena, state)
    lexeme, base = found
    if isinstance(lexeme, KeyLexeme):
        text, target = _finish_key(arena, config, lexeme, base)
    else:
        text, target = _finish_lexeme(arena, config, lexeme, base)
    return text + _structural(arena, target)


def _structural(arena: Arena, state: int) -> bytes:
    """Completion of a structural state; every one on the way is cached."""
    if arena.graph is not None:
        return arena.graph.shortest(state)
    chain: list[tuple[Place, bytes]] = []
    rest = b""
    here: int | None = state
    while here is not None:
        place = arena.places[here]
        cached = place.rest
        if cached is not None:
            rest = cached
            break
        text, here = place.way(arena)
        chain.append((place, text))
    for waiting, text in reversed(chain):
        rest = text + rest
        if len(rest) <= 4096:  # longer ones are rare, and the copies would add up
            waiting.rest = rest
    return rest


def _finish_lexeme(arena: Arena, config: Config, lexeme: Lexeme, base: int) -> tuple[bytes, int]:
    """Bytes that end a scalar, and the structural state then."""
    out = bytearray()
    rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
    low = int(arena.rps[rp, kernels.MIN])
    left, at = b"", 0  # the shortest way out, and how far along it we are
    while True:
        state = config & kernels.STATE_MASK
        count = config >> kernels.COUNT_SHIFT
        if arena.flags[state] & kernels.COUNTED and count < low:
            byte, left = lexeme.filler[0], b""
        else:
            at += 1
            if at >= len(left):
                left, at = lexeme.shortest(state - base), 0
            if not left:  # a number that may end here
                code = int(arena.table[state * 256 + 0x2C])
                label = kernels.REDO - code
                offset = int(arena.rps[rp, kernels.OFFSET]) + label
                if arena.returns[offset] == kernels.UNKNOWN:
                    arena.resolve(kernels.MISS_RETURN, rp, label)
                return bytes(out), int(arena.returns[offset])
            byte = left[at]
            if arena.step(config, byte) < 0:  # fewest bytes, but too many characters
                byte, left = _other_byte(arena, config, lexeme, base), b""
        config = arena.step(config, byte)
        assert config >= 0, "the witness of a lexeme was refused"
        out.append(byte)
        if arena.flags[config & kernels.STATE_MASK] & kernels.STRUCTURAL:
            return bytes(out), config & kernels.STATE_MASK


def _other_byte(arena: Arena, config: Config, lexeme: Lexeme, base: int) -> int:
    """The allowed byte that is nearest to the end of a bounded string."""

    def left(pair: tuple[int, Config]) -> int:
        state = (pair[1] & kernels.STATE_MASK) - base
        return int(lexeme.distance[state]) if state < len(lexeme.rows) else 0

    return min(arena.live_bytes(config), key=left)[0]


def _finish_key(
    arena: Arena,
    config: Config,
    lexeme: KeyLexeme,
    base: int,
    taken: Container[bytes] = (),
    typed: bytes = b"",
) -> tuple[bytes, int]:
    """Bytes that end a key, and the structural state then.

    ``taken``: keys that are not listed and have been used; ``typed``: this one so far.
    """
    for text in key_endings(config, lexeme, base):
        here = config
        for byte in text:
            here = arena.step(here, byte)
            if here < 0:
                break
        else:
            state = here & kernels.STATE_MASK
            is_other = arena.flags[state] & kernels.ADDITIONAL
            if not is_other or typed + text[:-1] not in taken:
                return text, state
    message = "a key without an ending"
    raise AssertionError(message)


def key_endings(config: Config, lexeme: KeyLexeme, base: int) -> Iterator[bytes]:
    """Candidates, shorter ones first: the listed names below, and other keys."""
    names = listed_endings(config, lexeme, base)
    if not lexeme.is_open:
        return iter(names)
    return heapq.merge(lexeme.endings((config & kernels.STATE_MASK) - base), names, key=len)


def listed_endings(config: Config, lexeme: KeyLexeme, base: int) -> list[bytes]:
    """What ends a key as one of the listed names, shorter ones first."""
    state = (config & kernels.STATE_MASK) - base
    names: list[bytes] = []
    if state >= lexeme.trie_base:
        low, high = lexeme.span[state - lexeme.trie_base].tolist()
        for k in range(low, high):
            name = lexeme.names[int(lexeme.order[k])]
            depth = _depth_below(lexeme, name, state)
            names.append(name[depth:] + b'"')
    return sorted(names, key=len)


def private_witness(arena: Arena, position: Position) -> bytes:
    """A completion that repeats no key which this request has used."""
    out = bytearray()
    while True:
        config, frames, typed = position
        state = config & kernels.STATE_MASK
        found = arena.lexeme_of(state)
        if found is None:
            place = arena.places[state]
            taken = used_keys(frames, place.depth) if place.depth is not None else frozenset()
            text, target = place.way(arena, taken)
            if target is None:
                return bytes(out)
        elif isinstance(found[0], KeyLexeme):
            rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
            taken = used_keys(frames, arena.owners[rp].depth)
            text, target = _finish_key(arena, config, found[0], found[1], taken, typed or b"")
        else:
            text, target = _finish_lexeme(arena, config, *found)
        out += text
        for byte in text:
            after = step_byte(arena, position, byte)
            assert after is not None, "a private witness was refused"
            position = after
        if found is not None and target is not None:
            position = (target, position[1], None)  # numbers end without a byte of their own


def _depth_below(lexeme: KeyLexeme, name: bytes, state: int) -> int:
    here = lexeme.trie_base
    for depth, byte in enumerate(name):
        if here == state:
            return depth
        here = int(lexeme.rows[here, byte])
    return len(name)


class Bounds:
    """Tokens still needed from a config: an upper bound, exact for small grammars."""

    def __init__(self, arena: Arena, vocabulary: Vocabulary, root: Config) -> None:
        self.arena = arena
        self.vocabulary = vocabulary
        self._root = root
        self._bytes: dict[Config, int] = {}
        self._tokens: dict[Config, int] = {}
        self._explored = False
        self._exact: dict[Config, int] | None = None

    @property
    def exact(self) -> dict[Config, int] | None:
        """Exact distances of every config, when there are few."""
        if not self._explored:
            for _ in self.explore():
                pass
        return self._exact

    def explore(self) -> Iterator[None]:
        """Look for the exact distances; yields between slices of work of about a millisecond."""
        edges = yield from self._explore(self._root)
        if not self._explored:
            self._exact = None if edges is None else _distances(self.arena, edges)
            self._explored = True

    def in_bytes(self, config: Config) -> int:
        """Length of the witness: an upper bound on ``in_tokens``."""
        graph = self.arena.graph
        if graph is not None:
            return graph.num_bytes_left(config & kernels.STATE_MASK)
        found = self._bytes.get(config)
        if found is None:
            found = self._bytes[config] = len(witness(self.arena, config))
        return found

    def in_tokens(self, config: Config) -> int:
        """Tokens that suffice to complete the text (EOS not counted)."""
        if self.exact is not None and config in self.exact:
            return self.exact[config]
        found = self._tokens.get(config)
        if found is None:
            if len(self._tokens) > 100_000:
                self._tokens.clear()
            text = witness(self.arena, config)
            found = self._tokens[config] = self.vocabulary.count_tokens(text)
        return found

    def plan(self, config: Config) -> list[int]:
        """Tokens that complete the text, ``in_tokens`` of them."""
        if self.exact is None or config not in self.exact:
            return self.vocabulary.segment(witness(self.arena, config))
        out: list[int] = []
        while self.exact[config] > 0:
            ends = self.ends(config)
            token = next(
                int(t)
                for t in np.flatnonzero(ends >= 0)
                if self.exact[int(ends[t])] == self.exact[config] - 1
            )
            out.append(token)
            config = int(ends[token])
        return out

    def ends(self, config: Config) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """int64[logit_size]: the config after each token, -1 where it is not allowed.

        Every miss below ``config`` must be resolved (its mask was computed).
        """
        v = self.vocabulary
        ends = np.full(v.logit_size, -1, dtype=np.int64)
        kernels.walk_ends(config, v.node, v.skip, v.duplicate, *self.arena.tables(), ends)
        return ends

    def _explore(self, root: Config) -> Generator[None, None, dict[Config, list[Config]] | None]:
        """Token edges by breadth-first search over configs, or None when there are many."""
        arena = self.arena
        edges: dict[Config, list[Config]] = {}
        queue = deque([root])
        num_allowed = 0
        most_states = arena.num_states + EXACT_STATES
        while queue:
            config = queue.popleft()
            if config in edges:
                continue
            if len(edges) % EXPLORE_SLICE == EXPLORE_SLICE - 1:
                yield
            if arena.num_states > most_states:
                return None
            state = config & kernels.STATE_MASK
            row = arena.table[state * 256 : state * 256 + 256]
            if len(edges) >= EXACT_CONFIGS or np.count_nonzero(row) >= FEW_BYTES:
                return None
            if (row == kernels.SPACE).any():
                return None
            words, after = arena.walk(self.vocabulary, config)
            if arena.has_items:  # a way may repeat an item
                return None
            num_allowed += int(np.bitwise_count(words).sum())
            if after is None or num_allowed > EXACT_TOKENS:
                return None
            if any(arena.flags[c & kernels.STATE_MASK] & kernels.COUNTED for c in after):
                return None
            edges[config] = after
            queue.extend(after)
        return edges


def _distances(arena: Arena, edges: dict[Config, list[Config]]) -> dict[Config, int]:
    before: dict[Config, list[Config]] = {config: [] for config in edges}
    for config, after in edges.items():
        for target in after:
            before[target].append(config)
    distance = {config: 0 for config in edges if arena.accepting(config)}
    queue = deque(distance)
    while queue:
        config = queue.popleft()
        for earlier in before[config]:
            if earlier not in distance:
                distance[earlier] = distance[config] + 1
                queue.append(earlier)
    return distance
