"""Errors of the grammar engine.

    GrammarError                the constraint cannot be compiled; ``location`` says where
    ├── ConstraintSyntaxError   malformed: not JSON, not a schema, not a regex
    ├── UnsupportedError        well-formed, but uses something not enforced; never loosened
    ├── Unsatisfiable           no text satisfies it (or none that this vocabulary can spell)
    └── TooComplex              over a limit; ``limit`` names the field of ``Limits``

``location`` is a JSON Pointer (RFC 6901, "" is the root) for schemas, and ``@N`` with N a byte
offset (in UTF-8) for regular expressions and choices; a position inside a schema's pattern is
``/pointer@N``. All are raised while compiling, none by a matcher.
"""

from __future__ import annotations


class GrammarError(ValueError):
    """A constraint that cannot be compiled. Abstract: one of the subclasses is raised."""

    def __init__(self, message: str, location: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return f"{self.location or 'root'}: {self.message}"

    def at(self, pointer: str) -> GrammarError:
        """The same error, placed inside a schema at ``pointer``."""
        self.location = pointer + self.location
        return self


class ConstraintSyntaxError(GrammarError):
    """The constraint's text is malformed."""


class UnsupportedError(GrammarError):
    """The constraint is well-formed but asks for something that is not enforced.

    ``keyword`` names it: a JSON Schema keyword, or a regex construct such as "lookbehind".
    """

    def __init__(self, message: str, location: str = "", keyword: str = "") -> None:
        super().__init__(message, location)
        self.keyword = keyword


class Unsatisfiable(GrammarError):  # noqa: N818 - names the verdict, as in the interface
    """No text satisfies the constraint."""


class TooComplex(GrammarError):  # noqa: N818 - names the verdict, as in the interface
    """The constraint exceeds a limit; ``limit`` is the name of the field of ``Limits``."""

    def __init__(self, message: str, location: str = "", limit: str = "") -> None:
        super().__init__(message, location)
        self.limit = limit
