"""Schema resources: what ``$id`` and anchors name, and what a reference leads to.

A schema document can hold further resources (subschemas with their own ``$id``), and the caller
may give others by their URI; nothing is ever fetched. JSON Schema 2020-12, section 8.2; RFC 3986
for how references resolve.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from grammar.errors import ConstraintSyntaxError, UnsupportedError
from grammar.options import JsonOptions
from grammar.schema.keywords import subschemas


class Resource:
    """One resource. ``pointer``: its place in the document, its URI if the caller gave it."""

    __slots__ = ("anchors", "base", "dynamic", "pointer", "root")

    def __init__(self, root: Any, base: str, pointer: str) -> None:
        self.root = root
        self.base = base
        self.pointer = pointer
        self.anchors: dict[str, tuple[Any, str]] = {}
        #: ``$dynamicAnchor``s; "" stands for ``$recursiveAnchor``.
        self.dynamic: set[str] = set()

    def target(self, anchor: str) -> Target:
        """Where one of ``dynamic`` leads."""
        schema, pointer = self.anchors[anchor] if anchor else (self.root, self.pointer)
        return Target(schema, pointer, self, anchor)


#: The outermost resource with each dynamic anchor, of those on the way to a schema: all that
#: dynamic references depend on.
Scope = frozenset[tuple[str, Resource]]
NO_SCOPE: Scope = frozenset()


class Target(NamedTuple):
    """Where a reference leads: a schema, its place, the resource it is in, its anchor if any."""

    schema: Any
    pointer: str
    resource: Resource
    anchor: str


def _is_dynamic(schema: Any) -> bool:
    """Whether a document has a dynamic reference somewhere."""
    stack = [schema]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            if "$dynamicRef" in top or "$recursiveRef" in top:
                return True
            stack.extend(top.values())
        elif isinstance(top, list):
            stack.extend(top)
    return False


class Resources:
    """Everything that references of one document can name."""

    def __init__(
        self, schema: Any, draft: int, options: JsonOptions, dialect: Callable[[Any], int]
    ) -> None:
        self._draft = draft
        self._remote = options.remote_schemas
        self._dialect = dialect
        self._by_uri: dict[str, Resource] = {}
        self._of_schema: dict[int, Resource] = {}  # by identity of the resource's root
        self._kept: list[Any] = []  # parsed here: their identities must stay theirs
        #: The keyword that names a resource.
        self.id_keyword = "id" if draft == 4 else "$id"
        self._is_searched = False
        self.root = self._document(schema, "", "")
        #: Whether any dynamic reference can be met.
        self._has_dynamic = draft >= 2019 and (bool(self._remote) or _is_dynamic(schema))
        if self._has_dynamic:
            self._search()

    def of(self, schema: Any, inside: Resource) -> Resource:
        """The resource of a schema that stands in ``inside``: its own, where it has an ``$id``."""
        if isinstance(schema, dict) and self.id_keyword in schema:
            self._search()
            return self._of_schema.get(id(schema), inside)
        return inside

    def resolve(self, uri: str, inside: Resource, location: str) -> Target:
        """What a reference means. Raises ConstraintSyntaxError, UnsupportedError."""
        if uri.startswith("#") or not uri:
            resource, fragment = inside, uri[1:]
        else:
            base, fragment = urldefrag(urljoin(inside.base, uri))
            found = self._find(base, inside)
            if found is None:
                message = f"reference to another document: {uri}"
                raise UnsupportedError(message, location, "$ref")
            resource = found
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            self._search()
            anchored = resource.anchors.get(fragment)
            if anchored is None:
                message = f"no anchor {fragment!r} in this schema"
                raise ConstraintSyntaxError(message, location)
            return Target(anchored[0], anchored[1], resource, fragment)
        return self._walk(resource, fragment, location)

    def entered(self, scope: Scope, resource: Resource) -> Scope:
        """The scope inside a resource that was come to in ``scope``."""
        if not self._has_dynamic:
            return NO_SCOPE
        new = resource.dynamic - {anchor for anchor, _ in scope}
        return scope | {(anchor, resource) for anchor in new} if new else scope

    def _search(self) -> None:
        """Find the resources and anchors of the document, when one is first asked for."""
        if not self._is_searched:
            self._is_searched = True
            self._register(self.root)

    def _find(self, base: str, inside: Resource) -> Resource | None:
        self._search()
        if base == inside.base:
            return inside
        found = self._by_uri.get(base)
        if found is None:
            given = self._remote.get(base, self._remote.get(f"{base}#"))
            if given is not None:
                # Numbers as exact as those of the document.
                copy = json.loads(json.dumps(given), parse_float=Decimal)
                found = self._document(copy, base, base)
                self._register(found)
        return found

    def _walk(self, resource: Resource, fragment: str, location: str) -> Target:
        target = resource.root
        where = resource.pointer
        for raw in fragment.split("/")[1:]:
            name = raw.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            else:
                message = f"the reference #{fragment} leads nowhere (at {name!r})"
                raise ConstraintSyntaxError(message, location)
            where += f"/{raw}"
            resource = self.of(target, resource)
        return Target(target, where, resource, "")

    def _document(self, schema: Any, base: str, pointer: str) -> Resource:
        self._kept.append(schema)
        found = self._of_schema[id(schema)] = Resource(schema, base, pointer)
        self._by_uri.setdefault(base, found)
        return found

    def _register(self, outer: Resource) -> None:
        """Find every resource and anchor in a document."""
        todo: list[tuple[Any, str, Resource]] = [(outer.root, outer.pointer, outer)]
        while todo:
            here, where, resource = todo.pop()
            if not isinstance(here, dict):
                continue
            resource = self._own(here, where, resource)
            self._note_anchors(here, where, resource)
            todo.extend((sub, where + at, resource) for at, sub in subschemas(here, self._draft))

    def _own(self, schema: dict[str, Any], pointer: str, inside: Resource) -> Resource:
        uri = schema.get(self.id_keyword)
        if not isinstance(uri, str) or ("$ref" in schema and self._draft <= 7):
            return inside
        base, anchor = urldefrag(uri)
        if base:
            absolute = urljoin(inside.base, base)
            if schema is inside.root:
                resource = inside
                resource.base = absolute
            else:
                resource = Resource(schema, absolute, pointer)
                self._of_schema[id(schema)] = resource
            is_ours = schema is self.root.root
            if not is_ours and "$schema" in schema and self._dialect(schema) != self._draft:
                message = "a resource of another draft than the schema around it"
                raise UnsupportedError(message, f"{pointer}/$schema", "$schema")
            self._by_uri.setdefault(absolute, resource)
        else:
            resource = inside
        if anchor and self._draft <= 7:
            resource.anchors.setdefault(anchor, (schema, pointer))
        return resource

    def _note_anchors(self, schema: dict[str, Any], pointer: str, resource: Resource) -> None:
        if self._draft < 2019:
            return
        for name in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(name)
            if isinstance(anchor, str):
                resource.anchors.setdefault(anchor, (schema, pointer))
                if name == "$dynamicAnchor" and self._draft >= 2020:
                    resource.dynamic.add(anchor)
        if schema.get("$recursiveAnchor") is True and schema is resource.root:
            resource.dynamic.add("")
