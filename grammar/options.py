"""What a caller may choose about a constraint, and the limits every compile runs under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Whitespace = Literal["compact", "single_space", "flexible"]
PropertyOrder = Literal["schema", "any"]
Formats = Literal["enforce", "annotate"]
AdditionalDefault = Literal["auto", "allow", "forbid"]


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """How JSON text is spelled. The defaults are those for generating.

    ``whitespace``: "compact" ``{"a":1}``; "single_space" ``{"a": 1, "b": 2}``; "flexible" any
    JSON whitespace between tokens, at most ``max_whitespace_run`` characters in one gap.
    ``property_order``: "schema" = order of the schema's text; "any" = every order.
    ``numbers``: "readable" = at most 19 integer digits, 17 fraction digits, three-digit
    exponents, unless the bounds need more; "any" = every JSON spelling that we recognise.
    ``additional_properties_default``: what an absent ``additionalProperties`` means beside a
    non-empty ``properties``: "auto" closes such an object (generation must end).
    ``remote_schemas``: URI -> schema (parsed JSON) for ``$ref``; the network is never used.
    """

    whitespace: Whitespace = "compact"
    max_whitespace_run: int = 8
    property_order: PropertyOrder = "schema"
    formats: Formats = "enforce"
    ascii_only: bool = False
    additional_properties_default: AdditionalDefault = "auto"
    numbers: Literal["readable", "any"] = "readable"
    remote_schemas: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def recognise(cls, **changes: Any) -> JsonOptions:
        """Options for judging somebody else's text: every order, spacing and number spelling."""
        settings: dict[str, Any] = {
            "whitespace": "flexible",
            "property_order": "any",
            "additional_properties_default": "allow",
            "numbers": "any",
        }
        return cls(**(settings | changes))


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one compile; each exceeded one raises ``TooComplex`` naming the field."""

    max_schema_bytes: int = 64 << 20  # largest schema seen in the wild is 1.8 MB
    max_schema_depth: int = 1_000  # nesting of the schema document itself
    max_pointer_bytes: int = 64 << 20  # of the JSON Pointers of all subschemas together
    max_regex_bytes: int = 64 << 10  # longest pattern seen in MaskBench is 12 kB
    max_regex_depth: int = 1_000  # nested groups
    max_nfa_states: int = 50_000  # counted groups are expanded; 10k positions x UTF-8 ranges
    max_dfa_states: int = 20_000  # 256 x int32 a state: 20 MB
    max_choices: int = 200_000
    max_choice_bytes: int = 8 << 20
    max_branches: int = 1_024  # alternatives of one goal after unfolding anyOf
    max_solver_steps: int = 200_000  # work of one liveness query
    max_output_bytes: int = 1 << 20  # shortest text of a constraint, or of an optional part
    max_depth: int = 512  # open brackets of the generated text
    max_arena_bytes: int = 256 << 20  # lazily grown tables of one grammar
