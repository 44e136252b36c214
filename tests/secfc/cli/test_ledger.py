"""`secfc run --ledger`: budgets last over runs, crashes count in full, and no other data or total gets in."""

import json
import multiprocessing
import warnings

import numpy as np
import pytest

from secfc import NoiseInShares, NoisyStandardize, SecFC
from secfc.data.inputs import lock_file
from secfc.errors import Caution, InputError, OverBudget, PrivacyError, TooFewReplies
from secfc.pipeline import fit
from secfc.privacy import Bound, Budget, Neighbors
from secfc.privacy.budget_file import BudgetLedger, RunRecord, digest_of_rows
from secfc.scaling.algorithm import Scaled
from tests.small import invoke


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    made = []
    for name in "abc":
        made.append(tmp_path / f"{name}.csv")
        rows = rng.normal(rng.integers(0, 2, (40, 1)) * 2.0 - 1, 0.2, (40, 2)).round(3)
        made[-1].write_text("x,y\n" + "\n".join(f"{x},{y}" for x, y in rows.tolist()) + "\n")
    return made


def said(done):
    return " ".join(done.output.split())


def spend(files, tmp_path, *more, epsilon=2.0):
    book = tmp_path / "spent.json"
    out = ("--labels", tmp_path / "l.csv", "--report", tmp_path / "r.json", "--force")
    return invoke(
        "run", *files, "-k", 2, "--epsilon", epsilon, "--radius", 3, "--max-iter", 1, "--ledger", book, *out,
        *more,
    )  # fmt: skip


def test_budgets_add_up_over_runs_until_the_total(files, tmp_path):
    first = spend(files, tmp_path, "--total-epsilon", 3.5)
    assert first.exit_code == 0, first.output
    assert "1 run on these people: epsilon = 2 of 3.5 at delta = 1e-06 spent" in said(first)
    second = spend(files[::-1], tmp_path)  # the same rows
    assert second.exit_code == 2
    assert "after 2 in earlier runs is more than the total of 3.5" in second.stderr
    assert "run with epsilon=1.5 or less" in second.stderr
    less = spend(files, tmp_path, epsilon=1.5)
    assert "2 runs on these people: epsilon = 3.5 of 3.5" in said(less)
    book = BudgetLedger.read(tmp_path / "spent.json")
    assert [one.ended for one in book.runs] == [True, True]
    assert (tmp_path / "spent.json").stat().st_mode & 0o777 == 0o600
    assert all(str(path) not in (tmp_path / "spent.json").read_text() for path in files)


def test_a_run_that_failed_counts_in_full_and_one_that_resumes_counts_once(files, tmp_path, monkeypatch):
    def failing(algorithm, federation, **more):
        if "watch" not in more:  # a tiny run, for the kernels
            return fit(algorithm, federation, **more)
        raise TooFewReplies(3, ("a",))

    kept = ("--checkpoint", tmp_path / "kept")
    with monkeypatch.context() as patch:
        patch.setattr("secfc.pipeline.fit", failing)
        assert spend(files, tmp_path, *kept).exit_code == 1
        assert spend(files, tmp_path).exit_code == 1
    book = BudgetLedger.read(tmp_path / "spent.json")
    assert [(one.epsilon, one.ended) for one in book.runs] == [(2.0, False)] * 2
    done = spend(files, tmp_path, *kept)
    assert done.exit_code == 0, done.output
    assert "2 runs on these people: epsilon = 4 at" in said(done)
    assert not (tmp_path / "kept").exists()
    assert "3 runs" in said(spend(files, tmp_path, *kept))  # a new directory is a new run
    # With less noise in the same directory it would not be the same run, and costs no less.
    book = BudgetLedger.read(tmp_path / "spent.json")
    again = book.enter_run(RunRecord(book.runs[0].name, "", "", 0.5, 1e-6))
    assert again.runs[-1].epsilon == book.runs[0].epsilon


def test_other_data_neighbors_totals_and_files_are_refused(files, tmp_path):
    assert spend(files, tmp_path, "--total-epsilon", 9).exit_code == 0
    other = tmp_path / "other.csv"
    other.write_text(files[0].read_text().replace("\n", "\n0.5,0.5\n", 1))
    book = tmp_path / "spent.json"
    for words, why in (
        (((other, *files[1:]), ()), "is the ledger of other data"),
        ((files, ("--protect", "client")), "counts for neighbors that replace one data point"),
        ((files, ("--total-epsilon", 10)), "and " + str(book) + " has one of 9"),
        ((files, ("--ledger", files[0])), "is no ledger of spent budgets"),
        ((files, ("--ledger", tmp_path / "no" / "x.json")), "No such file or directory. Name a file"),
    ):
        done = spend(words[0], tmp_path, *words[1])
        assert done.exit_code == 2
        assert why in done.stderr
    assert len(BudgetLedger.read(book).runs) == 1
    assert spend((other, *files[1:]), tmp_path, "--same-people").exit_code == 0
    assert len(BudgetLedger.read(book).runs) == 2
    said = json.loads(book.read_text())
    book.write_text(json.dumps({**said, "total": 99.0}))
    assert "was changed since it was written" in spend(files, tmp_path).stderr
    for words in (("--total-epsilon", 3), ("--same-people",)):
        done = invoke("run", *files, "-k", 2, "--epsilon", 1, "--radius", 3, *words)
        assert "needs --ledger FILE" in done.stderr
    done = invoke(
        "run", *files, "-k", 2, "--epsilon", 1, "--radius", 3, "--no-attack", "--ledger", book, "--processes"
    )
    assert "every site remembers its own budget" in done.stderr
    assert "--ledger needs --epsilon" in invoke("run", *files, "-k", 2, "--ledger", book).stderr


def enter(path, number):
    with lock_file(path):
        BudgetLedger.read(path).enter_run(RunRecord(f"{number:032x}", "", "", 0.5, 1e-9)).write()


def test_processes_that_enter_at_once_lose_no_entry(tmp_path):
    path = tmp_path / "spent.json"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.starmap(enter, [(path, number) for number in range(24)])
    assert len({one.name for one in BudgetLedger.read(path).runs}) == 24
    with lock_file(path), pytest.MonkeyPatch.context() as patch:
        patch.setattr("secfc.data.inputs.PATIENCE", 0.1)
        with pytest.raises(InputError, match=r"is in use: .* end it"), lock_file(path):
            pass


def test_the_sum_of_epsilons_and_deltas_at_the_edge_of_a_total(tmp_path):
    book = BudgetLedger(tmp_path / "x", bytes(32)).within(1.0)
    for number in range(10):
        book = book.enter_run(RunRecord(str(number), "", "", 0.1, 1e-6))
    assert book.spent() == pytest.approx((1.0, 1e-5))
    with pytest.raises(OverBudget, match="nothing is left"):
        book.enter_run(RunRecord("more", "", "", 0.001, 1e-6))
    with pytest.raises(PrivacyError, match="do not add up"):
        book.about("d", Neighbors(), same_people=False).about("d", Neighbors("replace"), same_people=False)
    assert repr(book) == f"Spendings({str(tmp_path / 'x')!r}, 10 runs)"


def test_the_digest_of_rows_is_of_the_rows_and_says_nothing_without_its_key():
    rows = np.random.default_rng(0).normal(size=(9, 3))
    one = digest_of_rows(bytes(32), [rows])
    assert one == digest_of_rows(bytes(32), [rows[5:], rows[4::-1]])
    assert one != digest_of_rows(bytes(32), [rows[:8]])
    assert one != digest_of_rows(bytes(32), [rows, rows[:1]])
    assert one != digest_of_rows(bytes([1] * 32), [rows])


def test_a_delta_that_allows_to_publish_somebody_is_warned_about():
    data = [np.random.default_rng(j).normal(size=(7, 2)) / 9 for j in range(12)]

    def noisy(delta, unit):
        noise = NoiseInShares(Budget(50.0, delta), Bound.given(1.0), neighbors=Neighbors("replace", unit))
        return SecFC(k=2, threshold=1, disclosure=noise, max_iter=1)

    for delta, unit, units in ((0.02, "data point", "84 data points"), (0.09, "client", "12 clients")):
        with pytest.warns(Caution, match=f"delta={delta} for {units}: .* published whole. Take"):
            fit(noisy(delta, unit), data, bound=1.0)
    for delta, unit in ((1 / 84, "data point"), (0.08, "client")):
        with warnings.catch_warnings():
            warnings.simplefilter("error", Caution)
            fit(noisy(delta, unit), data, bound=1.0)
    with pytest.raises(ValueError, match=r"delta=0.3: .* above 0.1 it is none. Give less than"):
        noisy(0.3, "client")


def test_a_run_that_fails_says_what_it_may_have_spent():
    data = [np.random.default_rng(j).normal(size=(20, 2)) / 9 for j in range(4)]
    way = SecFC(k=2, threshold=1, disclosure=NoiseInShares(Budget(2.0, 1e-6), Bound.given(1.0)), max_iter=1)
    for algorithm, told in ((way, True), (SecFC(k=2, threshold=1), False)):
        with pytest.raises(TooFewReplies) as caught:
            fit(algorithm, data, bound=1.0, faults=lambda e: () if "Distances" in e.kind else (e,))
        assert (caught.value.promise is not None) == told
    said = way.capabilities.promise().failure_sentence()
    assert said.startswith("It may have released what epsilon=2 at delta=1e-06 pays for")
    scaled = Scaled(way, NoisyStandardize(((-1, 1),) * 2))
    assert scaled.capabilities.promise().budget == Budget(2.0, 1e-6)
