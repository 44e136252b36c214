"""The class of errors that tell callers of a value of theirs.

An experiment or a command tells its user of these alone as bad input; any other error is a fault of the
program, or of a party, and must not read as advice.
"""


class InvalidValue(ValueError):  # noqa: N818 - named for what it says
    """A parameter or data of the caller that cannot be used.  The message gives value, rule and remedy."""
