"""The obvious matcher: backtracking over a tree of tuples, straight from the definition.

Trees: ("chars", "ab"), ("cat", x, y), ("alt", x, y), ("star", x), ("opt", x), ("count", x, m, n),
("begin",), ("end",), ("word",), ("noword",), ("look", x), ("nolook", x).
"""

from __future__ import annotations

from collections.abc import Iterator

Tree = tuple  # of a name, subtrees, texts and numbers


def ends(tree: Tree, text: str, at: int) -> set[int]:
    """Every position where a match of ``tree`` that begins at ``at`` may end."""
    kind = tree[0]
    if kind == "chars":
        return {at + 1} if at < len(text) and text[at] in tree[1] else set()
    if kind == "cat":
        return {end for middle in ends(tree[1], text, at) for end in ends(tree[2], text, middle)}
    if kind == "alt":
        return ends(tree[1], text, at) | ends(tree[2], text, at)
    if kind == "opt":
        return {at} | ends(tree[1], text, at)
    if kind == "star":
        return repeated(tree[1], 0, None, text, at)
    if kind == "count":
        return repeated(tree[1], tree[2], tree[3], text, at)
    return {at} if holds(tree, text, at) else set()


def repeated(tree: Tree, low: int, high: int | None, text: str, at: int) -> set[int]:
    reached = {at}
    for _ in range(low):
        reached = {end for start in reached for end in ends(tree, text, start)}
    found = set(reached)
    rounds = len(text) + 1 if high is None else high - low
    for _ in range(rounds):
        reached = {end for start in reached for end in ends(tree, text, start)}
        found |= reached
    return found


def holds(tree: Tree, text: str, at: int) -> bool:
    kind = tree[0]
    if kind == "begin":
        return bool(at == 0)
    if kind == "end":
        return bool(at == len(text))
    if kind in ("word", "noword"):
        before = at > 0 and word(text[at - 1])
        after = at < len(text) and word(text[at])
        return bool((before != after) is (kind == "word"))
    assert kind in ("look", "nolook")
    return bool(ends(tree[1], text, at)) is bool(kind == "look")


def word(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


def full_match(tree: Tree, text: str) -> bool:
    return len(text) in ends(tree, text, 0)


def search(tree: Tree, text: str) -> bool:
    return any(ends(tree, text, at) for at in range(len(text) + 1))


def render(tree: Tree) -> str:
    """The tree as a pattern."""
    kind = tree[0]
    if kind == "chars":
        return tree[1] if len(tree[1]) == 1 else f"[{tree[1]}]"
    if kind == "cat":
        return "".join(f"(?:{render(x)})" if x[0] == "alt" else render(x) for x in tree[1:])
    if kind == "alt":
        return f"{render(tree[1])}|{render(tree[2])}"
    if kind in ("look", "nolook"):
        return f"(?{'=' if kind == 'look' else '!'}{render(tree[1])})"
    if kind in ("begin", "end", "word", "noword"):
        return {"begin": "^", "end": "$", "word": r"\b", "noword": r"\B"}[kind]
    suffix = {"star": "*", "opt": "?"}.get(kind)
    if suffix is None:
        suffix = f"{{{tree[2]},{'' if tree[3] is None else tree[3]}}}"
    return f"(?:{render(tree[1])}){suffix}"


def trees(size: int) -> Iterator[Tree]:
    """Every tree of exactly ``size`` nodes over {a, b} (and -, no word character, in \\b's)."""
    if size == 1:
        yield ("chars", "a")
        yield ("chars", "b")
        yield ("begin",)
        yield ("end",)
        yield ("word",)
        return
    for inner in trees(size - 1):
        yield ("star", inner)
        yield ("opt", inner)
        yield ("count", inner, 1, 2)
        yield ("nolook", inner)
        yield ("look", inner)
    for left_size in range(1, size - 1):
        for left in trees(left_size):
            for right in trees(size - 1 - left_size):
                yield ("cat", left, right)
                yield ("alt", left, right)
