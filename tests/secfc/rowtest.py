"""What the test of shared rows adds to golden lists of messages."""

from collections import Counter

from secfc.roles.exchange import SERVER


def messages(n, t):
    """(kind, sender, recipient) of every message of a test in which nobody is lost."""
    names = [f"client-{j}" for j in range(n)]
    for one in names:
        yield from ((kind, one, SERVER) for kind in ("Commitment", "Coin", "ProjectedShares"))
        yield from ((kind, SERVER, one) for kind in ("TossedCoins", "TossedCoins", "Contributors"))
        yield from (("MaskChoice", one, other) for other in names if other != one)
        # The first t + 1 verify.
        yield from (("ProjectedShares", one, other) for other in names[: t + 1] if other != one)


def kinds(n, t, parties):
    """How many of each kind a coalition received from others, sent to others, and sent to itself."""
    sides = {"received": Counter(), "sent": Counter(), "inside": Counter()}
    for kind, sender, recipient in messages(n, t):
        ours = (sender in parties, recipient in parties)
        side = {(False, True): "received", (True, False): "sent", (True, True): "inside"}.get(ours)
        if side:
            sides[side][kind] += 1
    return {side: dict(table) for side, table in sides.items()}


def with_rowtest(golden, n, t):
    """A golden list {parties: {side: {kind: count}}} with these messages added."""
    out = {}
    for parties, sides in golden.items():
        more = kinds(n, t, parties)
        out[parties] = {side: Counter(table) + Counter(more[side]) for side, table in sides.items()}
    return out
