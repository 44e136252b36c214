"""Who owns which row: public under `Open`, and under `Private` in no message.  There is no more to attack."""

import numpy as np

import secfc
from secfc.attacks.views import View
from secfc.coded.membership import Private

COUNTS = (1, 2, 27, 6)


def owners(view, m):
    """A guess (m,) of the client of every row, from the sizes of what others dealt to one of them."""
    dealt = {}
    for e in view.received():
        if e.kind in ("RowShares", "ShareBlock"):
            dealt[e.sender] = dealt.get(e.sender, 0) + e.body.values.shape[1]
    sent = np.array([dealt.get(name, 0) for name in view.plan.clients[1:]], float)
    # One client after the other, each with its part of the rows that are not the coalition's own.
    ends = COUNTS[0] + np.rint(np.cumsum(sent) / sent.sum() * (m - COUNTS[0])).astype(int)
    return 1 + np.searchsorted(ends, np.arange(m), side="right")


def test_owners_are_read_off_shares_of_own_rows_and_hidden_ones_are_guessed_like_by_anybody():
    points = np.random.default_rng(0).normal(size=(sum(COUNTS), 2))
    ids = [f"id{i}" for i in range(len(points))]
    cuts = np.cumsum(COUNTS)[:-1]
    data = secfc.Federation.from_arrays(
        np.split(points, cuts), ids=[[ids[i] for i in part] for part in np.split(np.arange(len(ids)), cuts)]
    )
    truth = np.repeat(np.arange(len(COUNTS)), COUNTS)[COUNTS[0] :]
    right = {}
    for name, membership in (("open", secfc.Open()), ("private", Private(bound=64, sized=False))):
        way = secfc.SecFC(2, threshold=1, max_iter=1, membership=membership)
        result = secfc.fit(way, data, bound=8.0, keep_bodies=True)
        guess = owners(View.of(result, result.plan, data.names[0]), len(points))[COUNTS[0] :]
        right[name] = float((guess == truth).mean())
    assert right["open"] == 1.0
    blind = np.repeat([1, 2, 3], 12)[: len(truth)]  # who knows the number of clients alone
    assert abs(right["private"] - float((blind == truth).mean())) < 0.1
