"""Every compiled loop of the mask engine: arrays in, arrays out, no objects.

One file, because numba's on-disk cache does not notice changes in other modules.

Transition codes, ``table[state * 256 + byte]`` (int32):

    0                  dead
    1 .. ENTER-1       go to this state (a lexeme state keeps the return point, see below)
    ENTER + a          start lexeme ``acts[a] = (state, return point)`` and read the byte again
    SPACE              stay, one more character of whitespace, up to the cap
    UNKNOWN            not computed yet: a *miss*, resolved by Python, then resumed
    -1 - l             EXIT: the lexeme ends with this byte, under label l
    REDO - l           the lexeme ended before this byte, under label l: read the byte again

A position is (state, rp, count): ``rp`` says where a lexeme returns to (``returns[offset + l]`` is
the structural state for label l, 0 dead, UNKNOWN a miss), ``count`` counts characters of a bounded
string or of a run of whitespace. It is packed into one int64, a *config*.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ENTER = 1 << 24
SPACE = 1 << 28
UNKNOWN = -(1 << 30)
REDO = -(1 << 22)

RP_SHIFT = 22
COUNT_SHIFT = 42
STATE_MASK = (1 << RP_SHIFT) - 1
RP_MASK = (1 << (COUNT_SHIFT - RP_SHIFT)) - 1
MAX_COUNT = (1 << 20) - 1  # also the value of "no upper bound"

# flags of a state
STRUCTURAL = 1
ACCEPT = 2
COUNTED = 4  # character boundary inside a string: leaving it starts (or ends) a character
TRIE = 8  # a node of a key trie: alive maps apply
OPEN_KEY = 16  # inside a key that may be an additional one
ADDITIONAL = 32  # the place right after an additional key
ITEM = 64  # the place right after an item that must differ from the others of its array
ITEM_START = 128  # the place where such an item starts
# places: open containers + 1, 0 = not said; lexeme states: characters still needed at least
DEPTH_SHIFT = 8

# columns of the return point table
OFFSET, LENGTH, MIN, MAX, ALIVE, ALIVE_BASE = 0, 1, 2, 3, 4, 5

# columns of a job and of a miss
J_START, J_END, J_DEPTH, J_CONFIG = 0, 1, 2, 3
M_KIND, M_A, M_B, M_JOB = 0, 1, 2, 3  # then the job that resumes

MISS_ROW = 0  # a = state, b = byte
MISS_RETURN = 1  # a = return point, b = label

DEAD = -1
MISS = -2


@njit(cache=True, nogil=True)
def build_trie(order, offsets, blob, duplicate):  # type: ignore[no-untyped-def]
    """Tokens in the order of their bytes -> (node, skip), filling ``duplicate``."""
    capacity = len(blob) + 1
    node = np.empty(capacity, dtype=np.int64)
    skip = np.zeros(capacity, dtype=np.int32)
    stack = np.empty(4096, dtype=np.int64)
    n = 0
    depth = 0
    previous = -1
    for i in range(len(order)):
        token = order[i]
        start = offsets[token]
        length = offsets[token + 1] - start
        common = 0
        if previous >= 0:
            p_start = offsets[previous]
            p_length = offsets[previous + 1] - p_start
            while (
                common < length
                and common < p_length
                and blob[start + common] == blob[p_start + common]
            ):
                common += 1
            if common == length and common == p_length:
                duplicate[token] = duplicate[previous]
                duplicate[previous] = token
                continue
        while depth > common:
            depth -= 1
            skip[stack[depth]] = n
        while depth < length:
            stack[depth] = n
            depth += 1
            node[n] = (np.int64(depth) << 8) | np.int64(blob[start + depth - 1])
            n += 1
        node[n - 1] |= (token + 1) << 32
        previous = token
    while depth > 0:
        depth -= 1
        skip[stack[depth]] = n
    return node[:n].copy(), skip[:n].copy()


@njit(cache=True, nogil=True)
def find_node(node, skip, prefix):  # type: ignore[no-untyped-def]
    """Index of the node that spells ``prefix``, or -1."""
    i = 0
    end = len(node)
    found = -1
    for d in range(len(prefix)):
        found = -1
        while i < end:
            if (node[i] & 0xFF) == prefix[d]:
                found = i
                break
            i = skip[i]
        if found < 0:
            return -1
        end = skip[found]
        i = found + 1
    return found


@njit(cache=True, nogil=True)
def segment(node, skip, text):  # type: ignore[no-untyped-def]
    """Fewest tokens that spell ``text`` (dynamic programme from the end); empty if impossible."""
    n = len(text)
    best = np.full(n + 1, 1 << 30, dtype=np.int32)
    take = np.zeros(n + 1, dtype=np.int32)
    size = np.zeros(n + 1, dtype=np.int32)
    best[n] = 0
    for p in range(n - 1, -1, -1):
        i = 0
        end = len(node)
        d = p
        while i < end and d < n:
            if (node[i] & 0xFF) == text[d]:
                d += 1
                token = (node[i] >> 32) - 1
                if token >= 0 and best[d] + 1 <= best[p]:
                    best[p] = best[d] + 1
                    take[p] = token
                    size[p] = d - p
                end = skip[i]
                i += 1
            else:
                i = skip[i]
    if best[0] >= 1 << 30:
        return np.empty(0, dtype=np.int32)
    out = np.empty(best[0], dtype=np.int32)
    p = 0
    k = 0
    while p < n:
        out[k] = take[p]
        p += size[p]
        k += 1
    return out


@njit(cache=True, nogil=True, inline="always")
def pack(state, rp, count):  # type: ignore[no-untyped-def]
    return np.int64(state) | (np.int64(rp) << RP_SHIFT) | (np.int64(count) << COUNT_SHIFT)


@njit(cache=True, nogil=True)
def step(config, byte, table, flags, acts, rps, returns, alive, space_cap):  # type: ignore[no-untyped-def]
    """One byte. Returns (config or DEAD or MISS, kind, a, b) - the last three only for a miss."""
    state = config & STATE_MASK
    rp = (config >> RP_SHIFT) & RP_MASK
    count = config >> COUNT_SHIFT
    t = table[state * 256 + byte]
    while True:
        if t == 0:
            return DEAD, 0, 0, 0
        if t > 0:
            if t < ENTER:
                f = flags[state]
                if f & STRUCTURAL:
                    return np.int64(t), 0, 0, 0
                if f & COUNTED:
                    high = rps[rp, MAX]
                    low = rps[rp, MIN]
                    if high < MAX_COUNT:
                        count += 1
                        if count > high:
                            return DEAD, 0, 0, 0
                    elif count < low:
                        count += 1
                need = flags[t] >> DEPTH_SHIFT
                if need > 0 and rps[rp, MAX] < MAX_COUNT and count + need > rps[rp, MAX]:
                    return DEAD, 0, 0, 0
                if flags[t] & TRIE:
                    offset = rps[rp, ALIVE]
                    if offset >= 0 and alive[offset + t - rps[rp, ALIVE_BASE]] == 0:
                        return DEAD, 0, 0, 0
                return pack(t, rp, count), 0, 0, 0
            if t == SPACE:
                if count >= space_cap:
                    return DEAD, 0, 0, 0
                return pack(state, rp, count + 1), 0, 0, 0
            a = t - ENTER
            state = acts[a, 0]
            rp = acts[a, 1]
            count = np.int64(0)
            t = table[state * 256 + byte]
            continue
        if t == UNKNOWN:
            return MISS, MISS_ROW, state, byte
        redo = t <= REDO
        label = REDO - t if redo else -1 - t
        if flags[state] & COUNTED and (count < rps[rp, MIN] or count > rps[rp, MAX]):
            return DEAD, 0, 0, 0
        if label >= rps[rp, LENGTH]:
            return DEAD, 0, 0, 0
        target = returns[rps[rp, OFFSET] + label]
        if target == UNKNOWN:
            return MISS, MISS_RETURN, rp, label
        if target == 0:
            return DEAD, 0, 0, 0
        if not redo:
            return np.int64(target), 0, 0, 0
        state = target
        rp = np.int64(0)
        count = np.int64(0)
        t = table[state * 256 + byte]


@njit(cache=True, nogil=True)
def run(config, data, start, end, fresh, table, flags, acts, rps, returns, alive, space_cap, out):  # type: ignore[no-untyped-def]
    """Bytes ``data[start:end]``. Returns the config, or DEAD / MISS.

    ``out`` (int64[8]): [0] index of the byte where it stopped, [1..3] the miss, [4] the config
    before that byte; [5] is set to 1 when an additional key ended on the way, or an item started
    or ended that must differ from others, [6] lowered to the least depth + 1 of the places passed
    (both are reset when ``fresh``).
    """
    if fresh:
        out[5] = 0
        out[6] = np.int64(1) << 40
    for i in range(start, end):
        result, kind, a, b = step(
            config, np.int64(data[i]), table, flags, acts, rps, returns, alive, space_cap
        )
        if result < 0:
            out[0] = i
            out[1] = kind
            out[2] = a
            out[3] = b
            out[4] = config
            return result
        before = flags[config & STATE_MASK]
        config = result
        f = flags[config & STATE_MASK]
        if f & STRUCTURAL:
            if (f & ADDITIONAL and before & OPEN_KEY) or f & (ITEM | ITEM_START):
                out[5] = 1
            depth = f >> DEPTH_SHIFT
            if depth > 0 and depth < out[6]:
                out[6] = depth
    out[0] = end
    return config


@njit(cache=True, nogil=True)
def scan(config, data, start, end, table, flags, acts, rps, returns, alive, space_cap, out):  # type: ignore[no-untyped-def]
    """As ``run``, for long texts: stops behind each additional key, and knows where it began.

    Returns the config after ``data[start : out[0]]``, or DEAD / MISS with ``out[0..4]`` as in
    ``run``. ``out[5]``: 1 when it stopped behind an additional key, [7] the index of the opening
    quote of the last key that may be one, [8] the config before it; [6] is lowered as in ``run``,
    but reset by the caller.
    """
    out[5] = 0
    for i in range(start, end):
        result, kind, a, b = step(
            config, np.int64(data[i]), table, flags, acts, rps, returns, alive, space_cap
        )
        if result < 0:
            out[0] = i
            out[1] = kind
            out[2] = a
            out[3] = b
            out[4] = config
            return result
        before = flags[config & STATE_MASK]
        f = flags[result & STATE_MASK]
        if f & OPEN_KEY and not before & OPEN_KEY:
            out[7] = i
            out[8] = config
        config = result
        if f & OPEN_KEY:
            continue
        if f & STRUCTURAL:
            if f & ADDITIONAL and before & OPEN_KEY:
                out[0] = i + 1
                out[5] = 1
                return config
            depth = f >> DEPTH_SHIFT
            if depth > 0 and depth < out[6]:
                out[6] = depth
    out[0] = end
    return config


@njit(cache=True, nogil=True)
def collect(config, ends):  # type: ignore[no-untyped-def]
    """Insert (state, rp) of a config into an open-addressing set; ends[0] counts, or -1 = full."""
    if ends[0] < 0:
        return
    size = len(ends) - 1
    key = (config & ((np.int64(1) << COUNT_SHIFT) - 1)) + 1
    h = ((key & 0xFFFFFF) * 2654435761 + (key >> 24) * 40503) >> 12  # no wrap-around
    slot = 1 + (h & (size - 1))
    while ends[slot] != 0:
        if ends[slot] == key:
            return
        slot = slot + 1 if slot < size else 1
    if ends[0] * 2 > size:
        ends[0] = -1
        return
    ends[slot] = key
    ends[0] += 1


@njit(cache=True, nogil=True)
def walk(  # type: ignore[no-untyped-def]
    jobs,
    n_jobs,
    node,
    skip,
    duplicate,
    table,
    flags,
    acts,
    rps,
    returns,
    alive,
    space_cap,
    mask,
    misses,
    ends,
):
    """Walk trie ranges from given configs; set the bit of every token that survives.

    ``jobs`` int64[:, 4]: first node, end node, depth of the config, config. ``mask``
    uint32[words]. ``misses`` int64[:, 7]: kind, a, b and the job that resumes there. ``ends``:
    see ``collect``; an empty array collects nothing. Returns the number of misses, -1 = too many.
    """
    stack = np.empty(1030, dtype=np.int64)
    n_misses = 0
    collecting = len(ends) > 0
    for j in range(n_jobs):
        i = jobs[j, J_START]
        end = jobs[j, J_END]
        stack[jobs[j, J_DEPTH]] = jobs[j, J_CONFIG]
        while i < end:
            packed = node[i]
            depth = (packed >> 8) & 0xFFFF
            config = stack[depth - 1]
            result = np.int64(table[(config & STATE_MASK) * 256 + (packed & 0xFF)])
            if result == 0:
                i = skip[i]
                continue
            result, kind, a, b = step(
                config, packed & 0xFF, table, flags, acts, rps, returns, alive, space_cap
            )
            if result < 0:
                if result == MISS:
                    if n_misses == len(misses):
                        return -1
                    misses[n_misses, M_KIND] = kind
                    misses[n_misses, M_A] = a
                    misses[n_misses, M_B] = b
                    misses[n_misses, M_JOB + J_START] = i
                    misses[n_misses, M_JOB + J_END] = skip[i]
                    misses[n_misses, M_JOB + J_DEPTH] = depth - 1
                    misses[n_misses, M_JOB + J_CONFIG] = config
                    n_misses += 1
                i = skip[i]
                continue
            token = (packed >> 32) - 1
            if token >= 0:
                while token >= 0:
                    mask[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
                    token = np.int64(duplicate[token])
                if collecting:
                    collect(result, ends)
            stack[depth] = result
            i += 1
    return n_misses


@njit(cache=True, nogil=True)
def walk_ends(  # type: ignore[no-untyped-def]
    config, node, skip, duplicate, table, flags, acts, rps, returns, alive, space_cap, end_config
):
    """Config after each token that survives (others untouched). Every miss must be resolved."""
    stack = np.empty(1030, dtype=np.int64)
    stack[0] = config
    i = 0
    while i < len(node):
        packed = node[i]
        depth = (packed >> 8) & 0xFFFF
        result, _, _, _ = step(
            stack[depth - 1], packed & 0xFF, table, flags, acts, rps, returns, alive, space_cap
        )
        if result < 0:
            i = skip[i]
            continue
        token = (packed >> 32) - 1
        while token >= 0:
            end_config[token] = result
            token = np.int64(duplicate[token])
        stack[depth] = result
        i += 1


@njit(cache=True, nogil=True)
def distinct(ends, configs, index):  # type: ignore[no-untyped-def]
    """Number the different configs in ``ends``: configs[index[t]] = ends[t], -1 for none.

    Returns how many there are, -1 when ``configs`` is too short. Open addressing.
    """
    size = 1 << 14
    slots = np.full(size, -1, dtype=np.int32)
    n = 0
    last = np.int64(-1)
    number = np.int32(-1)
    for t in range(len(ends)):
        key = ends[t]
        if key < 0:
            index[t] = -1
            continue
        if key != last:  # tokens in a row mostly end alike
            h = ((key & 0xFFFFFF) * 40503 + (key >> 24) * 9973) & (size - 1)
            while slots[h] >= 0 and configs[slots[h]] != key:
                h = (h + 1) & (size - 1)
            if slots[h] < 0:
                if n == len(configs) or 2 * n > size:
                    return -1
                slots[h] = n
                configs[n] = key
                n += 1
            number = slots[h]
            last = key
        index[t] = number
    return n


@njit(cache=True, nogil=True)
def walk_lexeme(state, node, skip, duplicate, table, flags, mask, chars, exits, ends):  # type: ignore[no-untyped-def]
    """The context-independent part of a lexeme state's mask.

    Sets the bit of every token that stays inside the lexeme, ``chars[token]`` = characters it
    starts (uint16), and lists where the walk would leave: exits int64[:, 5] = first node, end
    node, depth, lexeme state before the leaving byte, characters so far. ``ends`` collects
    the lexeme states that tokens end in. Returns the number of exits, -1 = too many.
    """
    stack = np.empty(1030, dtype=np.int64)
    count = np.zeros(1030, dtype=np.int64)
    stack[0] = state
    n_exits = 0
    i = 0
    while i < len(node):
        packed = node[i]
        depth = (packed >> 8) & 0xFFFF
        here = stack[depth - 1]
        t = np.int64(table[here * 256 + (packed & 0xFF)])
        if t <= 0:
            if t < 0:
                if n_exits == len(exits):
                    return -1
                exits[n_exits, 0] = i
                exits[n_exits, 1] = skip[i]
                exits[n_exits, 2] = depth - 1
                exits[n_exits, 3] = here
                exits[n_exits, 4] = count[depth - 1]
                n_exits += 1
            i = skip[i]
            continue
        stack[depth] = t
        count[depth] = count[depth - 1] + (1 if flags[here] & COUNTED else 0)
        token = (packed >> 32) - 1
        if token >= 0:
            while token >= 0:
                mask[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
                chars[token] = count[depth]
                token = np.int64(duplicate[token])
            collect(t, ends)
        i += 1
    return n_exits


@njit(cache=True, nogil=True)
def exit_paths(exits, node):  # type: ignore[no-untyped-def]
    """The bytes on the way to each exit, concatenated (uint8)."""
    total = 0
    for e in range(len(exits)):
        total += exits[e, 2]
    paths = np.zeros(total, dtype=np.uint8)
    at = 0
    for e in range(len(exits)):
        # the nearest earlier node of each smaller depth
        depth = exits[e, 2]
        i = exits[e, 0] - 1
        d = depth
        while d > 0:
            if ((node[i] >> 8) & 0xFFFF) == d:
                paths[at + d - 1] = node[i] & 0xFF
                d -= 1
            i -= 1
        at += depth
    return paths


@njit(cache=True, nogil=True)
def exit_jobs(exits, n, base, config, contextual, paths, table, jobs):  # type: ignore[no-untyped-def]
    """Exits of a lexeme state -> jobs for ``walk``. Returns how many.

    ``base`` is where the lexeme's rows start in the arena. ``contextual``: the state the walk is
    really in (a key trie's node) differs from the one the exits were computed from, so the
    bytes before each exit (``paths``, one after the other) are read again from there.
    """
    rest = config >> RP_SHIFT << RP_SHIFT
    n_jobs = 0
    at = 0
    for e in range(n):
        start = exits[e, 0]
        depth = exits[e, 2]
        if contextual:
            state = config & STATE_MASK
            for k in range(at, at + depth):
                state = np.int64(table[state * 256 + np.int64(paths[k])])
            at += depth
        else:
            state = exits[e, 3] + base
        jobs[n_jobs, J_START] = start
        jobs[n_jobs, J_END] = exits[e, 1]
        jobs[n_jobs, J_DEPTH] = depth
        jobs[n_jobs, J_CONFIG] = rest + (exits[e, 4] << COUNT_SHIFT) + state
        n_jobs += 1
    return n_jobs


@njit(cache=True, nogil=True)
def key_trie(blob, offsets, generic, generic_start, closed, base):  # type: ignore[no-untyped-def]
    """Rows of a key lexeme: a trie of spelled names over a generic string automaton.

    ``blob, offsets``: the names, sorted by bytes, distinct. ``generic`` int32[base, 256]: the
    automaton of any key in the codes above (row 0 dead, row 1 the entry); trie node k is state
    base + k. In a ``closed`` trie only the names exist. The exit after name w carries label w.
    Returns (rows int32[base + nodes, 256], generic state of each node int32, range of names at
    or below each node int32[nodes, 2]).
    """
    n_names = len(offsets) - 1
    nodes = 1
    for w in range(n_names):
        start = offsets[w]
        length = offsets[w + 1] - start
        common = 0
        if w > 0:
            p_start = offsets[w - 1]
            limit = min(length, start - p_start)
            while common < limit and blob[start + common] == blob[p_start + common]:
                common += 1
        nodes += length - common
    rows = np.empty((base + nodes, 256), dtype=np.int32)
    rows[:base] = generic
    gen = np.zeros(nodes, dtype=np.int32)
    span = np.zeros((nodes, 2), dtype=np.int32)
    path = np.zeros(len(blob) + 1, dtype=np.int64)
    gen[0] = generic_start
    rows[base] = generic[generic_start]
    span[0, 1] = n_names
    n = 1
    depth = 0
    for w in range(n_names):
        start = offsets[w]
        length = offsets[w + 1] - start
        common = 0
        if w > 0:
            p_start = offsets[w - 1]
            limit = min(length, start - p_start)
            while common < limit and blob[start + common] == blob[p_start + common]:
                common += 1
        while depth > common:
            span[path[depth], 1] = w
            depth -= 1
        while depth < length:
            byte = np.int64(blob[start + depth])
            parent = path[depth]
            gen[n] = 0 if closed else generic[gen[parent], byte]
            rows[base + n] = generic[gen[n]]
            span[n, 0] = w
            rows[base + parent, byte] = base + n
            depth += 1
            path[depth] = n
            n += 1
        rows[base + path[depth], 34] = -1 - w
    while depth > 0:
        span[path[depth], 1] = n_names
        depth -= 1
    return rows, gen, span


@njit(cache=True, nogil=True)
def alive_nodes(span, allowed, out):  # type: ignore[no-untyped-def]
    """out[k] = 1 where a name below trie node k is allowed. ``allowed`` uint8[names]."""
    n = len(allowed)
    before = np.zeros(n + 1, dtype=np.int32)
    for w in range(n):
        before[w + 1] = before[w] + allowed[w]
    for k in range(len(span)):
        out[k] = 1 if before[span[k, 1]] > before[span[k, 0]] else 0


@njit(cache=True, nogil=True)
def install(rows, base, table):  # type: ignore[no-untyped-def]
    """Write local rows 1.. into ``table`` at base + 1.., goto codes shifted by ``base``."""
    for s in range(1, len(rows)):
        at = (base + s) * 256
        for b in range(256):
            t = rows[s, b]
            table[at + b] = t + base if 0 < t < ENTER else t
