"""A dealer and a committee in one place: what tests and benchmarks of `field.compare.dealer_protocol` play
with.
"""

from field.code.masking import PairKeys
from field.compare.correlated_randomness import NEXT
from field.compare.dealer_protocol import (
    DealerSchedule,
    PartyTables,
    combine_openings,
    labels_from_code,
    rerandomize,
)
from field.compare.tournament import Tournament
from field.secrets.coins import SeededCoins


def tournament(contest, basis, m):
    """In groups of up to four."""
    return Tournament(contest, basis, m, (-(-contest.outcomes // 4),))


def play(contest, basis, scaled, members, seed, streams=None, kind=DealerSchedule):
    """(labels, everything that was opened) for scaled distances (k, m) of Python integers."""
    schedule, shares, views = shared(contest, basis, scaled, members, seed, streams, kind)
    keys = [
        PairKeys({i: bytes(14) + bytes(sorted((i, j))) for i in range(members) if i != j})
        for j in range(members)
    ]
    zeros = [list(key.streams(0, b"labels").values()) for key in keys]
    hidden = [rerandomize(share, zero) for share, zero in zip(shares, zeros, strict=True)]
    return labels_from_code(schedule, combine_openings(basis, hidden)), views


def shared(contest, basis, scaled, members, seed, streams=None, kind=DealerSchedule):
    """(schedule, each member's share of the labels before it is hidden, everything that was opened).

    The seed is that of all that the dealer knows; the distances move none of it.
    """
    schedule = kind(contest, basis, scaled.shape[1])
    rho = basis.sample(scaled.shape, SeededCoins(seed, "rho"))
    masked = basis.add(basis.reduce(scaled), rho)
    streams = streams or (lambda j: SeededCoins(seed, f"member {j}"))
    corrected = seed % members
    portions = schedule.deal_words(rho, [streams(j) for j in range(members)], corrected)
    first = next(portions)
    hands = [PartyTables(streams(j), first if j == corrected else None).take() for j in range(members)]
    parts = [schedule.compete(masked, hand, lead=j == 0) for j, hand in enumerate(hands)]
    views = [masked]
    opened = None
    while True:
        opening, shares = [], []
        for part in parts:
            try:
                opening.append(part.send(opened))
            except StopIteration as done:
                shares.append(done.value)
        if shares:
            return schedule, shares, views
        if opening[0] is NEXT:
            assert all(part is NEXT for part in opening)
            hands[corrected].feed(next(portions))
            opened = None
            continue
        opened = combine_openings(basis, opening)
        views.append(opened)
