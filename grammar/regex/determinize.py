"""Subset construction over classes of characters, with assertions decided exactly.

A state of the result is a set of NFA states before their assertions are passed, plus what stands
to the left (edge of the text, line terminator, word character, other). What stands to the right
is known when the next character is read, or at the end, so the closure through assertions is
taken then: ``^``, ``$``, ``\\b`` and ``\\B`` hold exactly where they should, anywhere.
"""

from __future__ import annotations

import numpy as np

from grammar.automata import Ints, kernel, minimize_table, mixed, too_many_states
from grammar.options import Limits
from grammar.regex import charset
from grammar.regex.nfa import ASSERT, CHARS, FINAL, LOOK, SPLIT, Nfa
from grammar.regex.parse import EDGE, NEWLINE, OTHER, WORD
from grammar.regex.text import TextDfa, partition

_MAX_POOL = 1 << 26  # NFA states listed by all DFA states together
_KIND_CHARS = CHARS
_KIND_SPLIT = SPLIT
_KIND_ASSERT = ASSERT
_KIND_FINAL = FINAL


@kernel
def _follow(  # numba: no records
    kind: Ints, out1: Ints, out2: Ints, seed: int, seen: Ints, stamp: int, found: Ints, count: int,
    stack: Ints,
) -> int:  # fmt: skip
    """Append to ``found`` what ``seed`` reaches through splits; returns the new count."""
    top = 1
    stack[0] = seed
    while top > 0:
        top -= 1
        s = stack[top]
        while s >= 0 and seen[s] != stamp:
            seen[s] = stamp
            if kind[s] == _KIND_SPLIT:
                if out2[s] >= 0:
                    stack[top] = out2[s]
                    top += 1
                s = out1[s]
            else:
                found[count] = s
                count += 1
                s = -1
    return count


@kernel
def _sort(items: Ints, count: int) -> None:
    if count > 48:
        items[:count] = np.sort(items[:count])
        return
    for i in range(1, count):
        x = items[i]
        j = i - 1
        while j >= 0 and items[j] > x:
            items[j + 1] = items[j]
            j -= 1
        items[j + 1] = x


@kernel
def subset_kernel(  # noqa: C901 - one algorithm
    kind: Ints, arg: Ints, out1: Ints, out2: Ints, start: int, before_start: int,
    sink: int, member: Ints, context: Ints, max_states: int, max_pool: int,
) -> tuple[Ints, Ints, int]:  # fmt: skip
    """Determinise. ``member``: int32[sets, classes]; ``context``: int32[classes], 1..3;
    ``before_start``: what stands before the text, 0..3.

    Returns table int32[n, classes], accept and the start; start is -1 when over a bound.
    """
    n = len(kind)
    k = len(context)
    seen = np.zeros(n, dtype=np.int32)
    stamp = 0
    stack = np.empty(n + 1, dtype=np.int32)
    found = np.empty(n + 1, dtype=np.int32)
    closed = np.empty(n + 1, dtype=np.int32)
    pool = np.empty(1024, dtype=np.int32)
    capacity = 64
    begin = np.zeros(capacity + 1, dtype=np.int64)
    before = np.zeros(capacity, dtype=np.int32)
    table = np.zeros((capacity, k), dtype=np.int32)
    accept = np.full(capacity, -1, dtype=np.int32)
    slots = np.zeros(256, dtype=np.int32)
    hashes = np.zeros(capacity, dtype=np.int64)
    begin[1] = 0
    states = 1
    used = 0
    q = 0
    while q < states:
        asserts = False
        for i in range(begin[q], begin[q + 1]):
            if kind[pool[i]] == _KIND_ASSERT:
                asserts = True
        done_context = -1
        closed_count = 0
        for c in range(-1, k):
            if q == 0:
                if c >= 0:
                    break
                # Enter the start state.
                stamp += 1
                count = _follow(kind, out1, out2, start, seen, stamp, found, 0, stack)
                left = before_start
            else:
                right = 0 if c < 0 else context[c]
                if done_context < 0 or (asserts and right != done_context):
                    # The closure of q when ``right`` follows.
                    stamp += 1
                    done_context = right
                    closed_count = 0
                    for i in range(begin[q], begin[q + 1]):
                        seen[pool[i]] = stamp
                        closed[closed_count] = pool[i]
                        closed_count += 1
                    i = 0
                    while asserts and i < closed_count:
                        s = closed[i]
                        if kind[s] == _KIND_ASSERT and (arg[s] >> (4 * before[q] + right)) & 1:
                            closed_count = _follow(
                                kind, out1, out2, out1[s], seen, stamp, closed, closed_count, stack
                            )
                        i += 1
                if c < 0:
                    for i in range(closed_count):
                        if kind[closed[i]] == _KIND_FINAL:
                            accept[q] = 0
                    continue
                stamp += 1
                done_stamp = stamp
                count = 0
                for i in range(closed_count):
                    s = closed[i]
                    if kind[s] == _KIND_CHARS and member[arg[s], c] != 0:
                        count = _follow(
                            kind, out1, out2, out1[s], seen, done_stamp, found, count, stack
                        )
                left = right
                if sink >= 0 and seen[sink] == done_stamp:
                    stamp += 1
                    count = _follow(kind, out1, out2, sink, seen, stamp, found, 0, stack)
                    left = 3
                if count == 0:
                    continue
            # Look the set up.
            _sort(found, count)
            h = mixed(count, left)
            for i in range(count):
                h = mixed(h, found[i])
            mask = len(slots) - 1
            slot = h & mask
            target = 0
            while slots[slot] != 0:
                t = slots[slot]
                if hashes[t] == h and before[t] == left and begin[t + 1] - begin[t] == count:
                    same = True
                    for i in range(count):
                        if pool[begin[t] + i] != found[i]:
                            same = False
                            break
                    if same:
                        target = t
                        break
                slot = (slot + 1) & mask
            if target == 0:
                if states > max_states or used + count > max_pool:
                    return table, accept, -1
                if states + 1 >= capacity:
                    capacity *= 2
                    begin = np.append(begin, np.zeros(capacity + 1 - len(begin), dtype=np.int64))
                    before = np.append(before, np.zeros(capacity - len(before), dtype=np.int32))
                    hashes = np.append(hashes, np.zeros(capacity - len(hashes), dtype=np.int64))
                    longer = np.full(capacity, -1, dtype=np.int32)
                    longer[:states] = accept[:states]
                    accept = longer
                    wider = np.zeros((capacity, k), dtype=np.int32)
                    wider[:states] = table[:states]
                    table = wider
                while used + count > len(pool):
                    pool = np.append(pool, np.empty(len(pool), dtype=np.int32))
                target = states
                begin[target] = used
                for i in range(count):
                    pool[used + i] = found[i]
                used += count
                begin[target + 1] = used
                before[target] = left
                hashes[target] = h
                states += 1
                slots[slot] = target
                if states * 2 > len(slots):
                    slots = np.zeros(len(slots) * 2, dtype=np.int32)
                    mask = len(slots) - 1
                    for t in range(1, states):
                        slot = hashes[t] & mask
                        while slots[slot] != 0:
                            slot = (slot + 1) & mask
                        slots[slot] = t
            if q > 0:
                table[q, c] = target
        q += 1
    return table[:states].copy(), accept[:states].copy(), 1


def _masks(nfa: Nfa) -> set[int]:
    return {nfa.arg[s] for s, what in enumerate(nfa.kind) if what == ASSERT}


def contexts(nfa: Nfa) -> list[tuple[int, int]]:
    """What may stand before a match of ``nfa`` and matters to it: (assertion mask, kind)."""
    masks = _masks(nfa)
    if not masks:
        return [((1 << 16) - 1, OTHER)]
    newline, word = _distinguishes(masks)
    kinds = [EDGE, *[NEWLINE] * newline, *[WORD] * word]
    row = {kind: 0b1111 << (4 * kind) for kind in range(4)}
    others = sum(row[kind] for kind in range(4) if kind not in kinds)
    return [*((row[kind], kind) for kind in kinds), (others, OTHER)]


def determinize(nfa: Nfa, limits: Limits, before: int = EDGE) -> TextDfa:
    """The least text automaton of ``nfa`` (without lookaheads left in it).

    ``before``: what stands before the text. Raises TooComplex (max_dfa_states).
    """
    assert LOOK not in nfa.kind
    kind = np.array(nfa.kind, dtype=np.int32)
    arg = np.array(nfa.arg, dtype=np.int32)
    sets = list(nfa.sets)
    newline, word = _distinguishes(_masks(nfa))
    extra = [charset.LINE_TERMINATORS] * newline + [charset.WORD] * word
    parts, signatures = partition([*sets, *extra])
    member = np.array(
        [[(bits >> i) & 1 for bits in signatures] for i in range(len(sets))], dtype=np.int32
    ).reshape(len(sets), len(signatures))
    context = np.full(len(signatures), OTHER, dtype=np.int32)
    for c, bits in enumerate(signatures):
        if newline and (bits >> len(sets)) & 1:
            context[c] = NEWLINE
        elif word and (bits >> (len(sets) + newline)) & 1:
            context[c] = WORD
    table, accept, start = subset_kernel(
        kind,
        arg,
        np.array(nfa.out1, dtype=np.int32),
        np.array(nfa.out2, dtype=np.int32),
        nfa.start,
        before,
        nfa.sink,
        member,
        context,
        limits.max_dfa_states,
        _MAX_POOL,
    )
    if start < 0:
        raise too_many_states(limits, "the pattern")
    return TextDfa(parts, *minimize_table(table, accept, start)).merged()


def _distinguishes(masks: set[int]) -> tuple[bool, bool]:
    """Whether the assertions tell line terminators, and word characters, from others."""

    def differ(kind: int) -> bool:
        return any(
            (mask >> (4 * kind + other)) & 1 != (mask >> (4 * OTHER + other)) & 1
            or (mask >> (4 * other + kind)) & 1 != (mask >> (4 * other + OTHER)) & 1
            for mask in masks
            for other in (EDGE, NEWLINE, WORD, OTHER)
        )

    return differ(NEWLINE), differ(WORD)
