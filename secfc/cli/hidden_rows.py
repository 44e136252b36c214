"""Options of hidden membership: whose rows are whose, and how those that several hold are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from secfc.cli.method import Asked, Option

if TYPE_CHECKING:
    from secfc.coded.membership import Private
    from secfc.data.federation import Federation

HIDDEN_ROWS = (
    Option(
        "--membership",
        type=click.Choice(["open", "private"]),
        default="open",
        show_default=True,
        part="disclosure",
        help="private: hide which client holds which point, and how many, by a private set union of the IDs "
        "(--id-column, or else the rows themselves). It needs t of at least 1.",
    ),
    Option(
        "--merge/--no-merge",
        default=True,
        show_default=True,
        part="disclosure",
        help="private: count a point that several clients hold once. Without it no two may hold the same ID.",
    ),
    Option(
        "--counts",
        type=click.Choice(["hidden", "opened"]),
        default="opened",
        show_default=True,
        part="disclosure",
        help="private: whether all learn how many clients hold each point. hidden is for clients that follow "
        "the protocol: one that sends false data on purpose may then read others' from the labels.",
    ),
    Option(
        "--on-conflict",
        type=click.Choice(["fail", "separate", "mean"]),
        default="fail",
        show_default=True,
        part="disclosure",
        help="private: of an ID whose holders have different data. fail: end the run, and tell each "
        "site which of its IDs. separate: each version is a point of its own. mean: the mean of all holders.",
    ),
    Option(
        "--verify-union",
        is_flag=True,
        part="disclosure",
        help="private: clients of the committee compute again what the server announces of the union, how "
        "many hold each point and which are in dispute, and name a server that says something else.",
    ),
    Option(
        "--quota",
        type=click.IntRange(1, 1 << 24),
        metavar="IDS",
        part="disclosure",
        help="private: let the server and t+1 clients compute pseudonyms of IDs together, for at most so "
        "many IDs of each client, so that nobody tests guesses of IDs at will. A public number that does not "
        "follow from anybody's; every client computes for all of it, about a second for 2,000.",
    ),
)


def private_rows(asked: Asked, t: int) -> tuple[Private, tuple[str, ...]]:
    """Hidden membership as it was asked for, and notes on it; any t clients may collude with the server.

    Raises Refused where a library is missing.
    """
    from psu import Threshold
    from psu.ristretto import require
    from secfc.cli.errors import Refused
    from secfc.coded.membership import SHARED_KEY, Private

    quota = asked["quota"]
    try:
        if quota:
            require()
    except ImportError as error:
        raise Refused(str(error)) from error
    kept = Private(
        Threshold(t),
        merge=asked["merge"],
        counts=asked["counts"],
        on_conflict=asked["on_conflict"],
        schema=asked.settings.linkage,
        verify=asked["verify_union"],
        tags="oblivious" if quota else "shared key",
        quota=quota,
    )
    order = (
        "rows are ordered by pseudonyms of the IDs, which are drawn anew in every run: the same --seed gives "
        "other starts"
    )
    return kept, (order, *(() if quota else (f"{SHARED_KEY}; --quota prevents that",)))


ALONE = (
    "no ID has two holders: if some should have, compare how sites write them (zeros on the left, case, "
    "umlauts), or link by a schema (--schema)"
)


def unlinked(algorithm: Any, plan: Any, federation: Federation) -> tuple[str, ...]:
    """A hint where all learned that no two clients hold the same ID, which may be a matter of spelling."""
    membership = getattr(algorithm, "membership", None)
    opened = getattr(membership, "merge", False) and getattr(membership, "counts", "") == "opened"
    alone = opened and federation.n > 1 and plan.layout.multiple == 1
    return (ALONE,) if alone and all(party.ids is not None for party in federation.parties) else ()
