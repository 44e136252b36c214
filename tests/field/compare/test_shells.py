"""Shells about public centers: sums on shares against Python integers, and what one row moves."""

import numpy as np
import pytest

from field.code.lagrange_code import LagrangeCode
from field.compare import shells
from field.compare.assignment_step import AssignmentStep, SharedLabels
from field.compare.correlated_randomness import NEXT
from field.compare.dealer_protocol import PartyTables, combine_openings
from field.compare.shared_step import last_of_one_hot
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import SeededCoins

BASIS = Basis(LANE_PRIMES[:2])


def plain_step(points, centers, radius, unit):
    """R and N (k, d + 1) of Python integers; and each row's outcome (m,)."""
    k, found, outcomes = len(centers), np.zeros((len(centers), points.shape[1] + 1), object), []
    for x in points.astype(object):
        squares = [sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in centers.astype(object)]
        h = squares.index(min(squares))
        j = next((j for j in range(6) if squares[h] <= radius**2 * 2**j), None)
        outcomes.append(6 * k if j is None else 6 * h + j)
        if j is not None:
            weight = (128, 90, 64, 45, 32, 22)[j]
            found[h, :-1] += weight * (x - centers[h].astype(object))
            found[h, -1] += unit * weight
    return found, np.array(outcomes)


def compete(contest, basis, squares, known, members=3, seed=0, levels=()):
    """One-hot labels (lanes, outcomes, m) that members' shares add up to, and what they opened."""
    m = squares.shape[1]
    schedule = shells.ShellTournament.arrange(contest, basis, m, known, levels)
    game = AssignmentStep(schedule, basis, tested=False)
    rho = basis.sample(squares.shape, SeededCoins(seed, "rho"))
    masked = basis.add(basis.reduce(squares), rho)
    streams = [lambda j=j: SeededCoins(seed, f"member {j}") for j in range(members)]
    portions = game.deal_words(rho, [stream() for stream in streams], 0)
    first = next(portions)
    hands = [PartyTables(stream(), None if j else first).take() for j, stream in enumerate(streams)]
    old = SharedLabels(np.zeros(0), np.zeros(0))
    moves = [
        game.play(masked, old, hand, SeededCoins(seed, f"own {j}"), lead=j == 0)
        for j, hand in enumerate(hands)
    ]
    opened, views = None, []
    while True:
        said, done = [], []
        for move in moves:
            try:
                said.append(move.send(opened))
            except StopIteration as end:
                done.append(end.value[0].parts)
        if done:
            return last_of_one_hot(basis, combine_openings(basis, done)), views
        if said[0] is NEXT:
            hands[0].feed(next(portions))
            opened = None
        else:
            opened = combine_openings(basis, said)
            views.append(opened)


@pytest.mark.parametrize(("k", "levels"), [(1, ()), (2, ()), (5, ()), (5, (2,)), (9, (5, 2))])
def test_a_contest_finds_the_shell_about_the_nearest_center(k, levels):
    rng = np.random.default_rng(k)
    points, centers, radius = rng.integers(-60, 60, (90, 2)), rng.integers(-60, 60, (k, 2)), 9
    points[0], points[1] = centers[0], centers[-1] + (9, 0)  # on a center; where the first shell ends
    squares = ((points[None] - centers[:, None]) ** 2).sum(axis=2)
    contest = shells.shell_contest(k, radius)
    one_hot, _ = compete(contest, BASIS, squares, shells.shell_squares(radius), levels=levels)
    _, outcomes = plain_step(points, centers, radius, 1)
    assert len(set(outcomes.tolist())) > 4
    won = outcomes == np.arange(6 * k + 1)[:, None]
    assert (BASIS.lift(one_hot) == won).all()
    # And so say its own bits, where members play it in one level.
    rows = [*squares, *contest.known]
    bits = np.array([v * rows[a] > u * rows[b] for a, b, u, v in contest.comparisons])
    assert ((bits[contest.literals] == contest.wanted[:, :, None]).all(axis=1)[:-1] == won[:-1]).all()


@pytest.mark.parametrize("much", [0, 1])
def test_a_row_too_far_for_the_modulus_would_weigh_most(much):
    """One step beyond what the modulus decides, a row is taken for one in the first shell."""
    radius, basis = 1 << 10, Basis(LANE_PRIMES[:1])
    contest, farthest = shells.shell_contest(1, radius), basis.modulus // 2
    squares = np.array([[radius**2 + farthest + much]])
    one_hot, _ = compete(contest, basis, squares, shells.shell_squares(radius))
    assert np.flatnonzero(one_hot[0, :, 0])[0] == (0 if much else 6)
    # What is said to be needed holds a row at one end and a center at the other, and the last shell.
    for longest in (100, 1 << 10, 1 << 14):
        needed = shells.shell_modulus(radius, longest, 2 * longest)
        assert needed // 2 >= (3 * longest) ** 2 + 32 * radius**2


def on_shares(points, centers, radius, unit, n, t, seed):
    """R and N (k, d + 1) that shares of rows, and of the outcomes of a contest, decode to."""
    k, code, basis = len(centers), LagrangeCode(BASIS, n, 1, t), BASIS
    squares = ((points[None] - centers[:, None]) ** 2).sum(axis=2)
    one_hot, _ = compete(shells.shell_contest(k, radius), basis, squares, shells.shell_squares(radius))
    rows = code.share(basis.reduce(points), SeededCoins(seed, "rows"))
    flat = code.share(shells.sum_outcomes(basis, one_hot[:, :-1]), SeededCoins(seed, "labels"))
    about, replies = basis.reduce(centers), []
    for x, labels in zip(rows, flat, strict=True):
        _, weights = shells.shell_weights(basis, labels)
        replies.append(shells.residual_sums(basis, basis.matmul(weights, x), weights, about, unit))
    chosen = dict(enumerate(replies[: code.threshold(2)]))
    return basis.lift_signed(code.decode({j: r.reshape(basis.lanes, -1) for j, r in chosen.items()}, 2))


@pytest.mark.parametrize(("n", "t"), [(5, 1), (5, 2), (7, 3)])
def test_sums_on_shares_are_those_of_integers_bit_for_bit(n, t):
    rng = np.random.default_rng(n + t)
    for seed in range(3):
        k, d = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        points, centers = rng.integers(-4096, 4096, (70, d)), rng.integers(-2048, 2048, (k, d))
        radius, unit = int(rng.integers(32, 1500)), int(rng.integers(1, 400))
        found = on_shares(points, centers, radius, unit, n, t, seed)
        expected, _ = plain_step(points, centers, radius, unit)
        assert (found.reshape(k, d + 1) == expected).all()


@pytest.mark.parametrize("k", range(1, 11))
def test_few_numbers_tell_in_which_shell_and_cluster_a_row_is(k):
    basis, outcomes = Basis.for_bound(1 << 50), shells.SHELLS * k
    one_hot = np.eye(outcomes, dtype=np.int64)  # a row in each
    one_hot = np.concatenate([one_hot, np.zeros((outcomes, 1), np.int64)], axis=1)  # and one beyond
    codes = basis.lift_signed(shells.code_rows(basis, shells.sum_outcomes(basis, basis.reduce(one_hot))))
    assert codes.shape == (1 + -(-(k - 1) // 4), outcomes + 1)
    assert len(np.unique(codes, axis=1).T) == outcomes + 1
    assert np.abs(codes).sum(axis=0).max() == (shells.CODED if k > 1 else max(shells.SHELL_CODES))
    assert np.abs(codes).max() <= 1 << 8  # as `field.code.lane_check` has it


def moved_by_search(radius, unit, weigh, rounds=4000):
    """The most that (R, N) moved in so many random replacements of one row, and the worst found by hand."""
    rng, most = np.random.default_rng(0), 0.0
    centers = np.array([[0, 0], [40 * radius, 0]])
    for trial in range(rounds):
        pair = []
        for _ in range(2):
            length = radius * 2 ** (rng.integers(0, 14) / 4 - (trial % 2) * 0.01)
            angle = rng.choice([0, np.pi]) if trial % 3 else rng.uniform(0, 2 * np.pi)
            way = length * np.array([np.cos(angle), np.sin(angle)])
            pair.append(weigh(centers[rng.integers(2)] + np.trunc(way).astype(int), centers))
        most = max(most, float(np.linalg.norm((pair[0] - pair[1]).astype(float))))
    return most


@pytest.mark.parametrize("unit", [1, 300, 3000])
def test_no_replaced_row_moves_sums_further_than_is_said_and_some_as_far(unit):
    radius = 1000
    said = shells.shell_sensitivity(radius, unit)
    found = moved_by_search(
        radius, unit, lambda x, centers: plain_step(x[None], centers, radius, unit)[0].ravel()
    )
    assert 0.995 * said < found <= said


def test_rows_that_keep_their_weight_beyond_the_radius_move_sums_further_than_is_said():
    """A control: the search finds what is not bounded."""
    radius, unit = 1000, 300

    def unweighed(x, centers):
        h = ((x - centers) ** 2).sum(axis=1).argmin()
        return np.ravel(np.eye(2)[h][:, None] * 128 * np.append(x - centers[h], unit))

    assert moved_by_search(radius, unit, unweighed, 200) > 2 * shells.shell_sensitivity(radius, unit)
