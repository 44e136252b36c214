"""Regular expressions that end soon on every text: Python's matcher may try every way to read a text.

How many ways there are is counted on the expression itself, so a schema that somebody sent can stop nobody's
computer: `(a+)+b` has 2**n, `[0-9]{6,10}` five.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

LONGEST = 128  # signs of a text that is matched; longer ones have another form
WAYS = 1 << 20  # of reading a text of that length, at most: about 20 ms
PLAIN = ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT")


def ways(pattern: str) -> int:
    """A bound on how many ways of reading a text of LONGEST signs a matcher tries; it stops above WAYS.

    >>> ways("[0-9]{6,10}"), ways("(AA|B)?[0-9]{10}"), ways("(a+)+b") > WAYS
    (5, 3, True)

    Raises re.error for what is no expression, and for parts that look elsewhere: references, lookaround.
    """
    from re import _parser  # type: ignore[attr-defined]

    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            return _ways(_parser.parse(pattern))
        except FutureWarning as warning:
            raise re.error(str(warning)) from warning


def _ways(parts: Any) -> int:
    found = 1
    for kind, value in parts:
        name = str(kind)
        if name in PLAIN:
            each = 1
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            each = _repeated(*value)
        elif name == "SUBPATTERN":
            each = _ways(value[-1])
        elif name == "ATOMIC_GROUP":
            each = _ways(value)
        elif name == "BRANCH":
            each = sum(map(_ways, value[1]))
        else:
            raise re.error(f"a schema's pattern has no {name.lower().replace('_', ' ')}")
        found = min(found * each, WAYS + 1)
    return found


def _repeated(least: int, most: int, body: Any) -> int:
    """Ways of so many repetitions, each of which takes a sign at least."""
    once, total = _ways(body), 0
    if least > LONGEST:
        return 1
    for times in range(int(least), min(int(most), LONGEST) + 1):
        total += once**times
        if total > WAYS:
            break
    return min(total, WAYS + 1)
