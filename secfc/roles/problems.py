"""A number for every way in which a run ends by an error: the same in every version, to be looked up.

`secfc/deploy/problems.md` says of each what happened, who may have done it, and what to do.
"""

from __future__ import annotations

# By the class of the error.  A number that was given away never means anything else.
PROBLEMS = {
    # Losses: nobody is blamed, and the same command goes on where the run was.
    "TooFewReplies": 101,
    "Indispensable": 102,
    "PartiesAway": 103,
    # What parties agreed on.
    "PlanMismatch": 201,
    "RangeExceeded": 202,
    "BudgetSpent": 203,
    "DisputedRows": 204,
    "TooManyHolders": 205,
    "SharedIds": 206,
    "UnionFailed": 207,
    "MasksSpent": 208,
    "RowsLost": 209,
    # Somebody broke the protocol.
    "FaultyClient": 301,
    "FaultyServer": 302,
    "SuspectedParties": 303,
    "RowsRefused": 304,
    "LiarsExceeded": 305,
    "TamperedMessage": 306,
    # Another party ended the run, and said so.
    "Ended": 401,
    # Between organizations, before the run.
    "BelowFloor": 501,
    "NotAdmitted": 502,
}


def problem_id(error: BaseException) -> str | None:
    """The id of an error, as "SECFC-301"; None for one that has none."""
    for kind in type(error).__mro__:
        if kind.__name__ in PROBLEMS:
            return f"SECFC-{PROBLEMS[kind.__name__]}"
    return None
