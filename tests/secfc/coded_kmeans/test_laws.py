"""Laws of clusters: two runs of the protocol over points that are alike somehow, and no twin in plaintext.

A twin shares quantizer, start and scale with what it judges, and so would share their faults.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import secfc
from secfc.algorithm import PublicFacts
from secfc.data.inputs import build_algorithm
from secfc.errors import InputError
from secfc.kmeans.starts import STARTS, GivenLabels
from tests.nightly import by_night, every, short
from tests.secfc.coded_kmeans.test_degenerate_points import POLICIES

BOUND, K, REACH, AWAY = 32.0, 3, 4, 20


@dataclass(frozen=True)
class Case:
    """Points (m, d) on a grid, the rows of each client, and how their run starts.

    start: the label of each row, or the name of a start of `STARTS`.
    """

    points: np.ndarray
    parts: tuple[np.ndarray, ...]
    start: object
    policy: str
    bound: float = BOUND

    @property
    def data(self):
        return secfc.Federation.from_arrays([self.points[part] for part in self.parts])

    @property
    def algorithm(self):
        named = isinstance(self.start, str)
        init = STARTS[self.start] if named else GivenLabels(self.start[np.concatenate(self.parts)])
        policy = POLICIES[self.policy]
        if init.needs_distances and policy != secfc.Distances():
            policy = replace(policy, consent=True)
        return build_algorithm(secfc.SecFC, k=K, t=1, init=init, disclosure=policy, coarse="allow")

    @property
    def possible(self):
        """Whether the policy takes the start."""
        try:
            self.algorithm.plan(PublicFacts.of(self.data, self.bound))
        except InputError:
            return False
        return True

    def run(self):
        """The result, and the label of each row (m,)."""
        result = secfc.fit(self.algorithm, self.data, seed=5, bound=self.bound)
        labels = np.empty(len(self.points), int)
        labels[np.concatenate(self.parts)] = result.flat
        return result, labels


def split_rows(rng, rows, n=5):
    return tuple(np.split(rows, np.sort(rng.choice(np.arange(1, len(rows)), n - 1, replace=False))))


def draw_case(rng, policy, start, kinds):
    """A case; kinds: of points that differ, or 0 for points of the grid."""
    m, d = int(rng.integers(8, 30)), int(rng.integers(1, 4))
    points = rng.integers(-REACH, REACH + 1, (m, d)).astype(float)
    if kinds:
        points = points[rng.integers(0, kinds, m)]
    if start == "given":
        start = rng.integers(-1, K, m)
        start[0] = 0
    return Case(points, split_rows(rng, np.arange(m)), start, policy)


# --- what changes no label: another case, by what a cost is multiplied ------------------------------


def permute_rows(case, rng):
    return replace(case, parts=split_rows(rng, rng.permutation(len(case.points)))), 1


def double_points(case, rng):
    """Rows m to 2 m - 1 are the same once more, at the same clients."""
    parts = tuple(np.concatenate([part, part + len(case.points)]) for part in case.parts)
    start = case.start if isinstance(case.start, str) else np.tile(case.start, 2)
    return replace(case, points=np.tile(case.points, (2, 1)), parts=parts, start=start), 2


def move_rows(case, rng):
    """Between clients, while all rows keep their order, by which starts draw."""
    return replace(case, parts=split_rows(rng, np.arange(len(case.points)))), 1


def scale_points(case, rng):
    factor = 2.0 ** int(rng.integers(-40, 40))
    return replace(case, points=case.points * factor, bound=BOUND * factor), factor**2


def translate_points(case, rng):
    return replace(case, points=case.points + rng.integers(-AWAY, AWAY + 1, case.points.shape[1])), 1


def negate_points(case, rng):
    return replace(case, points=-case.points), 1


def permute_features(case, rng):
    return replace(case, points=case.points[:, rng.permutation(case.points.shape[1])]), 1


def add_constant(case, rng):
    return replace(case, points=np.insert(case.points, 0, rng.integers(-AWAY, AWAY + 1), axis=1)), 1


def change_policy(case, rng):
    others = [replace(case, policy=name) for name in POLICIES if name != case.policy]
    return next((other for other in rng.permutation(others) if other.possible), case), None


def restart(case, rng):
    """From the end."""
    result, labels = case.run()
    assert result.converged
    again, _ = (other := replace(case, start=labels)).run()
    assert again.n_iter == 1
    return other, None


def predict_own_points(case, rng):
    result, _ = case.run()
    if result.model is not None:
        assert (np.concatenate(result.predict(case.data)) == result.flat).all()
    return case, 1


LAWS = (
    permute_rows, double_points, move_rows, scale_points, translate_points, negate_points, permute_features,
    add_constant, change_policy, restart, predict_own_points,
)  # fmt: skip
# Most starts draw rows by their places; `Splitting` draws a direction, which means features.
BY_ROWS, BY_FEATURES = (permute_rows, double_points), (negate_points, permute_features, add_constant)
WITHOUT = dict.fromkeys(STARTS, BY_ROWS) | {"splitting": BY_FEATURES, "given": ()}


def laws_in_turn(place):
    """By day: where the run of a policy, by its place, starts from, and two laws that are held."""
    start = "random-points" if place % 4 == 1 else "given"
    allowed = [law for law in LAWS if law not in WITHOUT[start]]
    return start, [allowed[(4 * place + i) % len(allowed)] for i in range(2)]


def test_every_law_is_held_by_day():
    assert {law for place in range(len(POLICIES)) for law in laws_in_turn(place)[1]} == {*LAWS}


# By day two laws a policy, every other over few different values; all laws, from all starts, by night.
CASES = [(name, 0 if i % 2 else 3) for i, name in enumerate(POLICIES)]


@pytest.mark.parametrize(
    ("policy", "kinds"), [*every(2, CASES), *by_night(*((name, 3 - kinds) for name, kinds in CASES))]
)
def test_labels_are_as_the_law_says(policy, kinds):
    place, held = list(POLICIES).index(policy), 0
    for trial in range(short(1, nightly=5)):
        rng = np.random.default_rng([place, kinds, trial])
        for start in short(laws_in_turn(place)[:1], nightly=WITHOUT):
            case = draw_case(rng, policy, start, int(rng.integers(1, kinds + 1)) if kinds else 0)
            if not case.possible:
                continue
            result, labels = case.run()
            allowed = [law for law in LAWS if law not in WITHOUT[start]]
            for law in short(laws_in_turn(place)[1], nightly=allowed):
                other, factor = law(case, rng)
                found, theirs = other.run()
                where = (law.__name__, start, trial)
                assert (theirs.reshape(-1, len(labels)) == labels).all(), where
                if factor is not None:
                    assert found.n_iter == result.n_iter, where
                    assert result.cost is None or found.cost == result.cost * factor, where
                held += 1
    assert held >= short(2, nightly=100)


def test_what_is_no_law_changes_labels():
    """One feature alone on another scale, and a point less in a start."""
    rng = np.random.default_rng(1)
    case = draw_case(rng, "distances", "given", 0)
    case = replace(case, points=rng.integers(-REACH, REACH + 1, (len(case.points), 2)).astype(float))
    _, labels = case.run()
    _, stretched = replace(case, points=case.points * [1, 7]).run()
    _, moved = replace(case, start=np.where(case.start == 0, 1, case.start)).run()
    assert (stretched != labels).any()
    assert (moved != labels).any()
