"""Clusterings of pairs: exact, told to nobody but the server, false replies refused; another clusterer."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.cluster import DBSCAN, HDBSCAN, OPTICS, AgglomerativeClustering, KMeans

import secfc
from field.code.reply_check import CheckWeights
from secfc.algorithm import PublicFacts
from secfc.attacks.geometry import place_by_distances, place_by_neighbors
from secfc.attacks.judging import judge_guess
from secfc.cli.deploy.run_file import build_run, leakage_sentences
from secfc.cli.shell.program import main
from secfc.coded.queries import Operation, Query
from secfc.deploy.floors import BelowFloor, Floors
from secfc.deploy.runfile import RunFile
from secfc.errors import FaultyServer, SuspectedParties, TooFewReplies
from secfc.pairs import MOST, MOST_OPENED, NearClusterer
from secfc.roles.exchange import SERVER
from tests.nightly import short
from tests.secfc.queries import altered
from tests.small import federation, split


def squares(plan, points):
    """Squared distances (m, m) of the integers that points become, in Python integers."""
    rows = plan.quantizer(points).astype(object)
    return ((rows[:, None] - rows[None]) ** 2).sum(2)


def expected(way, plan, points):
    """What scikit-learn finds in these squares; half a step more keeps a square of 0 above 0."""
    square = (Fraction(way.eps) * Fraction(plan.quantizer.scale)) ** 2 // 1
    found = DBSCAN(eps=float(square) + 0.5, min_samples=way.min_samples, metric="precomputed")
    return found.fit_predict(squares(plan, points).astype(float))


def whole(data):
    return np.concatenate([party.read() for party in data.parties])


def random_case(seed):
    """A federation with ties, duplicates or neither, and DBSCAN under some threshold, dealer and workers."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    data = federation(n, int(rng.integers(n, 60)), int(rng.integers(1, 5)), seed, integers=seed % 3 == 0)
    t = int(rng.integers(1, (n - 1) // 2 + 1))
    ell = 2 if 2 * (t + 1) + 1 <= n and seed % 2 else 1
    undealt = t == 1 and n >= 3 and seed % 5 == 4
    dealer = None if undealt else "client-0" if seed % 5 == 3 and n > t + 2 else SERVER
    way = secfc.DBSCAN(
        float(rng.uniform(0.3, 2.0)),
        int(rng.integers(1, 8)),
        threshold=secfc.Threshold(t, ell),
        dealer=dealer,
    )
    return data, way


@pytest.mark.filterwarnings("ignore")
def test_labels_are_those_of_scikit_learn_on_the_integers():
    clusters = []
    for seed in range(short(6, nightly=100)):
        data, way = random_case(seed)
        result = secfc.fit(way, data, seed=None if seed % 4 == 0 else 0, sealed=seed % 7 == 1)
        np.testing.assert_array_equal(result.flat, expected(way, result.plan, whole(data)), err_msg=str(seed))
        sizes = np.bincount(result.flat[result.flat >= 0], minlength=result.k)
        np.testing.assert_array_equal(result.sizes[0], sizes)
        clusters.append(result.k)
    assert max(clusters) > 1


DATA = federation(4, 40, 2, seed=3)
WAY = secfc.DBSCAN(0.6, 4)


def test_a_square_is_compared_at_its_edge():
    """Two points exactly eps apart are near, and one step farther they are not."""
    ends = []
    for far in (3.0, 3.0 + 2**-9):
        sites = [np.array([[0.0, 0.0]]), np.array([[far, 4.0]]), np.array([[8.0, -8.0]])]
        ends.append(secfc.fit(secfc.DBSCAN(5.0, 2), sites, bound=8.0).flat.tolist())
    assert ends == [[0, 0, -1], [-1, -1, -1]]


def test_all_points_are_near_within_more_than_the_bound_allows():
    assert secfc.fit(secfc.DBSCAN(1e6, 2), DATA).k == 1


@pytest.mark.parametrize("dealer", [SERVER, "client-3", None])
def test_clients_are_told_the_labels_of_their_own_rows_and_sizes(dealer):
    way = replace(WAY, dealer=dealer)
    result = secfc.fit(way, DATA, keep_bodies=True)
    heard = [e for e in result.transcript.envelopes if e.recipient != SERVER]
    assert not [e for e in heard if e.kind in ("LabelShare", "FinalResult")]
    told = [e for e in heard if e.kind == "InputPartyResult"]
    assert [(e.recipient, len(e.body.labels)) for e in told] == list(
        zip(DATA.names, DATA.counts, strict=True)
    )
    asked = {e.kind for e in heard if e.sender == SERVER and isinstance(e.body, Query)}
    assert asked == {"WithinQuery"}
    # Where labels are what is opened, members tell all clients: the list above is not empty by chance.
    labels = secfc.fit(secfc.SecFC(2, max_iter=1), DATA).transcript.envelopes
    assert [e for e in labels if e.recipient != SERVER and e.kind == "LabelShare"]


def lying(kind, sender, place=5):
    """A network in which a client adds 1 to one number of its first such message, to whomever."""

    def pass_on(e):
        if e.kind != kind or e.sender != sender or not e.body.values.size:
            return [e]
        values = e.body.values.copy()
        values.reshape(len(values), -1)[:, place] ^= 1
        return [replace(e, body=replace(e.body, values=values))]

    return pass_on


@pytest.mark.parametrize("dealer", [SERVER, None])
def test_a_false_reply_is_refused_before_a_bit_is_opened(dealer, monkeypatch):
    way = replace(WAY, dealer=dealer, threshold=secfc.Threshold(1, deviating=0))
    sender = next(e.sender for e in secfc.fit(way, DATA).transcript.envelopes if e.kind == "MaskedDistances")
    fault = lying("MaskedDistances", sender)
    with pytest.raises(SuspectedParties, match="do not fit the shares of the rows; nothing of this step"):
        secfc.fit(way, DATA, faults=fault)
    monkeypatch.setattr(CheckWeights, "fits", lambda *_: True)
    secfc.fit(way, DATA, faults=fault)  # and nobody notices


def test_without_the_check_a_reply_decides_who_is_near(monkeypatch):
    """A client that adds to one masked distance has two points of others called near that are far apart."""
    far = [np.array([[-8.0]]), np.array([[8.0]]), np.array([[0.0]]), np.array([[0.0]])]
    way, true = secfc.DBSCAN(1.0, 2), [-1, -1, 0, 0]
    assert secfc.fit(way, far).flat.tolist() == true

    def push(e):
        if e.kind != "MaskedDistances" or e.sender != "client-2" or not e.body.values.size:
            return [e]
        values, primes = e.body.values.copy(), result.plan.code.basis.primes
        for lane, p in zip(values, primes, strict=False):  # the first pair is that of clients 0 and 1
            lane[0, 0] = (int(lane[0, 0]) + int(result.plan.scale * 16) ** 2) % p
        return [replace(e, body=replace(e.body, values=values))]

    result = secfc.fit(way, far)
    with pytest.raises(SuspectedParties):
        secfc.fit(way, far, faults=push)
    monkeypatch.setattr(CheckWeights, "fits", lambda *_: True)
    assert secfc.fit(way, far, faults=push).flat.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("kind", ["MaskedBits", "LabelShare"])
def test_a_false_word_of_the_committee_is_noticed_where_two_play_each_part(kind):
    """And changes who is near, unnoticed, where one does."""
    alone = replace(WAY, threshold=secfc.Threshold(1, deviating=0))
    true = secfc.fit(alone, DATA)
    sender = next(e.sender for e in true.transcript.envelopes if e.kind == kind)

    def flip(e):
        if e.kind != kind or e.sender != sender:
            return [e]
        return [replace(e, body=replace(e.body, words=e.body.words ^ e.body.words.dtype.type(1)))]

    assert (secfc.fit(alone, DATA, faults=flip).flat != true.flat).any()
    with pytest.raises(SuspectedParties):
        secfc.fit(WAY, DATA, faults=flip)


def test_a_client_that_plants_rows_learns_whether_points_of_others_are_near_them():
    """Equal rows on a grid, one fewer than a core point needs: their labels show where anybody is."""
    others = np.random.default_rng(1).uniform(-4, 4, (24, 2))
    grid = np.stack(np.meshgrid(*[np.arange(-4.0, 5.0)] * 2), axis=2).reshape(-1, 2)
    sites = [others[:12], others[12:], np.repeat(grid, 2, axis=0)]
    told = secfc.fit(secfc.DBSCAN(0.45, 3), sites, bound=4.5).labels[2][::2] >= 0
    near = (((grid[:, None] - others) ** 2).sum(2) <= 0.45**2).any(axis=1)
    np.testing.assert_array_equal(told, near)
    assert 5 < near.sum() < 40


@pytest.mark.parametrize("kind", ["MaskedDistances", "MaskedBits", "ProjectedShares", "LabelShare"])
def test_a_client_that_falls_silent_is_replaced(kind):
    data, way = federation(6, 40, 2, seed=3), replace(WAY, threshold=secfc.Threshold(1))
    gone = []

    def lose(e):
        if e.kind == kind and not gone:
            gone.append(e.sender)
        return [] if e.sender in gone else [e]

    result = secfc.fit(way, data, faults=lose)
    counts = np.repeat([name not in result.excluded for name in data.names], data.counts)
    truth = np.full(len(counts), -1)
    truth[counts] = expected(way, result.plan, whole(data)[counts])
    there = np.repeat([name not in gone for name in data.names], data.counts)
    np.testing.assert_array_equal(result.flat[there], truth[there])


@pytest.mark.parametrize("at", [40, 100])
def test_a_crash_is_resumed_with_the_same_labels(at, tmp_path):
    seen = []

    def crash(party, exchange):
        seen.append(party)
        if len(seen) == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        secfc.fit(WAY, DATA, checkpoint=tmp_path, watch=crash)
    result = secfc.fit(WAY, DATA, checkpoint=tmp_path)
    np.testing.assert_array_equal(result.flat, expected(WAY, result.plan, whole(DATA)))


@pytest.mark.parametrize("dealer", [SERVER, None])
def test_one_lost_message_changes_no_label(dealer):
    """Whichever it is: the labels are those of the rows that count, or its receiver hears none."""
    data, way = federation(5, 15, 2, seed=3), secfc.DBSCAN(0.9, 3, threshold=1, dealer=dealer)
    count = len(secfc.fit(way, data).transcript.envelopes)
    for lost in np.random.default_rng(1).permutation(count)[: short(4, nightly=150)].tolist():
        said = []

        def lose(e, said=said, lost=lost):
            said.append(e)
            return [] if len(said) - 1 == lost else [e]

        result = secfc.fit(way, data, faults=lose)
        counts = np.repeat([name not in result.excluded for name in data.names], data.counts)
        truth = np.full(15, -1)
        truth[counts] = expected(way, result.plan, whole(data)[counts])
        for own, due in zip(result.labels, np.split(truth, np.cumsum(data.counts)[:-1]), strict=True):
            assert (own == due).all() or (own == -1).all()


def test_too_few_that_are_there_end_the_run():
    with pytest.raises(TooFewReplies):
        secfc.fit(WAY, DATA, faults=lambda e: [] if e.sender in DATA.names[:2] else [e])


@pytest.mark.parametrize("change", ["square", "other"])
def test_a_client_answers_no_question_but_the_one_of_the_plan(change):
    """With other squares a server would find every distance by bisection."""

    def ask(e):
        if e.kind != "WithinQuery":
            return [e]
        if change == "square":
            return [replace(e, body=altered(e.body, detail=e.body.detail + (np.arange(5) == 0)))]
        subject = replace(e.body.subject, operation=Operation.COMPARE, detail=None)
        return [replace(e, body=replace(e.body, subject=subject))]

    with pytest.raises(FaultyServer, match="asked for something else of pairs than the plan has"):
        secfc.fit(WAY, DATA, faults=ask)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: secfc.DBSCAN(0.0), "eps=0.0: a distance above 0 is needed"),
        (lambda: secfc.DBSCAN(10**400), "eps=10{50,}[.]{3}: a distance above 0 is needed"),
        (lambda: secfc.DBSCAN("x"), "eps='x' is a str: a number is needed"),
        (lambda: secfc.DBSCAN(1.0, 0), "min_samples=0: a point is near itself"),
        (
            lambda: secfc.DBSCAN(1.0, quantization=secfc.Quantization(centers="rounded")),
            "no centers to round",
        ),
        (
            lambda: secfc.fit(WAY, [np.zeros((MOST, 1)), np.zeros((1, 1)), np.ones((1, 1))]),
            "so at most 65536 are taken",
        ),
        (lambda: secfc.fit(WAY, [[[0.0]], [[1.0]]]), "cannot hide points"),
        (lambda: secfc.DBSCAN(1.0, threshold=secfc.Threshold(1, corrected=1)), "corrected=1: false"),
        (lambda: secfc.fit(secfc.Precomputed(None, consent=True), DATA), "clusterer=None at the server"),
        (lambda: secfc.fit(WAY, DATA).predict(DATA), "keeps no model: cluster old and new rows"),
        (lambda: secfc.fit(WAY, DATA).cut(2), "fit SecFC"),
        (lambda: secfc.fit(secfc.DBSCAN, DATA), r"Build it: DBSCAN\(\.\.\.\), with its parameters"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(secfc.InputError, match=message):
        make()


def test_an_eps_of_few_steps_is_said():
    with pytest.warns(secfc.Caution, match="eps=0.01 is 1 step of the integers"):
        secfc.fit(secfc.DBSCAN(0.01, 2, quantization=secfc.Quantization(scale=100.0)), DATA)


# --- in the shell ---------------------------------------------------------------------------------


def run_shell(folder, *words, code=0):
    """What `secfc run --algorithm dbscan` says of DATA, run in this folder."""
    for party in DATA.parties:
        text = "".join(f"{x!r},{y!r}\n" for x, y in party.read().tolist())
        (folder / f"{party.name}.csv").write_text("x,y\n" + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        files = [f"{name}.csv" for name in DATA.names]
        done = CliRunner().invoke(main, ["run", *files, "--algorithm", "dbscan", "--force", *words])
    assert done.exit_code == code, done.output
    return done.output


def test_the_shell_writes_the_labels_of_scikit_learn_and_a_report_that_tells_of_noise(tmp_path):
    said = run_shell(tmp_path, "--eps", "0.6", "--min-samples", "4", "--bound", "8", "--report", "r.json",
                     "--officer", "o.html")  # fmt: skip
    plan = secfc.fit(WAY, DATA, bound=8.0).plan
    truth = expected(WAY, plan, whole(DATA))
    lines = (tmp_path / "secfc-labels.csv").read_text().splitlines()
    np.testing.assert_array_equal([int(line.rpartition(",")[2]) for line in lines[1:]], truth)
    noise = int((truth < 0).sum())
    assert 0 < noise < 40
    assert f"{noise} in none" in said
    found = json.loads((tmp_path / "r.json").read_text())
    assert (found["parameters"]["k"], found["parameters"]["eps"]) == (truth.max() + 1, 0.6)
    assert any("whether they are within eps=0.6" in fact for fact in found["learned"])
    assert found["verified"] is True
    assert found["verification"]["against"] == "scikit-learn's DBSCAN"
    assert "those of scikit-learn's DBSCAN, exactly, on points as whole numbers" in " ".join(said.split())
    plain = run_shell(tmp_path, "--eps", "0.6", "--min-samples", "4", "--bound", "8", "--no-verify")
    assert "Not compared with plaintext" in " ".join(plain.split())
    with pytest.MonkeyPatch.context() as patch:  # a wrong label is said, and none is written
        patch.setattr(secfc.DBSCAN, "label_points", lambda self, near: np.zeros(len(near), np.int32))
        (tmp_path / "secfc-labels.csv").unlink()
        wrong = run_shell(tmp_path, "--eps", "0.6", "--min-samples", "4", "--bound", "8", code=1)
    assert "NOT EXACT: the labels differ from scikit-learn's DBSCAN, in " in " ".join(wrong.split())
    assert not (tmp_path / "secfc-labels.csv").exists()
    page = (tmp_path / "o.html").read_text()
    assert "as many clusters as are found" in page
    assert "uniform subject to their sum, a bit a pair" in page
    assert "k-means" not in page
    # All points may be noise, and reports are written too.
    assert "40 in none" in run_shell(tmp_path, "--eps", "1e-3", "--coarse", "allow")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "needs --eps, the distance"),
        (("--eps", "1", "-k", "3"), "finds how many clusters there are. Leave it out"),
        (("--eps", "1", "-k", "2..5"), "finds how many clusters there are. Leave it out"),
        (("--eps", "0"), "0 is not a positive finite number"),
        (("--eps", "1", "--min-samples", "0"), "0 is not in the range"),
        (("--eps", "1", "--model", "m.npz"), "keeps none that labels new rows. Leave it out"),
        (("--eps", "1", "--plot", "p.png"), "or a tree of clusters: leave it out"),
        (("--eps", "1", "--membership", "private"), "--membership has no meaning for --algorithm dbscan"),
        (("--eps", "1", "--split", "columns"), "joined by secfc alone"),
        (
            ("--algorithm", "precomputed"),
            "in Python: secfc.Precomputed(clusterer, consent=True). Or take dbscan",
        ),
        (("--algorithm", "spherical"), "take secfc with --standardize norm"),
        (
            ("--eps", "1", "--epsilon", "1"),
            "--algorithm dbscan adds no noise. For a budget use",
        ),
    ],
)
def test_what_the_shell_refuses(tmp_path, words, says):
    assert says in run_shell(tmp_path, *words, code=2)


def test_a_run_file_of_one_algorithm_that_finds_k_says_auto():
    identities = {name: bytes([i]) * 32 for i, name in enumerate(("a", "b", "c", "server"))}
    run = RunFile("r", bytes(32), "ws://h", identities, ("x",), "dbscan", "auto", {"eps": 1.0, "bound": 9.0})
    built = build_run(run)
    stakes = built.stakes
    assert (stakes.policy, stakes.centers, stakes.sizes, stakes.deviating) == ("dbscan", False, True, 1)
    assert stakes.largest_k == np.inf
    assert any("of every two rows whether they are near" in said for said in leakage_sentences(built))
    with pytest.raises(secfc.InputError, match='in a run file write k = "auto"'):
        build_run(replace(run, k=4))
    with pytest.raises(BelowFloor, match="policies"):
        Floors(policies=("own-labels",)).check(stakes)


# --- another clusterer: a dataclass with one pure function ----------------------------------------


@dataclass(frozen=True)
class Components(NearClusterer):
    """Single linkage, cut at eps: points that a chain of near ones joins."""

    def label_points(self, pairs):
        from scipy.sparse.csgraph import connected_components

        return connected_components(pairs.unpack(np.arange(len(pairs))))[1].astype(np.int32)


def test_a_further_clusterer_is_one_pure_function():
    from scipy.cluster.hierarchy import fcluster, linkage

    result = secfc.fit(Components(0.5), DATA)
    truth = fcluster(
        linkage(np.sqrt(squares(result.plan, whole(DATA)).astype(float))[np.triu_indices(40, 1)]),
        float(0.5 * result.plan.scale),
        "distance",
    )
    assert len({*zip(result.flat.tolist(), truth.tolist(), strict=True)}) == result.k == truth.max() > 1


# --- what the server can make of the pairs --------------------------------------------------------

SEEN = []


@dataclass(frozen=True)
class Curious(NearClusterer):
    """A server that keeps what it is told."""

    def label_points(self, pairs):
        SEEN.append(pairs.unpack(np.arange(len(pairs))))
        return np.zeros(len(pairs), np.int32)


def test_from_many_neighbors_the_server_places_points_and_from_few_it_does_not():
    points = np.random.default_rng(0).uniform(size=(150, 2))
    between = np.sort(((points[:, None] - points[None]) ** 2).sum(2), axis=None)
    shares = []
    for neighbors in (2, 12):
        eps = float(np.sqrt(between[150 * (neighbors + 1)]))
        plan = secfc.fit(Curious(eps), split(points, 3)).plan
        near = SEEN.pop()
        np.testing.assert_array_equal(near, squares(plan, points) <= Curious(eps).square(plan))
        shares.append(judge_guess(place_by_neighbors(near, 2), points).share[0])
    assert shares[0] < 0.3
    assert shares[1] > 0.9
    assert judge_guess(place_by_neighbors(np.eye(150, dtype=bool), 2), points).share[0] < 0.1


# --- all distances, by consent --------------------------------------------------------------------

CLUSTERERS = (
    DBSCAN(0.6, min_samples=4, metric="precomputed"),
    HDBSCAN(min_cluster_size=5, metric="precomputed", copy=True),
    AgglomerativeClustering(3, metric="precomputed", linkage="average"),
    AgglomerativeClustering(3, metric="precomputed", linkage="single"),
    OPTICS(min_samples=4, metric="precomputed"),
)


@pytest.mark.parametrize("clusterer", CLUSTERERS, ids=lambda found: type(found).__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_clusterers_of_scikit_learn_find_the_same_as_from_the_integers(clusterer):
    result = secfc.fit(secfc.Precomputed(clusterer, consent=True), DATA, keep_bodies=True)
    distances = np.sqrt(squares(result.plan, whole(DATA)).astype(float)) / float(result.plan.scale)
    found = clone(clusterer).fit_predict(distances)
    assert len({*zip(result.flat.tolist(), found.tolist(), strict=True)}) == len({*found.tolist()})
    np.testing.assert_array_equal(result.flat == -1, found == -1)
    assert {e.kind for e in result.transcript.envelopes if e.recipient != SERVER} & {
        "CodedDistances"
    } == set()


@dataclass(frozen=True)
class Keeping:
    """A clusterer that keeps the distances that it was given."""

    def fit_predict(self, distances):
        SEEN.append(distances)
        return np.zeros(len(distances), np.int64)


def raised(m, lie):
    """Which distances (m, m) another geometry of m points has larger by one number, all of them possible."""
    alone = np.arange(m) == 3
    apart = alone if lie == "a coordinate of one point" else np.arange(m) % 2 == 1
    return apart[:, None] != apart


@pytest.mark.parametrize("lie", ["a coordinate of one point", "two groups apart"])
def test_distances_that_other_points_could_have_are_refused_as_well(lie, monkeypatch):
    """No form gives them away: they are those of points with a feature more."""
    more = raised(40, lie)
    near = secfc.DBSCAN(1.0, 3, dealer=None, threshold=secfc.Threshold(1, deviating=0))
    code = secfc.fit(near, DATA).plan.code

    def push(e):
        if (e.sender, e.kind) not in (("client-1", "CodedDistances"), ("client-2", "MaskedDistances")):
            return [e]
        add = more if e.kind == "CodedDistances" else more[np.triu_indices(40, 1)]
        values, number = e.body.values.copy(), int(e.sender[-1])
        for lane, p in zip(values, code.basis.primes, strict=False):
            weight = code.decoding_weights((0, 1, 2), 2)[1][code.basis.primes.index(p), number]
            lane[...] = (lane.astype(np.int64) + add * (100 * pow(int(weight), -1, p) % p)) % p
        return [replace(e, body=replace(e.body, values=values))]

    ways = secfc.Precomputed(Keeping(), consent=True, threshold=1), near
    for way in ways:
        with pytest.raises(SuspectedParties, match="do not fit the shares of the rows"):
            secfc.fit(way, DATA, faults=push)
    monkeypatch.setattr(CheckWeights, "fits", lambda *_: True)
    for way in ways:
        secfc.fit(way, DATA, faults=push)  # and nobody notices


def test_from_all_distances_the_server_places_every_point():
    points = np.random.default_rng(0).normal(size=(40, 3))
    plan = secfc.fit(secfc.Precomputed(Keeping(), consent=True), split(points, 3)).plan
    seen, rows = SEEN.pop() ** 2, plan.quantizer(points) / float(plan.scale)
    assert judge_guess(place_by_distances(seen, 3), rows).error[0] < 1e-9
    assert judge_guess(place_by_distances(seen, 1), rows).error[0] > 0.3


def test_a_party_without_the_consent_of_others_gets_no_share():
    """As where one site's file lacks it: what is compared is the whole value."""
    way = secfc.Precomputed(Keeping(), consent=True)
    other = secfc.Precomputed(None, consent=True)  # clients need no clusterer
    public = PublicFacts.of(DATA)
    assert way.plan(public).digest() == other.plan(replace(public)).digest()
    object.__setattr__(other, "consent", False)
    assert way.plan(public).digest() != other.plan(public).digest()


def test_without_consent_nothing_is_asked():
    with pytest.raises(secfc.InputError, match="consent=False: the server would be given the distance"):
        secfc.Precomputed(Keeping())
    with pytest.raises(secfc.InputError, match="has no fit_predict"):
        secfc.Precomputed("average", consent=True)
    with pytest.raises(secfc.InputError, match="so at most 8192 are taken"):
        secfc.fit(secfc.Precomputed(Keeping(), consent=True), [np.zeros((MOST_OPENED, 1)), [[0.0]], [[1.0]]])


@dataclass(frozen=True)
class Telling:
    """A clusterer that gives what it was made with."""

    told: object

    def fit_predict(self, distances):
        return self.told


@pytest.mark.parametrize(
    ("clusterer", "message"),
    [
        (AgglomerativeClustering, "clusterer=AgglomerativeClustering is a class"),
        (AgglomerativeClustering(2), "AgglomerativeClustering with metric='euclidean' would take rows"),
        (KMeans(2), "KMeans with metric=None would take rows"),
        (
            AgglomerativeClustering(99, metric="precomputed", linkage="single"),
            "refused the distances of 40 points",
        ),
        (Telling([0, 1]), r"Telling gave int64 of shape \(2,\) for 40 points"),
        (Telling(["a"] * 40), "Telling gave <U1 of shape"),
        (Telling(np.full(40, np.nan)), "Telling gave float64 of shape"),
        (Telling(None), "Telling gave object of shape"),
    ],
    ids=str,
)
def test_a_clusterer_that_does_not_fit_distances_is_refused(clusterer, message):
    """Without a word labels of a wrong metric, or too few of them, would pass for results."""
    with pytest.raises(secfc.InputError, match=message):
        secfc.fit(secfc.Precomputed(clusterer, consent=True), DATA)


@pytest.mark.parametrize(
    ("row", "says"), [(slice(1, 2), "do not fit the shares"), (slice(None), "no points have")]
)
def test_false_distances_are_refused(row, says):
    """One is found by the check of replies, and what it misses, one number a point, by the server."""
    way = secfc.Precomputed(Keeping(), consent=True, threshold=1)
    plan = secfc.fit(way, DATA).plan
    SEEN.clear()

    def push(e):
        if e.kind != "CodedDistances" or e.sender != "client-1":
            return [e]
        values = e.body.values.copy()
        weights = plan.code.decoding_weights((0, 1, 2), 2)[1]
        for lane, p in enumerate(plan.code.basis.primes[: len(values)]):
            # Of point 3 all distances, or that to point 1, by 1 more.
            more = np.uint32(pow(int(weights[lane, 1]), -1, p))
            values[lane, row, 3] = (values[lane, row, 3].astype(np.uint64) + more) % p
        return [replace(e, body=replace(e.body, values=values))]

    with pytest.raises(SuspectedParties, match=says):
        secfc.fit(way, DATA, faults=push)
    assert not SEEN
