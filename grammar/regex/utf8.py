"""The byte codes of characters as a trie: UTF-8, JSON's ``\\uXXXX`` and short escapes.

A node is a row of 256 entries: 0 no such code, n > 0 on to node n, -1 - c a complete code of a
character of class c. Blocks of code points that lie in one class share their nodes, so a trie
has a few dozen nodes however many characters the classes have.
"""

from __future__ import annotations

import numpy as np

from grammar.automata import Ints, Longs, kernel, mixed

# Levels, named by what is still to come. U: UTF-8 continuation bytes; H: hexadecimal digits of
# \uXXXX; P: the rest of a surrogate pair, in order: 3 digits, "\", "u", "D", 3 digits.
_ROOT, _U1, _U2, _U3, _BACKSLASH, _H4, _H3, _H2, _H1 = range(9)
_P1 = 9  # .. _P1 + 7
_LEVELS = 17
#: Code points below a node of each level.
_SPAN = np.array(
    [1 << bits for bits in (0, 6, 12, 18, 0, 0, 12, 8, 4, 18, 14, 10, 10, 10, 10, 8, 4)],
    dtype=np.int64,
)
#: Bytes still to come, at most: children are lower than their parents.
_HEIGHT = np.array([12, 1, 2, 3, 11, 10, 9, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1], dtype=np.int32)


@kernel
def _class_at(starts: Ints, classes: Ints, code: int) -> tuple[int, int]:
    """The class of a code point, and the first code point after its interval."""
    i = np.searchsorted(starts, code, side="right") - 1
    end = starts[i + 1] if i + 1 < len(starts) else 0x110000
    return classes[i], end


@kernel
def _node(  # numba: no records
    level: int, base: int, starts: Ints, classes: Ints, spans: Longs, shared: Ints, levels: Ints,
    bases: Longs, owners: Ints, count: Longs,
) -> int:  # fmt: skip
    """The node for the block at ``base``: a shared one, a new one, or 0 if nothing is in it."""
    special = (
        (level == _U2 and (base == 0 or base == 0xD000))
        or (level == _U3 and (base == 0 or base == 0x100000))
        or (level == _H3 and base == 0xD000)
        or level == _H4
    )
    kind = -2
    if not special:
        found, end = _class_at(starts, classes, base)
        if end >= base + spans[level]:
            kind = found
    if kind == -1:
        return 0
    if kind >= 0 and shared[level, kind] != 0:
        return int(shared[level, kind])
    new = count[0]
    count[0] += 1
    levels[new] = level
    bases[new] = base
    owners[new] = kind if kind >= 0 else -1
    if kind >= 0:
        shared[level, kind] = new
    return int(new)


@kernel
def _hex_byte(digit: int, upper: bool) -> int:
    return digit + (48 if digit < 10 else 55 if upper else 87)


@kernel
def code_kernel(  # noqa: C901 - one walk over the levels
    starts: Ints, classes: Ints, hex_starts: Ints, hex_classes: Ints, short: Ints,
    num_classes: int, any_case: bool, spans: Longs, heights: Ints,
) -> tuple[Ints, Ints, Ints, Ints]:  # fmt: skip
    """The trie of all codes; node 1 is the root.

    ``starts``/``classes``: characters spelled raw, as UTF-8; ``hex_*``: those spelled \\uXXXX
    (class -1: not so). ``short``: int32[256] class of the character that ``\\`` + byte spells,
    or -1. Returns rows, level, owner (class of a block that is in one class, else -1), height.
    """
    size = _LEVELS * (len(starts) + len(hex_starts) + num_classes) + 64
    rows = np.zeros((size, 256), dtype=np.int32)
    levels = np.zeros(size, dtype=np.int32)
    bases = np.zeros(size, dtype=np.int64)
    owners = np.full(size, -1, dtype=np.int32)
    shared = np.zeros((_LEVELS, num_classes), dtype=np.int32)
    count = np.full(1, 2, dtype=np.int64)
    levels[1] = _ROOT
    node = 1
    while node < count[0]:
        level = levels[node]
        base = bases[node]
        row = rows[node]
        if level == _ROOT:
            for b in range(0x80):
                row[b] = -1 - _class_at(starts, classes, b)[0]
            for b in range(0xC2, 0xF5):
                if b < 0xE0:
                    child, at = _U1, (b & 0x1F) << 6
                elif b < 0xF0:
                    child, at = _U2, (b & 0x0F) << 12
                else:
                    child, at = _U3, (b & 0x07) << 18
                row[b] = _node(
                    child, at, starts, classes, spans, shared, levels, bases, owners, count
                )
            row[0x5C] = -1 - _class_at(starts, classes, 0x5C)[0]
            uses_hex = len(hex_starts) > 1 or hex_classes[0] >= 0
            if uses_hex or short.max() >= 0:
                row[0x5C] = count[0]
                levels[count[0]] = _BACKSLASH
                count[0] += 1
        elif level == _U1:
            for b in range(64):
                row[0x80 + b] = -1 - _class_at(starts, classes, base + b)[0]
        elif level in (_U2, _U3):
            step = 6 if level == _U2 else 12
            for b in range(64):
                at = base + (b << step)
                if level == _U2 and (at < 0x800 or 0xD800 <= at < 0xE000):
                    continue
                if level == _U3 and (at < 0x10000 or at >= 0x110000):
                    continue
                row[0x80 + b] = _node(
                    level - 1, at, starts, classes, spans, shared, levels, bases, owners, count
                )
        elif level == _BACKSLASH:
            for b in range(256):
                if short[b] >= 0:
                    row[b] = -1 - short[b]
            if len(hex_starts) > 1 or hex_classes[0] >= 0:
                row[0x75] = _node(
                    _H4, 0, hex_starts, hex_classes, spans, shared, levels, bases, owners, count
                )
        elif _P1 + 2 <= level <= _P1 + 4:
            child = _node(
                level + 1, base, hex_starts, hex_classes, spans, shared, levels, bases, owners,
                count,
            )  # fmt: skip
            if level == _P1 + 2:
                row[0x5C] = child
            elif level == _P1 + 3:
                row[0x75] = child
            else:
                row[0x64] = child
                if any_case:
                    row[0x44] = child
        else:
            for x in range(16):
                target = 0
                if level == _H1 or level == _LEVELS - 1:
                    target = -1 - _class_at(hex_starts, hex_classes, base + x)[0]
                else:
                    child = level + 1
                    at = base
                    if level == _H4:
                        at = x << 12
                    elif level == _H3 and base == 0xD000 and x >= 8:
                        if x >= 12:
                            continue
                        child = _P1
                        at = 0x10000 + ((x - 8) << 18)
                    elif level == _H3:
                        at = base + (x << 8)
                    elif level == _H2:
                        at = base + (x << 4)
                    elif level == _P1:
                        at = base + (x << 14)
                    elif level == _P1 + 1:
                        at = base + (x << 10)
                    elif level == _P1 + 5:
                        if x < 12:
                            continue
                        at = base + ((x - 12) << 8)
                    else:
                        at = base + (x << 4)
                    target = _node(
                        child, at, hex_starts, hex_classes, spans, shared, levels, bases, owners,
                        count,
                    )  # fmt: skip
                row[_hex_byte(x, False)] = target
                if any_case:
                    row[_hex_byte(x, True)] = target
        node += 1
    n = count[0]
    height = np.empty(n, dtype=np.int32)
    for i in range(n):
        height[i] = heights[levels[i]]
    return rows[:n].copy(), levels[:n].copy(), owners[:n].copy(), height


@kernel
def expand_kernel(  # noqa: C901 - one algorithm
    rows: Ints, levels: Ints, owners: Ints, order: Ints, text: Ints, max_states: int
) -> Ints:
    """int32[states, 256]: the text automaton ``text`` with each character spelled by the trie.

    States below len(text) keep their numbers. ``order``: nodes of the trie, children first, the
    root last. States with equal rows are one. An empty result: over ``max_states``.
    """
    n = len(text)
    nodes = len(rows)
    # The trie's entries, without the zeros.
    heads = np.zeros(nodes + 1, dtype=np.int64)
    for i in range(nodes):
        heads[i + 1] = heads[i] + np.count_nonzero(rows[i])
    entry_byte = np.empty(heads[nodes], dtype=np.int32)
    entry_child = np.empty(heads[nodes], dtype=np.int32)
    for i in range(nodes):
        at = heads[i]
        for b in range(256):
            if rows[i, b] != 0:
                entry_byte[at] = b
                entry_child[at] = rows[i, b]
                at += 1
    capacity = n + 64
    table = np.zeros((capacity, 256), dtype=np.int32)
    hashes = np.zeros(capacity, dtype=np.int64)
    slots = np.zeros(512, dtype=np.int32)
    states = n
    memo = np.zeros((_LEVELS, n), dtype=np.int32)
    state_of = np.zeros(nodes, dtype=np.int32)
    row = np.zeros(256, dtype=np.int32)
    for q in range(1, n):
        for i in range(len(order)):
            node = order[i]
            owner = owners[node]
            target = 0
            if owner >= 0:
                target = text[q, owner]
                if target == 0 or memo[levels[node], target] != 0:
                    state_of[node] = memo[levels[node], target] if target != 0 else 0
                    continue
            h = 0
            live = False
            for at in range(heads[node], heads[node + 1]):
                child = entry_child[at]
                to = state_of[child] if child > 0 else text[q, -1 - child]
                row[entry_byte[at]] = to
                if to != 0:
                    live = True
                    h = mixed(mixed(h, entry_byte[at]), to)
            if node == 1:
                table[q] = row
                for at in range(heads[node], heads[node + 1]):
                    row[entry_byte[at]] = 0
                continue
            state = 0
            if live:
                mask = len(slots) - 1
                slot = h & mask
                while slots[slot] != 0:
                    t = slots[slot]
                    if hashes[t] == h and np.array_equal(table[t], row):
                        state = t
                        break
                    slot = (slot + 1) & mask
                if state == 0:
                    if states > max_states:
                        return table[:0].copy()
                    if states == capacity:
                        capacity *= 2
                        wider = np.zeros((capacity, 256), dtype=np.int32)
                        wider[:states] = table
                        table = wider
                        longer = np.zeros(capacity, dtype=np.int64)
                        longer[:states] = hashes
                        hashes = longer
                    state = states
                    table[state] = row
                    hashes[state] = h
                    slots[slot] = state
                    states += 1
                    if (states - n) * 2 > len(slots):
                        slots = np.zeros(len(slots) * 2, dtype=np.int32)
                        mask = len(slots) - 1
                        for t in range(n, states):
                            slot = hashes[t] & mask
                            while slots[slot] != 0:
                                slot = (slot + 1) & mask
                            slots[slot] = t
            for at in range(heads[node], heads[node + 1]):
                row[entry_byte[at]] = 0
            state_of[node] = state
            if owner >= 0:
                memo[levels[node], target] = state
    return table[:states].copy()


SPANS = _SPAN
HEIGHTS = _HEIGHT
