"""Matcher: one request's cursor through a grammar.

Its history is a linked list of immutable ``Link``s, so ``fork`` is O(1) and ``rollback`` follows
parents. What belongs to this request alone (additional keys already used) lives in the link's
``frames``, never in the shared arena.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from grammar import kernels
from grammar.arena import Arena, Config
from grammar.expected import expected
from grammar.item_mask import (
    after,
    goes_on,
    num_needed,
    openers_of,
    tokens_to_check,
)
from grammar.item_search import IMPOSSIBLE, completed, is_viable
from grammar.lexemes import KeyLexeme
from grammar.overlay import (
    Frames,
    Position,
    has_items,
    is_used_up,
    leave,
    num_used_keys,
    packed,
    step_byte,
    used_keys,
)
from grammar.witness import listed_endings, witness

if TYPE_CHECKING:
    from grammar.compiled import Grammar

Words = npt.NDArray[np.uint32]
MASK_CACHE_BYTES = 64 << 20  # of one grammar's arena
MAX_MOVES = 100_000  # remembered (config, token) steps of one arena, about 10 MB
MAX_DISTINCT = 1 << 13  # different configs after one token; more are sorted instead
LOOK_BACK = 4  # tokens that a longer token may swallow at the end of a forced run
MAX_FORCED_BYTES = 4096


class Link(NamedTuple):
    """One position of the history."""

    parent: Link | None
    text: bytes  # what led here
    config: Config
    frames: Frames
    ended: bool  # EOS was taken
    plan: tuple[int, ...] | None  # a certified completion, when known


class CachedMask(NamedTuple):
    """What an arena keeps of a config: the mask without budget, EOS and used keys.

    ``suspects``: allowed tokens with so many quotes that they could write two additional keys;
    ``openers``: those that could write two items of an array that they open.
    """

    words: Words
    accepting: bool
    in_open_key: bool
    suspects: tuple[int, ...]
    openers: tuple[int, ...]


class Matcher:
    """See ``grammar.md`` 3.14 for the interface. Not thread-safe; one owner."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._arena: Arena = grammar.arena
        self._vocabulary = grammar.vocabulary
        self._bounds = grammar.bounds
        self._root = Link(None, b"", grammar.root, (), ended=False, plan=None)
        self._link = self._root
        self._scratch = np.zeros(8, dtype=np.int64)
        #: Whether the budget of the last ``fill_mask`` narrowed the plain mask.
        self.steered = False

    # --- moving -----------------------------------------------------------------------------

    def advance(self, token: int) -> bool:
        """Take a token. False: not allowed, and nothing changed."""
        link = self._link
        if link.ended:
            return False
        vocabulary = self._vocabulary
        if token in vocabulary.special_ids:
            if token in vocabulary.eos_ids and self.is_complete:
                self._link = Link(link, b"", link.config, link.frames, ended=True, plan=())
                return True
            return False
        text = vocabulary.token_bytes(token) if token >= 0 else b""
        if not text:
            return False
        moved = self._moved(link, token)
        if moved is None:
            return False
        plan = link.plan[1:] if link.plan and link.plan[0] == token else None
        self._link = Link(link, text, moved[0], moved[1], ended=False, plan=plan)
        return True

    def advance_bytes(self, data: bytes) -> int:
        """Take bytes as far as they are allowed; returns how many were. One history step."""
        link = self._link
        if link.ended:
            return 0
        passed = [self._position(link)]
        for byte in data:
            moved = step_byte(self._arena, passed[-1], byte)
            if moved is None:
                break
            passed.append(moved)
        taken = self._last_viable(passed)
        if taken:
            config, frames, _ = passed[taken]
            self._link = Link(link, data[:taken], config, frames, ended=False, plan=None)
        return taken

    def _position(self, link: Link) -> Position:
        return link.config, link.frames, self._typed(link)

    def _is_viable(self, position: Position) -> bool:
        """Whether items that differ can complete it (whatever the tables say)."""
        return is_viable(self._arena, position, self._bounds.in_bytes)

    def _last_viable(self, passed: Sequence[Position]) -> int:
        """The index of the last position that is no dead end; the first one is none."""
        if self._is_viable(passed[-1]):
            return len(passed) - 1
        return bisect.bisect(passed[1:], 0, key=lambda position: not self._is_viable(position))

    def _moved(self, link: Link, token: int) -> tuple[Config, Frames] | None:
        """Config and frames after a token, None when it is not allowed."""
        arena, out = self._arena, self._scratch
        key = link.config << 20 | token
        known = arena.moves.get(key)
        if known is not None and not link.frames:
            return known, ()
        data, starts = self._vocabulary.blob, self._vocabulary.starts
        at, end = starts[token], starts[token + 1]
        config = link.config
        fresh = True
        while True:
            # An int in any case: shifted below, an int64 of numpy would lose its count.
            result = int(kernels.run(config, data, at, end, fresh, *arena.tables(), out))
            if result != kernels.MISS:
                break
            fresh = False
            arena.resolve(int(out[1]), int(out[2]), int(out[3]))
            config, at = int(out[4]), int(out[0])
        if result < 0:
            return None
        frames = link.frames
        if not out[5] and not (frames and (arena.has_thin_keys or has_items(frames))):
            if len(arena.moves) >= MAX_MOVES:
                arena.moves.clear()
            arena.moves[key] = result
            return result, leave(frames, int(out[6]) - 1) if frames else frames
        position = after(arena, self._position(link), self._vocabulary.token_bytes(token))
        if position is None or not self._is_viable(position):
            return None
        return position[0], packed(position[1])

    def _in_open_key(self, config: Config) -> bool:
        return bool(self._arena.flags[config & kernels.STATE_MASK] & kernels.OPEN_KEY)

    def _typed(self, link: Link) -> bytes | None:
        """The bytes of the open key being written, from the history; None outside of one."""
        if not self._in_open_key(link.config):
            return None
        parts: list[bytes] = []
        here: Link | None = link
        while here is not None and here.parent is not None:
            parts.append(here.text)
            here = here.parent
            if not self._in_open_key(here.config):
                break
        text = b"".join(reversed(parts))
        config = here.config if here is not None else link.config
        start: int | None = None
        for at, byte in enumerate(text):  # the key starts where an open key is entered last
            was_open = self._in_open_key(config)
            config = self._arena.step(config, byte)
            if not self._in_open_key(config):
                start = None
            elif not was_open:
                start = at + 1
        return None if start is None else text[start:]

    def rollback(self, count: int) -> None:
        """Undo the last ``count`` steps (EOS included). Raises ValueError beyond the start."""
        link: Link = self._link
        for _ in range(count):
            if link.parent is None:
                message = "rollback beyond the start"
                raise ValueError(message)
            link = link.parent
        self._link = link

    def fork(self) -> Matcher:
        """An independent matcher at the same position, in O(1)."""
        other = object.__new__(Matcher)
        other.__dict__.update(self.__dict__)
        other._scratch = np.zeros(8, dtype=np.int64)
        return other

    def at(self, link: Link) -> Matcher:
        """A matcher of the same grammar at a position that was read elsewhere."""
        other = self.fork()
        other.__dict__["_link"] = link
        return other

    def reset(self) -> None:
        """Back to the start."""
        self._link = self._root

    # --- asking -----------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether the text may stop here."""
        cached = self._arena.masks.get(self._link.config)
        return cached.accepting if cached else self._arena.accepting(self._link.config)

    @property
    def is_finished(self) -> bool:
        """Whether the text can only stop here."""
        link = self._link
        if link.ended:
            return True
        if not self.is_complete:
            return False
        return next(self._arena.live_bytes(link.config), None) is None

    @property
    def num_past_end(self) -> int | None:
        """Of a structural unit that has ended: bytes of the last step that lie beyond it."""
        end, link = self._arena.unit_end, self._link
        if end is None or link.config != end.state or link.parent is None:
            return None
        at, config = 0, link.parent.config
        while config != end.state and at < len(link.text):
            config = self._arena.step(config, link.text[at])
            at += 1
        if end.is_beyond:  # the whole character, of which earlier steps may hold some bytes
            at -= 1
            while at > 0 and link.text[at] & 0xC0 == 0x80:
                at -= 1
        return len(link.text) - at

    @property
    def min_tokens(self) -> int:
        """Tokens that suffice from here, EOS not counted: an upper bound, exact where small."""
        if self._link.ended:
            return 0
        return len(self._plan())

    def _plan(self) -> tuple[int, ...]:
        """The certified completion carried by this position; never longer than before."""
        link = self._link
        if link.plan is not None and self._bounds.exact is not None:
            return link.plan
        fresh = None
        if link.plan is None or len(link.plan) > self._bounds.in_tokens(link.config):
            fresh = tuple(self._fresh_plan())
        if fresh is None or (link.plan is not None and len(link.plan) <= len(fresh)):
            assert link.plan is not None
            return link.plan
        self._link = link._replace(plan=fresh)
        return fresh

    def _fresh_plan(self) -> list[int]:
        link = self._link
        if not self._keys_matter():
            return self._bounds.plan(link.config)
        return self._vocabulary.segment(self._private_witness())

    def _keys_matter(self) -> bool:
        """Whether used additional keys could forbid the shared witness."""
        return bool(self._link.frames) or self._in_open_key(self._link.config)

    def _private_witness(self) -> bytes:
        """The witness, with other keys where the shared one was already used."""
        link = self._link
        text = witness(self._arena, link.config)
        position = self._position(link)
        end = after(self._arena, position, text)
        if end is not None and self._arena.accepting(end[0]):
            return text
        return completed(self._arena, position, self._bounds.in_bytes)

    def _spare(self) -> int:
        """Bytes by which fresh keys can be longer than the shortest ones.

        The next shortest key is longer by a character, or where patterns bind keys by a round
        through the states of their automaton at most.
        """
        arena = self._arena
        used = num_used_keys(self._link.frames)
        in_the_way = used + arena.max_names + arena.max_fresh
        if arena.key_stretch > 1:
            in_the_way += 2
        return in_the_way * arena.max_fresh * arena.key_stretch

    def witness(self) -> bytes:
        """Bytes that complete the text from here."""
        return b"" if self._link.ended else self._private_witness()

    def key_endings(self, most: int) -> list[bytes]:
        """Inside a key: what ends it as one of the listed names, or as a nearest other key."""
        found = self._arena.lexeme_of(self._link.config & kernels.STATE_MASK)
        if found is None or not isinstance(found[0], KeyLexeme):
            return []
        lexeme, base = found[0], found[1]
        names = listed_endings(self._link.config, lexeme, base)[:most]
        if not lexeme.is_open:
            return names
        state = (self._link.config & kernels.STATE_MASK) - base
        return [*itertools.islice(lexeme.endings(state), 1), *names]

    def expected(self) -> tuple[str, ...]:
        """Words for what may come next: few, short, and nothing that may not."""
        link = self._link
        if link.ended:
            return ()
        if not link.frames:
            return expected(self._arena, link.config)
        position = self._position(link)

        def may(text: bytes) -> bool:
            end = after(self._arena, position, text)
            return end is not None and self._is_viable(end)

        return expected(self._arena, link.config, may)

    # --- masks ------------------------------------------------------------------------------

    def mask(self) -> Words:
        """A read-only view of the current mask."""
        row = np.zeros(self._vocabulary.words, dtype=np.uint32)
        self.fill_mask(row)
        row.flags.writeable = False
        return row

    def fill_mask(self, row: Words, budget: int | None = None) -> None:
        """Write the allowed tokens into ``row`` uint32[words] (bit i % 32 of word i // 32).

        With ``budget`` = R only tokens after which R - 1 tokens still complete the text; EOS
        is allowed exactly when ``is_complete`` and never counted.
        """
        link = self._link
        self.steered = False
        if link.ended:
            row[:] = 0
            return
        cached = self._cached(link.config)
        self._plain(link, cached, row)
        needs: dict[int, int] = {}
        if cached.openers or has_items(link.frames):
            needs = self._item_needs(link, row, budget, cached.openers)
            for token, need in needs.items():
                if need >= IMPOSSIBLE:
                    row[token >> 5] &= _without(token)
        if budget is not None:
            self._narrow(link, row, budget, needs)
        if cached.accepting:
            for word, bit in zip(
                self._vocabulary.eos_words, self._vocabulary.eos_bits, strict=True
            ):
                row[word] |= np.uint32(bit)

    def _cached(self, config: Config) -> CachedMask:
        arena = self._arena
        cached: CachedMask | None = arena.masks.get(config)
        if cached is None:
            words = self._compute(config)
            in_key = self._in_open_key(config)
            suspects: tuple[int, ...] = ()
            if arena.has_open_keys:
                quotes = (3 if in_key else 4) - arena.has_thin_keys
                suspects = self._allowed(self._vocabulary.with_quotes(quotes), words)
            openers: tuple[int, ...] = ()
            if arena.has_items:
                openers = self._allowed(openers_of(self._vocabulary), words)
            cached = CachedMask(words, arena.accepting(config), in_key, suspects, openers)
            if arena.mask_bytes + words.nbytes > MASK_CACHE_BYTES:
                arena.masks.clear()
                arena.mask_bytes = 0
            arena.masks[config] = cached
            arena.mask_bytes += words.nbytes
        return cached

    def _plain(self, link: Link, cached: CachedMask, row: Words) -> None:
        """The mask without budget or EOS, this request's used keys taken out."""
        row[:] = cached.words
        suspects = cached.suspects
        if link.frames:
            if cached.in_open_key:
                self._forbid_used_keys(link, row)
            else:
                suspects = self._whole_keys(link.config, row)
        for token in suspects:
            if self._moved(link, token) is None:
                row[token >> 5] &= _without(token)

    def _item_needs(
        self, link: Link, row: Words, budget: int | None, openers: Sequence[int]
    ) -> dict[int, int]:
        """Tokens that are still needed after each token that items could forbid."""
        arena, vocabulary = self._arena, self._vocabulary
        position = self._position(link)
        tokens = openers
        if has_items(link.frames):
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            tokens = tokens_to_check(arena, vocabulary, position, allowed)
        margin = self._margin() if arena.has_open_keys else 0
        most = None if budget is None else budget - 1 - margin
        estimate = self._bounds.in_bytes
        return {
            token: margin + num_needed(arena, vocabulary, position, token, estimate, most)
            for token in tokens
        }

    def _compute(self, config: Config) -> Words:
        arena, vocabulary = self._arena, self._vocabulary
        found = arena.lexeme_of(config & kernels.STATE_MASK)
        if found is None:
            return arena.walk(vocabulary, config, collect=False).words
        lexeme, base = found
        local = (config & kernels.STATE_MASK) - base
        contextual = False
        owner = lexeme
        if isinstance(lexeme, KeyLexeme):
            # Names may lead where no other key does: there the shared mask is not the whole.
            bound = lexeme.left is not None and local >= lexeme.trie_base
            if bound or not lexeme.is_open:
                return arena.walk(vocabulary, config, collect=False).words
            if local >= lexeme.trie_base:
                local = int(lexeme.generic_state[local - lexeme.trie_base])
                contextual = True
            assert lexeme.shared is not None
            owner = lexeme.shared
        inside = owner.inside_mask(local, vocabulary)
        if inside is None:
            return arena.walk(vocabulary, config, collect=False).words
        rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
        high = int(arena.rps[rp, kernels.MAX])
        if high < kernels.MAX_COUNT and lexeme.max_need:
            room = high - (config >> kernels.COUNT_SHIFT) - lexeme.max_need
            if room < inside.max_chars:
                return arena.walk(vocabulary, config, collect=False).words
            words = inside.words.copy()
        elif high < kernels.MAX_COUNT:
            words = inside.at_most(high - (config >> kernels.COUNT_SHIFT)).copy()
        else:
            words = inside.words.copy()
        jobs = np.empty(
            (len(inside.exits), 4), dtype=np.int64
        )  # not shared: threads share lexemes
        count = kernels.exit_jobs(
            inside.exits, len(inside.exits), base, config, contextual, inside.paths,
            arena.table, jobs,
        )  # fmt: skip
        arena.walk(vocabulary, config, words, jobs[:count], collect=False)
        return words

    def _forbid_used_keys(self, link: Link, row: Words) -> None:
        """Inside a key: clear the tokens that would close it as one that was used."""
        rp = (link.config >> kernels.RP_SHIFT) & kernels.RP_MASK
        used = used_keys(link.frames, self._arena.owners[rp].depth)
        typed = (self._typed(link) or b"") if used else b""
        for key in used:
            if key.startswith(typed):
                self._clear_subtree(row, self._dead_end(link, key, len(typed)))

    def _dead_end(self, link: Link, key: bytes, depth: int) -> bytes:
        """What must not follow ``key[:depth]``: the closing quote of a used key, or less where
        all that could come has been used."""
        config = link.config
        if self._arena.has_thin_keys:
            for at in range(depth, len(key)):
                config = self._arena.step(config, key[at])
                if config < 0:
                    break
                if is_used_up(self._arena, config, link.frames, key[: at + 1]):
                    return key[depth : at + 1]
        return key[depth:] + b'"'

    def _whole_keys(self, config: Config, row: Words) -> tuple[int, ...]:
        """The allowed tokens that write an additional key whole."""
        memo = self._arena.whole_keys
        if config not in memo:
            if self._arena.has_thin_keys:
                return self._allowed(self._vocabulary.with_quotes(1), row)
            tokens = self._allowed(self._vocabulary.with_quotes(2), row)
            memo[config] = tuple(t for t in tokens if self._keys_of(config, t))
        return memo[config]

    def _keys_of(self, config: Config, token: int) -> list[bytes]:
        keys = []
        position: Position = (config, (), None)
        for byte in self._vocabulary.token_bytes(token):
            after = step_byte(self._arena, (position[0], (), position[2]), byte)
            if after is None:
                break
            if position[2] is not None and after[1]:
                keys.append(position[2])
            position = after
        return keys

    def _allowed(self, tokens: npt.NDArray[np.int64], row: Words) -> tuple[int, ...]:
        bits = (row[tokens >> 5] >> (tokens & 31).astype(np.uint32)) & np.uint32(1)
        return tuple(tokens[bits != 0].tolist())

    def _clear_subtree(self, row: Words, prefix: bytes) -> None:
        vocabulary = self._vocabulary
        node = vocabulary.find(prefix)
        if node < 0:
            return
        tokens = (vocabulary.node[node : vocabulary.skip[node]] >> 32) - 1
        for first in tokens[tokens >= 0].tolist():
            token = first
            while token >= 0:
                row[token >> 5] &= _without(token)
                token = int(vocabulary.duplicate[token])

    def _narrow(self, link: Link, row: Words, budget: int, needs: dict[int, int]) -> None:
        """Keep the tokens after which ``budget - 1`` tokens complete the text.

        ``needs``: how many they are, of tokens where the tables do not say it.
        """
        if budget > self._longest(link.config) + self._margin():
            self.steered = self._clear_beyond(row, budget, needs)
            return
        before = row.copy()
        ends = self._bounds.ends(link.config)
        configs = np.zeros(MAX_DISTINCT, dtype=np.int64)
        index = np.zeros(len(ends), dtype=np.int64)
        count = kernels.distinct(ends, configs, index)
        if count < 0:
            configs, index = np.unique(ends, return_inverse=True)
            count = len(configs)
        need = self._need
        if has_items(link.frames) and goes_on(self._arena, self._position(link)):
            need = self._bounds.in_bytes  # the items to come are others, in other tokens
        fits = [c >= 0 and need(c) <= budget - 1 for c in configs[:count].tolist()]
        bits = np.zeros(len(row) * 32, dtype=np.bool_)
        bits[: len(index)] = np.array([*fits, False], dtype=np.bool_)[index]
        bits[[token for token, need in needs.items() if need < IMPOSSIBLE]] = True
        row &= np.packbits(bits, bitorder="little").view(np.uint32)
        self._clear_beyond(row, budget, needs)
        plan = self._plan()
        if plan and len(plan) <= budget:
            row[plan[0] >> 5] |= before[plan[0] >> 5] & ~_without(plan[0])
        self.steered = bool((row != before).any())

    def _clear_beyond(self, row: Words, budget: int, needs: dict[int, int]) -> bool:
        """Clear the tokens that need too many after them; returns whether there was one."""
        cleared = False
        for token, need in needs.items():
            if budget <= need < IMPOSSIBLE:
                row[token >> 5] &= _without(token)
                cleared = True
        return cleared

    def _need(self, config: Config) -> int:
        need = self._bounds.in_tokens(config)
        if self._arena.has_open_keys and self._before_key_end(config):
            need += self._margin()
        return need

    def _before_key_end(self, config: Config) -> bool:
        """Whether the next key of the witness could be one that was used already."""
        state = config & kernels.STATE_MASK
        found = self._arena.lexeme_of(state)
        if found is not None:
            return isinstance(found[0], KeyLexeme)
        place = self._arena.places.get(state)
        return place is not None and place.starts_key

    def _margin(self) -> int:
        return self._spare() if self._keys_matter() else 0

    def _longest(self, config: Config) -> int:
        """Bytes that complete the text after any allowed token, plus one."""
        arena = self._arena
        # Fewer characters so far allow more tokens: the count that allows all of them stands
        # for every one above the least length.
        rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
        count = min(config >> kernels.COUNT_SHIFT, int(arena.rps[rp, kernels.MIN]))
        key = config & ((1 << kernels.COUNT_SHIFT) - 1) | count << kernels.COUNT_SHIFT
        found = arena.bounds.get(key)
        if found is None:
            ends = arena.walk(self._vocabulary, key).ends
            found = 1 << 40
            if ends is not None and not any(map(self._ends_by_count, ends)):
                found = 1 + max(map(self._bounds.in_bytes, ends), default=0)
            arena.bounds[key] = found
        return found

    def _ends_by_count(self, config: Config) -> bool:
        """Whether the shortest way on depends on how many characters there are already."""
        found = self._arena.lexeme_of(config & kernels.STATE_MASK)
        return found is not None and found[0].max_need > 0

    def fill_penalizable(self, row: Words) -> None:
        """Bits of the tokens whose choice is content: those that stay inside a string."""
        row[:] = 0
        config = self._link.config
        found = self._arena.lexeme_of(config & kernels.STATE_MASK)
        if found is None or not found[0].is_closed or isinstance(found[0], KeyLexeme):
            if self._arena.graph is not None:
                row[:] = self._cached(config).words
            return
        lexeme, base = found
        inside = lexeme.inside_mask((config & kernels.STATE_MASK) - base, self._vocabulary)
        if inside is not None:
            row[:] = inside.words

    # --- forced -----------------------------------------------------------------------------

    def forced_bytes(self) -> tuple[bytes, Config]:
        """The bytes that must come next, and the config after them."""
        config = self._link.config
        out = bytearray()
        if not self._link.ended:
            while len(out) < MAX_FORCED_BYTES:
                forced = self._forced_step(config)
                if forced is None:
                    break
                byte, config = forced
                out.append(byte)
        return bytes(out), config

    def _forced_step(self, config: Config) -> tuple[int, Config] | None:
        memo = self._arena.forced
        if config not in memo:
            found = None
            if not self._arena.accepting(config):
                live = self._arena.live_bytes(config)
                found = next(live, None)
                if found is not None and next(live, None) is not None:
                    found = None
            memo[config] = found
        return memo[config]

    def forced_tokens(self, budget: int | None = None) -> list[int]:
        """Tokens that spell the bytes that must come next (may be empty).

        Canonical segmentation where it fits the budget, else the fewest tokens. Tokens at the
        end that a longer allowed token could replace are left out: they are a choice.
        """
        text, config = self.forced_bytes()
        if not text or self._keys_matter():
            return []
        for tokens in (self._canonical(text), self._vocabulary.segment(text)):
            kept = tokens[: self._settled(tokens, text, config)]
            if not kept or budget is None or self._fits(kept, budget):
                return kept
        return []

    def _fits(self, tokens: Sequence[int], budget: int) -> bool:
        after = self.fork()
        for token in tokens:
            assert after.advance(token), "a forced token was refused"
        return len(tokens) + after.min_tokens <= budget

    def _canonical(self, text: bytes) -> list[int]:
        vocabulary = self._vocabulary
        if vocabulary.encode is not None:
            try:
                tokens = vocabulary.encode(text.decode())
            except UnicodeDecodeError:
                tokens = []
            if b"".join(map(vocabulary.token_bytes, tokens)) == text:
                return tokens
        return vocabulary.segment(text)

    def _settled(self, tokens: Sequence[int], text: bytes, config: Config) -> int:
        """How many leading tokens no longer allowed token can replace."""
        vocabulary, arena = self._vocabulary, self._arena
        keep = len(tokens)
        start = len(text)
        for back in range(1, min(LOOK_BACK, len(tokens)) + 1):
            start -= len(vocabulary.token_bytes(tokens[-back]))
            node = vocabulary.find(text[start:])
            if node < 0 or vocabulary.skip[node] == node + 1:
                continue
            job = [node + 1, int(vocabulary.skip[node]), len(text) - start, config]
            words = arena.walk(vocabulary, config, None, np.array([job]), collect=False).words
            if words.any():
                keep = len(tokens) - back
        return keep


def _without(token: int) -> np.uint32:
    return np.uint32(~(1 << (token & 31)) & 0xFFFFFFFF)
