"""No mechanism without an audit that a control refutes: classes and releases are read off the code."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np

import secfc
from field import SeededCoins
from secfc.feddp import OURS, Cones, FedDPKMeans, ServerNoise, Votes, aggregator, plan
from secfc.feddp.auditing import audit_run, without_client, without_row
from secfc.privacy import Neighbors, events

ROOT = Path(__file__).parents[3]
DELTA = 1e-6
# Whoever says what a release costs, and the audit that its claim stands and that less noise is refuted.
AUDITS = {
    "DiscreteLaplaceNoise": ("privacy/test_audit.py", "true_claims_stand_and_a_fifth"),
    "FedDPPlan": ("feddp/test_auditing.py", "half_the_noise_is_refuted_in_one_run"),
    "GaussianStep": ("privacy/test_audit.py", "a_shift_by_counts_refutes_half"),
    "Laplace": ("privacy/test_audit.py", "true_claims_stand_and_a_fifth"),
    "NoiseInShares": ("disclosure/test_noise.py", "an_audit_of_whole_runs"),
    "NoisySums": ("disclosure/test_noisy_sums.py", "an_audit_of_a_step"),
    "RandomizedResponse": ("feddp/test_released_labels.py", "an_audit_of_labels"),
    "RoundedGaussianNoise": ("privacy/test_audit.py", "a_shift_by_counts_refutes_half"),
    "ScaleNoise": ("scaling/test_noisy_scaling.py", "an_audit_of_sums"),
    "ServerNoise": ("feddp/test_auditing.py", "half_the_noise_is_refuted_in_one_run"),
    "SharedNoise": ("feddp/test_auditing.py", "noise_in_layers_is_what_it_claims_and_half"),
}
ADD_UP = {"Ledger", "Mechanism", "SecFC"}  # what others claim
EVENTS = {name for name, one in vars(events).items() if getattr(one, "__module__", "") == events.__name__}
EVENTS = EVENTS - {"Neighbors"} | {"Event", "MechanismOutput"}


def returned(function):
    """The names in what a function is said to return."""
    return {n.id for n in ast.walk(function.returns or ast.Pass()) if isinstance(n, ast.Name)}


def test_whoever_claims_a_cost_has_an_audit_and_a_control():
    claims = {
        one.name
        for path in (ROOT / "secfc").rglob("*.py")
        if "secfc.privacy" in (text := path.read_text())
        for one in ast.parse(text).body
        if isinstance(one, ast.ClassDef)
        and any(isinstance(f, ast.FunctionDef) and returned(f) & EVENTS for f in one.body)
    }
    assert claims == set(AUDITS) | ADD_UP
    for path, test in AUDITS.values():
        tree = ast.parse((ROOT / "tests/secfc" / path).read_text())
        (found,) = (f for f in tree.body if getattr(f, "name", "").startswith(f"test_{test}"))
        asserted = [n for a in ast.walk(found) if isinstance(a, ast.Assert) for n in ast.walk(a)]
        names = {getattr(n, "attr", getattr(n, "id", "")) for n in asserted}
        assert names & {"refutes", "is_refuted", "caught"}, (
            test
        )  # true claims stand, and the control does not


def names_of_releases():
    """Every release that a plan has a noise for, but for the number of its step."""
    (one,) = (
        c for c in ast.parse(Path(plan.__file__).read_text()).body if getattr(c, "name", "") == "FedDPPlan"
    )
    found = set()
    for function in [f for f in one.body if isinstance(f, ast.FunctionDef) and f.name.endswith("_parts")]:
        parts = {id(c) for j in ast.walk(function) if isinstance(j, ast.JoinedStr) for c in ast.walk(j)}
        found |= {
            c.value
            for statement in function.body[1:]
            for c in ast.walk(statement)
            if isinstance(c, ast.Constant) and isinstance(c.value, str) and c.value and id(c) not in parts
        }
    return found


def ball(n=3, rows=40):
    """Three clusters in six features, and a row of the first client at the wall."""
    rng = np.random.default_rng(0)
    far = np.eye(6)[:1] * 1e6
    parts = [rng.normal(size=(rows, 6)) / 2 + rng.integers(0, 3, (rows, 1)) for _ in range(n)]
    return [np.concatenate([far, parts[0]]), *parts[1:]], rng.normal(size=(30, 6))


def way(**more):
    return FedDPKMeans(3, 4.0, DELTA, **({"noise": ServerNoise()} | more))


OF_CLIENTS = {"neighbors": Neighbors(unit="client"), "rows_per_client": 40}
APART = replace(OURS, joint=False)
RUNS = [
    {},
    {"variant": APART},
    OF_CLIENTS | {"variant": APART},
    {"start": Votes(boxes=2, lines=1), "bound": 3.0},
    {"start": Cones(boxes=2), "bound": 3.0},
]


def moved_most(first=0):
    """What every release is moved by a canary at most, in units of its sensitivity, and who is refuted."""
    found, refuted = {}, set()
    for number, more in enumerate(RUNS, first):
        arrays, held = ball()
        data = secfc.Federation.from_arrays(arrays, server_points=None if "bound" in more else held)
        leave = without_client if "neighbors" in more else lambda data, name: without_row(data, name, 0)
        coins = lambda party, number=number: SeededCoins(number, f"every {party}")  # noqa: E731
        result = secfc.fit(way(**more), data, seed=number, coins=coins, keep_bodies=True)
        audited = audit_run(result, data, leave(data, data.names[0]))
        for one in audited.contributions:
            name = one.what.split(" of step ")[0]
            found[name] = max(found.get(name, 0.0), one.moved / one.sensitivity)
            if audited.is_refuted and one.beyond:
                refuted.add(name)
    return found, refuted


def split_at_the_wall(books, centers):
    """A question as any server may ask it: whether a cluster is where the canary is."""
    wall = np.zeros(centers.shape[1])
    wall[0] = 2.0
    return (np.vstack([centers[:-1], wall]),)


def test_every_release_is_moved_by_its_sensitivity_and_half_of_that_is_refuted(monkeypatch):
    monkeypatch.setattr(aggregator.Aggregator, "find_splits", split_at_the_wall)
    found, refuted = moved_most()
    assert set(found) == names_of_releases()
    assert min(found.values()) > 0.95
    assert max(found.values()) <= 1 + 1e-9
    assert not refuted
    # Control: sensitivities of half their size are caught in every one, though others' noise moves some.
    part, caught = plan._part, set()
    monkeypatch.setattr(plan, "_part", lambda what, size, s, noise: part(what, size, s / 2, noise))
    for again in range(5):
        caught |= moved_most(10 * again)[1]
        if caught == set(found):
            break
    assert caught == set(found)
