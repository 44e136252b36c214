"""Pairwise keys: the same at both ends, of whoever is there, and a key that is none names its sender."""

import numpy as np
import pytest

import secfc
from field import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.coded.messages import PublicKey
from secfc.coded.sharing import pair_keys
from secfc.errors import FaultyClient
from secfc.roles.messages import Contributors

NOT_KEYS = [PublicKey(bytes(32)), Contributors(np.ones(5, bool))]  # of small order; another message


def plan(corrected):
    federation = secfc.Federation.from_arrays(np.random.default_rng(0).normal(size=(5, 4, 2)))
    way = secfc.SecFC(k=2, threshold=secfc.Threshold(1, corrected=corrected), disclosure=secfc.Distances())
    return way.plan(PublicFacts.of(federation))


def finish(role, inbox):
    with pytest.raises(StopIteration) as done:
        role.send(inbox)
    return done.value.value


@pytest.mark.parametrize("corrected", [0, 1])
def test_both_ends_have_the_same_keys_and_others_have_none(corrected):
    p = plan(corrected)
    roles = {name: pair_keys(p, name, coins=SeededCoins(0, name)) for name in p.clients}
    sent = {name: next(role) for name, role in roles.items()}
    for exchange in sent.values():
        # Whoever is silent stops nobody, and a message of another round is no key.
        assert exchange.enough == 0
        assert exchange.exact
    silent = p.clients[4]
    keys = {
        name: finish(role, {other: sent[other].send[name] for other in p.clients[:4] if other != name})
        for name, role in roles.items()
        if name != silent
    }
    drawn = {}
    for j, name in enumerate(p.clients[:4]):
        assert keys[name].peers == {0, 1, 2, 3} - {j}
        for peer, stream in keys[name].streams(0, b"test").items():
            drawn.setdefault(frozenset((j, peer)), []).append(stream.bytes(16))
    assert all(len(both) == 2 and both[0] == both[1] for both in drawn.values())
    assert len({both[0] for both in drawn.values()}) == 6


@pytest.mark.parametrize("body", NOT_KEYS, ids=lambda body: type(body).__name__)
def test_a_key_that_is_none_is_blamed_and_with_deviating_clients_left_out(body):
    for corrected in (0, 1):
        p = plan(corrected)
        roles = [pair_keys(p, name, coins=SeededCoins(0, name)) for name in p.clients[:3]]
        mine, good, _ = (next(role) for role in roles)
        assert set(mine.send) == set(p.clients[1:])
        inbox = {"client-1": good.send["client-0"], "client-2": body}
        if corrected:
            assert finish(roles[0], inbox).peers == {1}
        else:
            with pytest.raises(FaultyClient, match="client-2"):
                roles[0].send(inbox)
