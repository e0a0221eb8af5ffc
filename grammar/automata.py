"""Operations on deterministic automata: trim, minimise, product, distances, tries.

The kernels work on any ``int32[n, k]`` transition table whose state 0 is dead, with one accept
label per state (-1: not accepting). Byte automata have k = 256; the text automata of
``grammar.regex`` have one column per class of characters and share the kernels.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from grammar.dfa import Dfa
from grammar.errors import TooComplex
from grammar.options import Limits

F = TypeVar("F", bound=Callable[..., object])
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

EMPTY = Dfa(np.zeros((1, 256), dtype=np.int32), np.full(1, -1, dtype=np.int32), 0)


def kernel(function: F) -> F:
    """``numba.njit`` with this project's settings; the type of the function is kept."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))


def too_many_states(limits: Limits, what: str) -> TooComplex:
    """The error for an automaton that outgrows ``max_dfa_states``."""
    message = f"{what} needs more than {limits.max_dfa_states} states"
    return TooComplex(message, limit="max_dfa_states")


@kernel
def mixed(h: int, x: int) -> int:
    """Hash step: 31 bits in, 31 bits out, no product over 63 bits (also without the JIT)."""
    h = ((int(h) ^ int(x)) * 0x9E3779B1) & 0x7FFFFFFF
    return h ^ (h >> 15)


# --- Kernels ------------------------------------------------------------------------------------


@kernel
def distances_kernel(table: Ints, accept: Ints) -> Ints:  # noqa: C901 - one search
    """int32[n]: fewest steps from each state to an accepting one, -1 where there is no way.

    Breadth-first search over the reversed edges; runs of equal targets in a row count once.
    """
    n, k = table.shape
    heads = np.zeros(n + 1, dtype=np.int64)
    for s in range(1, n):
        last = 0
        for c in range(k):
            t = table[s, c]
            if t != last and t != 0:
                heads[t + 1] += 1
            last = t
    for t in range(n):
        heads[t + 1] += heads[t]
    sources = np.empty(heads[n], dtype=np.int32)
    fill = heads[:n].copy()
    for s in range(1, n):
        last = 0
        for c in range(k):
            t = table[s, c]
            if t != last and t != 0:
                sources[fill[t]] = s
                fill[t] += 1
            last = t
    distance = np.full(n, -1, dtype=np.int32)
    queue = np.empty(n, dtype=np.int32)
    tail = 0
    for s in range(1, n):
        if accept[s] >= 0:
            distance[s] = 0
            queue[tail] = s
            tail += 1
    head = 0
    while head < tail:
        t = queue[head]
        head += 1
        for i in range(heads[t], heads[t + 1]):
            s = sources[i]
            if distance[s] < 0:
                distance[s] = distance[t] + 1
                queue[tail] = s
                tail += 1
    return distance


@kernel
def count_words_kernel(table: Ints, accept: Ints, most: int) -> Longs:  # noqa: C901 - one search
    """int64[n]: words accepted from each state (at most ``most``), -1 where they do not end.

    Every state must lead to an accepting one (trimmed). Kahn's algorithm on reversed edges: a
    state that no cycle is reachable from is finished after all its successors.
    """
    n, k = table.shape
    heads = np.zeros(n + 1, dtype=np.int64)
    left = np.zeros(n, dtype=np.int64)
    for s in range(1, n):
        for c in range(k):
            t = table[s, c]
            if t != 0:
                heads[t + 1] += 1
                left[s] += 1
    for t in range(n):
        heads[t + 1] += heads[t]
    sources = np.empty(heads[n], dtype=np.int32)
    fill = heads[:n].copy()
    for s in range(1, n):
        for c in range(k):
            t = table[s, c]
            if t != 0:
                sources[fill[t]] = s
                fill[t] += 1
    words = np.full(n, -1, dtype=np.int64)
    words[0] = 0
    total = np.zeros(n, dtype=np.int64)
    queue = np.empty(n, dtype=np.int32)
    tail = 0
    for s in range(1, n):
        if left[s] == 0:
            queue[tail] = s
            tail += 1
    head = 0
    while head < tail:
        t = queue[head]
        head += 1
        words[t] = min(most, total[t] + (1 if accept[t] >= 0 else 0))
        for i in range(heads[t], heads[t + 1]):
            s = sources[i]
            total[s] = min(most, total[s] + words[t])
            left[s] -= 1
            if left[s] == 0:
                queue[tail] = s
                tail += 1
    return words


@kernel
def _reachable_live(table: Ints, distance: Ints, start: int) -> Ints:
    """int32[n]: new number of each state that is live and reachable from ``start``, else 0."""
    n, k = table.shape
    number = np.zeros(n, dtype=np.int32)
    if start == 0 or distance[start] < 0:
        return number
    queue = np.empty(n, dtype=np.int32)
    number[start] = 1
    queue[0] = start
    tail = 1
    head = 0
    while head < tail:
        s = queue[head]
        head += 1
        last = 0
        for c in range(k):
            t = table[s, c]
            if t != last and t != 0 and number[t] == 0 and distance[t] >= 0:
                queue[tail] = t
                tail += 1
                number[t] = tail
            last = t
    return number


@kernel
def _renumbered(table: Ints, accept: Ints, number: Ints, size: int) -> tuple[Ints, Ints]:
    """The automaton whose state ``number[s]`` stands for every ``s`` with that number."""
    n, k = table.shape
    new_table = np.zeros((size, k), dtype=np.int32)
    new_accept = np.full(size, -1, dtype=np.int32)
    for s in range(1, n):
        q = number[s]
        if q != 0:
            new_accept[q] = accept[s]
            for c in range(k):
                new_table[q, c] = number[table[s, c]]
    return new_table, new_accept


@kernel
def blocks_kernel(table: Ints, accept: Ints) -> tuple[Ints, int]:  # noqa: C901 - one algorithm
    """int32[n] block of equivalent states (0 for the dead state), and the number of blocks + 1.

    Hopcroft's partition refinement for partial automata (Valmari & Lehtinen 2008): every state
    but 0 must be live, edges to 0 count as absent.
    """
    n, k = table.shape
    # Sources of (class, target), as lists in one array.
    heads = np.zeros(k * n + 1, dtype=np.int64)
    for s in range(1, n):
        for c in range(k):
            if table[s, c] != 0:
                heads[c * n + table[s, c] + 1] += 1
    for i in range(k * n):
        heads[i + 1] += heads[i]
    sources = np.empty(heads[k * n], dtype=np.int32)
    fill = heads[: k * n].copy()
    for s in range(1, n):
        for c in range(k):
            if table[s, c] != 0:
                i = c * n + table[s, c]
                sources[fill[i]] = s
                fill[i] += 1
    # The partition: ``members`` grouped by block, first[b]..end[b]; the marked ones come first.
    members = (np.argsort(accept[1:], kind="mergesort") + 1).astype(np.int32)
    place = np.zeros(n, dtype=np.int32)
    block = np.zeros(n, dtype=np.int32)
    first = np.zeros(n + 1, dtype=np.int32)
    end = np.zeros(n + 1, dtype=np.int32)
    marked = np.zeros(n + 1, dtype=np.int32)
    blocks = 0
    for i in range(n - 1):
        s = members[i]
        if i == 0 or accept[s] != accept[members[i - 1]]:
            blocks += 1
            first[blocks] = i
        end[blocks] = i + 1
        block[s] = blocks
        place[s] = i
    work = np.empty(n + 1, dtype=np.int32)
    todo = 0
    for b in range(1, blocks + 1):
        work[todo] = b
        todo += 1
    splitter = np.empty(n, dtype=np.int32)
    touched = np.empty(n + 1, dtype=np.int32)
    while todo > 0:
        todo -= 1
        b = work[todo]
        size = end[b] - first[b]
        for i in range(size):
            splitter[i] = members[first[b] + i]
        for c in range(k):
            hit = 0
            for i in range(size):
                edge = c * n + splitter[i]
                for j in range(heads[edge], heads[edge + 1]):
                    s = sources[j]
                    d = block[s]
                    if marked[d] == 0:
                        touched[hit] = d
                        hit += 1
                    at = first[d] + marked[d]
                    other = members[at]
                    here = place[s]
                    members[at] = s
                    members[here] = other
                    place[s] = at
                    place[other] = here
                    marked[d] += 1
            for i in range(hit):
                d = touched[i]
                m = marked[d]
                marked[d] = 0
                if m == end[d] - first[d]:
                    continue
                blocks += 1
                e = blocks
                # The smaller part becomes the new block.
                if m * 2 <= end[d] - first[d]:
                    first[e] = first[d]
                    end[e] = first[d] + m
                    first[d] += m
                else:
                    first[e] = first[d] + m
                    end[e] = end[d]
                    end[d] = first[e]
                for j in range(first[e], end[e]):
                    block[members[j]] = e
                # If d still waits, both parts do now; if not, the smaller one is enough.
                work[todo] = e
                todo += 1
    return block, blocks + 1


@kernel
def column_classes_kernel(table: Ints) -> tuple[Ints, int]:
    """int32[k] class of each column (equal columns share one, in order of first appearance)."""
    n, k = table.shape
    hashes = np.zeros(k, dtype=np.int64)
    for s in range(n):
        for c in range(k):
            hashes[c] = mixed(hashes[c], table[s, c])
    result = np.zeros(k, dtype=np.int32)
    firsts = np.empty(k, dtype=np.int32)
    count = 0
    for c in range(k):
        found = -1
        for d in range(count):
            if hashes[firsts[d]] == hashes[c]:
                same = True
                for s in range(n):
                    if table[s, firsts[d]] != table[s, c]:
                        same = False
                        break
                if same:
                    found = d
                    break
        if found < 0:
            found = count
            firsts[count] = c
            count += 1
        result[c] = found
    return result, count


@kernel
def _hash_row(row: Ints) -> int:
    h = 0
    for i in range(len(row)):
        h = mixed(h, row[i])
    return h


@kernel
def product_kernel(  # noqa: C901 - one algorithm
    table: Ints, accept: Ints, offsets: Longs, starts: Ints, required: int, max_states: int
) -> tuple[Ints, Ints, int]:
    """All tuples of states reachable together.

    ``table``/``accept``: the members' rows one below the other, member j from ``offsets[j]``.
    ``required``: bit set of members whose death kills the tuple. Returns table, bit set of
    accepting members per state (0: none) and the start; start is -1 when over ``max_states``.
    """
    m = len(starts)
    k = table.shape[1]
    capacity = 64
    tuples = np.zeros((capacity, m), dtype=np.int32)
    out = np.zeros((capacity, k), dtype=np.int32)
    labels = np.zeros(capacity, dtype=np.int32)
    slots = np.zeros(256, dtype=np.int32)
    count = 1
    current = starts.copy()
    start = 0
    q = 0
    c = k  # the first "transition" enters the start
    while q < count:
        if c == k:
            if q > 0 or count > 1:
                q += 1
                if q >= count:
                    break
                c = 0
            if q > 0:
                label = 0
                for j in range(m):
                    if tuples[q, j] != 0 and accept[offsets[j] + tuples[q, j]] >= 0:
                        label |= 1 << j
                labels[q] = label
        if q > 0:
            for j in range(m):
                s = tuples[q, j]
                current[j] = table[offsets[j] + s, c] if s != 0 else 0
        alive = False
        for j in range(m):
            if current[j] != 0:
                alive = True
            elif (required >> j) & 1:
                alive = False
                break
        target = 0
        if alive:
            mask = len(slots) - 1
            slot = _hash_row(current) & mask
            while slots[slot] != 0:
                same = True
                for j in range(m):
                    if tuples[slots[slot], j] != current[j]:
                        same = False
                        break
                if same:
                    target = slots[slot]
                    break
                slot = (slot + 1) & mask
            if target == 0:
                if count > max_states:
                    return out, labels, -1
                if count == capacity:
                    capacity *= 2
                    grown = np.zeros((capacity, m), dtype=np.int32)
                    grown[:count] = tuples
                    tuples = grown
                    wider = np.zeros((capacity, k), dtype=np.int32)
                    wider[:count] = out
                    out = wider
                    longer = np.zeros(capacity, dtype=np.int32)
                    longer[:count] = labels
                    labels = longer
                target = count
                tuples[target] = current
                count += 1
                slots[slot] = target
                if count * 2 > len(slots):
                    bigger = np.zeros(len(slots) * 2, dtype=np.int32)
                    mask = len(bigger) - 1
                    for i in range(1, count):
                        slot = _hash_row(tuples[i]) & mask
                        while bigger[slot] != 0:
                            slot = (slot + 1) & mask
                        bigger[slot] = i
                    slots = bigger
        if q == 0:
            start = target
            if target == 0:
                break
        else:
            out[q, c] = target
            c += 1
    return out[:count].copy(), labels[:count].copy(), start


@kernel
def _trie_kernel(blob: Bytes, ends: Longs, max_states: int) -> tuple[Ints, Ints, int]:
    """Table, label (index of the first equal string) and number of states; 0 when over."""
    capacity = 64
    table = np.zeros((capacity, 256), dtype=np.int32)
    accept = np.full(capacity, -1, dtype=np.int32)
    count = 2
    begin = 0
    for i in range(len(ends)):
        s = 1
        for p in range(begin, ends[i]):
            t = table[s, blob[p]]
            if t == 0:
                if count > max_states:
                    return table, accept, 0
                if count == capacity:
                    capacity *= 2
                    wider = np.zeros((capacity, 256), dtype=np.int32)
                    wider[:count] = table
                    table = wider
                    longer = np.full(capacity, -1, dtype=np.int32)
                    longer[:count] = accept
                    accept = longer
                t = count
                table[s, blob[p]] = t
                count += 1
            s = t
        if accept[s] < 0:
            accept[s] = i
        begin = ends[i]
    return table[:count].copy(), accept[:count].copy(), count


# --- On tables of any width ---------------------------------------------------------------------


def trim_table(table: Ints, accept: Ints, start: int) -> tuple[Ints, Ints, int]:
    """Only states that are reachable and live, numbered breadth-first from the start (1)."""
    number = _reachable_live(table, distances_kernel(table, accept), start)
    size = int(number.max(initial=0)) + 1
    table, accept = _renumbered(table, accept, number, size)
    return table, accept, int(size > 1)


def minimize_table(table: Ints, accept: Ints, start: int) -> tuple[Ints, Ints, int]:
    """The least automaton with the same labels, numbered breadth-first. Trims first."""
    table, accept, start = trim_table(table, accept, start)
    if start == 0:
        return table, accept, start
    block, size = blocks_kernel(table, accept)
    if size < len(accept):
        table, accept = _renumbered(table, accept, block, size)
        start = int(block[start])
        number = _reachable_live(table, np.zeros(size, dtype=np.int32), start)
        table, accept = _renumbered(table, accept, number, size)
    return table, accept, 1


# --- On byte automata ---------------------------------------------------------------------------


def trim(dfa: Dfa) -> Dfa:
    """The same language with only live, reachable states."""
    return Dfa(*trim_table(dfa.table, dfa.accept, dfa.start))


def minimize(dfa: Dfa) -> Dfa:
    """The least automaton for the same language and labels."""
    classes, count = column_classes_kernel(dfa.table)
    firsts = np.zeros(count, dtype=np.int64)
    firsts[classes[::-1]] = np.arange(255, -1, -1)
    narrow = np.ascontiguousarray(dfa.table[:, firsts])
    table, accept, start = minimize_table(narrow, dfa.accept, dfa.start)
    return Dfa(np.ascontiguousarray(table[:, classes]), accept, start)


def distances(dfa: Dfa) -> Ints:
    """int32[n]: fewest bytes from each state to an accepting one; -1 from the dead state."""
    return distances_kernel(dfa.table, dfa.accept)


def count_words(dfa: Dfa) -> Longs:
    """int64[n]: words accepted from each state, at most 2**31; -1 where they do not end.

    The automaton must be trimmed.
    """
    return count_words_kernel(dfa.table, dfa.accept, 1 << 31)


def shortest_words(
    table: Ints, accepting: npt.NDArray[np.bool_], distance: Ints, start: int
) -> Iterator[bytes]:
    """The words accepted from a state, shorter ones first (A* on the distance to the end).

    ``table``: int[n, 256], at most 0 where dead; ``distance``: as of ``distances``.
    """
    if not start or distance[start] < 0:
        return
    order = itertools.count()
    ways: dict[int, list[tuple[int, int, int]]] = {}  # of a state: (price, byte, state after)
    #: (length of the best word of this kind, tie, word so far, state, which of its ways is next)
    heap = [(int(distance[start]), next(order), b"", start, -1)]
    while heap:
        _, _, word, state, way = heapq.heappop(heap)
        if state not in ways:
            ways[state] = _ways(table[state], distance)
        if way < 0:  # first the word itself, where it is one; then its continuations
            if accepting[state]:
                yield word
            way = 0
        elif way < len(ways[state]):
            _, byte, after = ways[state][way]
            heapq.heappush(
                heap,
                (
                    len(word) + 1 + int(distance[after]),
                    next(order),
                    word + bytes([byte]),
                    after,
                    -1,
                ),
            )
            way += 1
        if way < len(ways[state]):
            price = len(word) + 1 + ways[state][way][0]
            heapq.heappush(heap, (price, next(order), word, state, way))


def _ways(row: Ints, distance: Ints) -> list[tuple[int, int, int]]:
    """Where a row leads: the nearest to the end first, then letters (people read the words)."""
    live = np.flatnonzero(row > 0).tolist()
    found = [(int(distance[row[byte]]), byte, int(row[byte])) for byte in live]
    return sorted(found, key=lambda way: (way[0], not 0x61 <= way[1] <= 0x7A, way[1]))


def product(
    dfas: Sequence[Dfa],
    keep: Callable[[int], bool],
    *,
    required: int = 0,
    limits: Limits | None = None,
) -> Dfa:
    """Run all automata together; the accept label is the bit set of the accepting members.

    ``keep(bits)`` says whether a state with that set accepts. ``required``: bit set of members
    without which nothing is kept (their death prunes the search). At most 31 members; their own
    labels are not looked at beyond >= 0. Minimised. Raises ``TooComplex`` (max_dfa_states).
    """
    assert 0 < len(dfas) <= 31
    limits = limits or Limits()
    stacked = np.concatenate([dfa.table for dfa in dfas])
    classes, count = column_classes_kernel(stacked)
    firsts = np.zeros(count, dtype=np.int64)
    firsts[classes[::-1]] = np.arange(255, -1, -1)
    accept = np.concatenate([dfa.accept for dfa in dfas])
    sizes = [dfa.num_states for dfa in dfas]
    offsets = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    starts = np.array([dfa.start for dfa in dfas], dtype=np.int32)
    narrow = np.ascontiguousarray(stacked[:, firsts])
    table, accept, start = product_table(
        narrow, accept, offsets, starts, keep, required=required, limits=limits
    )
    return Dfa(np.ascontiguousarray(table[:, classes]), accept, start)


def product_table(
    table: Ints,
    accept: Ints,
    offsets: Longs,
    starts: Ints,
    keep: Callable[[int], bool],
    *,
    required: int,
    limits: Limits,
) -> tuple[Ints, Ints, int]:
    """``product`` on stacked tables with common columns; minimised."""
    if table.shape[1] == 0:
        table = np.zeros((len(table), 1), dtype=np.int32)
    table, labels, start = product_kernel(
        table, accept, offsets, starts, required, limits.max_dfa_states
    )
    if start < 0:
        raise too_many_states(limits, "the combination of automata")
    verdict = {bits: bits if keep(bits) else -1 for bits in set(labels.tolist())}
    accept = np.array([verdict[bits] for bits in labels.tolist()], dtype=np.int32)
    accept[0] = -1
    return minimize_table(table, accept, start)


def _unlabelled(dfa: Dfa) -> Dfa:
    return minimize(Dfa(dfa.table, np.minimum(dfa.accept, 0), dfa.start))


def intersect(a: Dfa, b: Dfa, limits: Limits | None = None) -> Dfa:
    """Texts accepted by both."""
    return _unlabelled(product([a, b], lambda bits: bits == 3, required=3, limits=limits))


def union(a: Dfa, b: Dfa, limits: Limits | None = None) -> Dfa:
    """Texts accepted by at least one."""
    return _unlabelled(product([a, b], lambda bits: bits != 0, limits=limits))


def subtract(a: Dfa, b: Dfa, limits: Limits | None = None) -> Dfa:
    """Texts accepted by ``a`` and not by ``b``."""
    return _unlabelled(product([a, b], lambda bits: bits == 1, required=1, limits=limits))


def from_strings(strings: Sequence[bytes], limits: Limits | None = None) -> Dfa:
    """A trie; the label of a string is its index (the first one, when strings repeat).

    Raises ``TooComplex`` (max_dfa_states).
    """
    limits = limits or Limits()
    if not strings:
        return EMPTY
    blob = np.frombuffer(b"".join(strings), dtype=np.uint8)
    ends = np.cumsum([len(text) for text in strings]).astype(np.int64)
    table, accept, count = _trie_kernel(blob, ends, limits.max_dfa_states)
    if count == 0:
        raise too_many_states(limits, "the list of strings")
    return Dfa(table, accept, 1)


def remove_bytes(dfa: Dfa, dead: npt.NDArray[np.bool_] | None) -> Dfa:
    """The texts of ``dfa`` without any byte of the mask ``dead`` (bool[256])."""
    if dead is None or not dead.any():
        return dfa
    table = dfa.table.copy()
    table[:, dead] = 0
    return trim(Dfa(table, dfa.accept, dfa.start))


def surround(dfa: Dfa, prefix: bytes = b"", suffix: bytes = b"") -> Dfa:
    """``prefix`` + text + ``suffix``. No accepting state may continue with ``suffix[0]``.

    Labels are kept when there is no suffix, or only one label; else they must be equal.
    """
    if dfa.is_empty:
        return dfa
    n = dfa.num_states
    size = n + len(prefix) + len(suffix)
    table = np.zeros((size, 256), dtype=np.int32)
    table[:n] = dfa.table
    accept = np.full(size, -1, dtype=np.int32)
    accept[:n] = dfa.accept
    start = dfa.start
    for i, byte in enumerate(reversed(prefix)):
        table[n + i, byte] = start
        start = n + i
    if suffix:
        accepting = np.flatnonzero(dfa.accept >= 0)
        assert not table[accepting, suffix[0]].any(), "the suffix is ambiguous"
        labels = set(dfa.accept[accepting].tolist())
        assert len(labels) == 1, "one suffix cannot carry several labels"
        accept[accepting] = -1
        here: int | npt.NDArray[np.int64] = accepting
        for i, byte in enumerate(suffix, start=n + len(prefix)):
            table[here, byte] = i
            here = i
        accept[size - 1] = labels.pop()
    return Dfa(table, accept, start)
