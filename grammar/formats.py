"""The enforced values of ``format``: regular languages that every checker we know accepts.

Each is a pattern in our own dialect, whole match. Where a format is not regular, or its checkers
differ, the pattern is a subset: what it accepts is valid everywhere, and the comment says what
it leaves out. Other names are annotations; ``UNSUPPORTED_FORMATS`` can be neither enforced nor
honestly ignored.
"""

from __future__ import annotations

import functools
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from grammar.dfa import Dfa
from grammar.options import Limits
from grammar.regex import compile_text
from grammar.regex.spelling import Spelling, spell_dfa
from grammar.regex.text import TextDfa

# --- RFC 3339: dates, times, durations -----------------------------------------------------------

_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    r"(?!0000)(?:"
    r"[0-9]{4}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|[0-9]{4}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|[0-9]{4}-02-(?:0[1-9]|1[0-9]|2[0-8])"
    rf"|{_LEAP_YEAR}-02-29)"
)
# Without leap seconds: the usual checkers do not know them.
_TIME = (
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
# RFC 3339, appendix A: no designator may be skipped between two others.
_DURATION_TIME = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = rf"P(?:[0-9]+W|{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME})"

# --- Addresses -----------------------------------------------------------------------------------

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16 = r"[0-9A-Fa-f]{1,4}"
_LS32 = rf"(?:{_H16}:{_H16}|{_IPV4})"


def _ipv6() -> str:
    """RFC 3986, IPv6address: n groups, ``::``, the rest."""
    forms = [rf"(?:{_H16}:){{6}}{_LS32}"]
    for after in range(5, -1, -1):  # groups after "::" and before the last two
        before = 5 - after
        left = rf"(?:(?:{_H16}:){{0,{before - 1}}}{_H16})?" if before > 0 else ""
        forms.append(rf"{left}::(?:{_H16}:){{{after}}}{_LS32}")
    forms.append(rf"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}")
    forms.append(rf"(?:(?:{_H16}:){{0,6}}{_H16})?::")
    return f"(?:{'|'.join(forms)})"


_IPV6 = _ipv6()
_ALNUM = r"[0-9A-Za-z]"


def _label(most: int) -> str:
    """A label of at most ``most`` characters, without ``--`` as its third and fourth.

    Those are internationalised names, whose validity is not regular (RFC 5890).
    """
    inner = r"[0-9A-Za-z-]"
    return rf"(?!{inner}{{2}}--){_ALNUM}(?:{inner}{{0,{most - 2}}}{_ALNUM})?"


def _hostname() -> str:
    """At most 253 characters, labels of at most 63: four long labels, or many short ones."""
    few = rf"(?:{_label(63)}\.){{0,2}}{_label(63)}|(?:{_label(63)}\.){{3}}{_label(61)}"
    many = rf"(?:{_label(15)}\.){{0,14}}{_label(15)}"
    return f"(?:{few}|{many})"


_HOSTNAME = _hostname()
_ATEXT = r"[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]"
_DOMAIN = rf"{_ALNUM}(?:[0-9A-Za-z-]*{_ALNUM})?(?:\.{_ALNUM}(?:[0-9A-Za-z-]*{_ALNUM})?)*"
# RFC 5321, Mailbox; lengths and general address literals are left out.
_EMAIL = (
    rf"(?:{_ATEXT}+(?:\.{_ATEXT}+)*|\"(?:[ !#-\[\]-~]|\\[ -~])*\")"
    rf"@(?:{_DOMAIN}|\[{_IPV4}\]|\[IPv6:{_IPV6}\])"
)
# RFC 6531: the same with any non-ASCII character in place of a letter.
_WIDE = r"\u0080-\u{10ffff}"
_IDN_EMAIL = _EMAIL.replace("[0-9A-Za-z", f"[{_WIDE}0-9A-Za-z").replace("[ !#-", f"[{_WIDE} !#-")

# --- RFC 3986 and 3987 ---------------------------------------------------------------------------

# ucschar and iprivate of the basic plane: the usual checker knows no other.
_UCSCHAR = r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
_PRIVATE = r"\ue000-\uf8ff"


def _uri(*, relative: bool, international: bool) -> str:
    """RFC 3986 ``URI`` or ``URI-reference``; RFC 3987 ``IRI`` or ``IRI-reference``."""
    unreserved = r"0-9A-Za-z._~\-" + (_UCSCHAR if international else "")
    sub = r"!$&'()*+,;="
    escape = r"%[0-9A-Fa-f]{2}"
    pchar = rf"(?:[{unreserved}{sub}:@]|{escape})"
    query = rf"(?:[{unreserved}{sub}:@/?{_PRIVATE if international else ''}]|{escape})*"
    fragment = rf"(?:[{unreserved}{sub}:@/?]|{escape})*"
    # The usual checker of IRIs knows only some abbreviations of IPv6 addresses.
    ipv6 = rf"(?:{_H16}:){{6}}{_LS32}" if international else _IPV6
    literal = rf"\[(?:{ipv6}|v[0-9A-Fa-f]+\.[0-9A-Za-z._~\-{sub}:]+)\]"
    authority = (
        rf"(?:(?:[{unreserved}{sub}:]|{escape})*@)?"
        rf"(?:{literal}|(?:[{unreserved}{sub}]|{escape})*)(?::[0-9]*)?"
    )
    segments = rf"(?:/{pchar}*)*"
    hierarchy = rf"(?://{authority}{segments}|/(?:{pchar}+{segments})?|{pchar}+{segments}|)"
    tail = rf"(?:\?{query})?(?:#{fragment})?"
    absolute = rf"[A-Za-z][0-9A-Za-z+.\-]*:{hierarchy}{tail}"
    if not relative:
        return absolute
    first = rf"(?:[{unreserved}{sub}@]|{escape})+"
    path = rf"(?://{authority}{segments}|/(?:{pchar}+{segments})?|{first}{segments}|)"
    return rf"(?:{absolute}|{path}{tail})"


# --- Pointers, templates, patterns ---------------------------------------------------------------

_JSON_POINTER = r"(?:/(?:[^/~]|~[01])*)*"
# Without digits after a 0: the usual checker takes any for a leading zero.
_RELATIVE_JSON_POINTER = rf"(?:0|[1-9]+0?)(?:#|{_JSON_POINTER})"


def _regex(depth: int = 3) -> str:
    """Regular expressions that ECMA-262 and Python both compile.

    Left out: groups nested deeper than ``depth``, look-around, backreferences, properties,
    ranges other than of digits and of letters with ends that are sure to be in order.
    """
    escape = r"\\(?:[dDwWsSnrtfv]|[.*+?^$|\\/(){}\[\]-])"
    class_escape = r"\\(?:[dDwWsSnrtfv]|[.*+?^$|\\/(){}\[\]-])"
    single = r"[^\\\[\]\u0000-\u001f^&~|-]"
    member = rf"(?:0-9|a-z|A-Z|{class_escape}|{single})"
    char_class = rf"\[\^?{member}+-?\]"
    atom = rf"(?:[^\\\[\](){{}}*+?|^$\u0000-\u001f]|{escape}|{char_class})"
    ordered = "|".join(rf"{m},[{m}-9]" for m in range(10))
    counts = rf"[0-9]{{1,2}},?|{ordered}|[0-9],[1-9][0-9]|[0-9]{{1,2}},[1-9][0-9]{{2}}"
    quantifier = rf"(?:(?:[*+?]|\{{(?:{counts})\}})\??)?"
    anchored = r"(?:[\^$]|\\[bB])"
    branch = rf"(?:{anchored}|{atom}{quantifier})*"
    for _ in range(depth):
        group = rf"\((?:\?:)?{branch}(?:\|{branch})*\)"
        branch = rf"(?:{anchored}|{atom}{quantifier}|{group}{quantifier})*"
    return rf"{branch}(?:\|{branch})*"


#: Name -> pattern (our dialect, whole match).
FORMATS = MappingProxyType(
    {
        "date": _DATE,
        "time": _TIME,
        "date-time": rf"{_DATE}[Tt]{_TIME}",
        "duration": _DURATION,
        "email": _EMAIL,
        "idn-email": _IDN_EMAIL,
        "hostname": _HOSTNAME,
        "ipv4": _IPV4,
        "ipv6": _IPV6,
        "uuid": r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
        "uri": _uri(relative=False, international=False),
        "uri-reference": _uri(relative=True, international=False),
        "iri": _uri(relative=False, international=True),
        "iri-reference": _uri(relative=True, international=True),
        "json-pointer": _JSON_POINTER,
        "relative-json-pointer": _RELATIVE_JSON_POINTER,
        "regex": _regex(),
    }
)
ENFORCED_FORMATS = frozenset(FORMATS)
UNSUPPORTED_FORMATS = frozenset({"idn-hostname", "uri-template"})


@functools.lru_cache(maxsize=64)
def format_text(name: str, nul: bool = True, limits: Limits | None = None) -> TextDfa:
    """The automaton over characters of an enforced format. Raises KeyError for other names."""
    return compile_text(FORMATS[name], nul=nul, limits=limits)


def format_dfa(
    name: str,
    spelling: Spelling,
    dead: npt.NDArray[np.bool_] | None = None,
    limits: Limits | None = None,
) -> Dfa:
    """The byte automaton of an enforced format, without quotes; see ``spell_dfa``."""
    return spell_dfa(format_text(name, spelling.keeps_nul, limits), spelling, dead, limits)
