"""What the page says of rows rebuilt, and published experiments beside guesses that see nothing."""

import numpy as np
import pytest
from click import UsageError

from benchmarks.rebuilding import measure, signal


def rows(runs=1, data=None, **cell):
    return [next(measure({**cell, "run": run}, data)) for run in range(runs)]


def test_a_point_is_rebuilt_without_noise_and_with_it_worse_than_guessed():
    (open_,) = rows(what="point", private=False, clients=4)
    assert open_["attack_cosine"] > 0.9999
    assert open_["attack_error"] < 1e-6
    assert open_["cluster_right"] == 1
    (noisy,) = rows(what="point", private=True, clients=4)
    assert abs(noisy["attack_cosine"]) < 0.1
    assert noisy["attack_cosine"] < noisy["blind_cosine"] - 0.4
    assert open_["blind_cosine"] == pytest.approx(0.64, abs=0.04)


def test_of_a_clients_mean_hardly_anything_is_gained():
    (open_,) = rows(what="client", private=False, clients=4)
    assert open_["attack_cosine"] > 0.9999
    assert open_["blind_cosine"] == pytest.approx(0.999, abs=0.001)


def test_a_census_row_is_rebuilt_without_noise_and_with_it_worse_than_guessed(tmp_path):
    """Experiment 3: 7 ones in each row, whose norm is what rows are clipped to."""
    rng = np.random.default_rng(1)
    names, m = ("SCHL", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"), 3000
    table = {name: rng.integers(2, 20, m) for name in names}
    np.savez(tmp_path / "acs.npz", state=np.arange(m) % 3, COW=rng.choice([2, 5, 6], m), **table)
    (open_,) = rows(data=tmp_path / "acs.npz", what="row", private=False)
    assert open_["attack_cosine"] > 0.9999
    assert open_["attack_error"] < 0.01
    (noisy,) = rows(data=tmp_path / "acs.npz", what="row", private=True)
    assert abs(noisy["attack_cosine"]) < 0.2 < open_["blind_cosine"] - 0.1
    assert (open_["trials"], open_["features"]) == (10, 126)
    with pytest.raises(UsageError, match="experiment 3 needs rows of the US census"):
        rows(what="row", private=False)


def test_clipping_changes_nothing_of_signal_over_noise():
    assert signal(51, 10, 124, share=0.55, epsilon=1.0) == pytest.approx(0.25, abs=0.01)
    assert signal(51, 10, 124, share=0.55, epsilon=4.5) == pytest.approx(1.0, abs=0.1)
    assert signal(2000, 10, 100, share=0.55, epsilon=1.0) == pytest.approx(11, abs=0.5)


@pytest.mark.parametrize("sites", [1, 20])
def test_rows_that_any_two_steps_tell_are_more_than_those_that_move_alone(sites):
    (found,) = rows(what="steps", set="mixture, d = 100", sites=sites)
    assert found["any_exact"] >= 2 * found["alone_exact"] > 0


@pytest.mark.nightly
def test_digits_tell_as_many_rows_as_the_page_says():
    found = rows(what="steps", set="digits", sites=1, runs=10)
    assert np.mean([row["alone_exact"] for row in found]) == pytest.approx(2.4, abs=1.2)
    assert np.mean([row["any_exact"] for row in found]) == pytest.approx(17, abs=5)
    assert sum(row["alone_false"] for row in found) == 0
