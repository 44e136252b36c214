"""Guessed IDs: all are found with a shared key, and as many as questions buy with a quota."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from field import SeededCoins
from secfc.attacks.dictionary import DictionaryGame
from secfc.cli import main


@pytest.mark.parametrize(("n", "t"), [(3, 1), (5, 2)])
def test_t_clients_find_what_their_quotas_buy_and_the_server_alone_nothing(n, t):
    rng, coins, quota = np.random.default_rng(n), SeededCoins(n, "game"), 40
    sets = [rng.choice(300, quota, replace=False).tolist() for _ in range(n)]
    guesses = rng.permutation(300).tolist()
    truth = set().union(*sets[t:])
    # The control: whoever has the key finds everybody, and nobody else.
    shared = DictionaryGame.of(sets, t, 0, coins)
    control = shared.by_key(guesses)
    assert (control.tested, control.found, control.wrong) == (300, len(truth), 0)
    game = DictionaryGame.of(sets, t, quota, coins)
    assert len(game.union) == len(truth)
    looked = game.by_questions(guesses)
    bought = t * (quota + 1)
    assert (looked.tested, looked.refused, looked.wrong) == (bought, t, 0)
    assert looked.found == len(truth & set(guesses[:bought]))
    share = len(truth) / 300
    assert looked.expected == pytest.approx(bought * share)
    assert abs(looked.found - looked.expected) < 5 * math.sqrt(bought * share * (1 - share))
    # Parts of the key are worth nothing, all but one of them included; all of them are worth everything.
    every = list(game.plan.evaluators)
    for parts in ([n], every[:t], [*every[:t], n], every[:-1], every[1:]):
        alone = game.by_own_keys(parts, guesses)
        assert (alone.found, alone.wrong) == (0, 0)
    assert game.by_own_keys(every, guesses).found == len(truth)


def test_the_command_prints_what_was_expected_and_found():
    line = ["attack", "dictionary", "--ids", "20", "--digits", "2", "--quota", "20"]
    told = CliRunner().invoke(main, line)
    assert told.exit_code == 0, told.output
    assert "1 client, shared key" in told.output
    found = json.loads(CliRunner().invoke(main, [*line, "--json"]).stdout)
    assert found["1 client, shared key"]["found"] == found["union"]
    assert found["1 client, quota of 20"]["tested"] == 21
    assert found["the server alone"]["found"] == 0
    refused = CliRunner().invoke(main, [*line, "--ids", "21"])
    assert refused.exit_code == 2
    assert "--ids 21: at most --quota (20)" in refused.output
