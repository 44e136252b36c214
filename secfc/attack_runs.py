"""Runs that are made to be attacked, and how well it went: only the judge knows the true points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from field.ring.errors import InvalidValue
from secfc.data.federation import Federation
from secfc.errors import InputError

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.attacks.judging import GuessJudgement, RebuiltRows
    from secfc.attacks.membership import OpenedRun
    from secfc.attacks.rates import Rates
    from secfc.data.party import Party
    from secfc.privacy.audit import AuditedRun, ShiftFinding
    from secfc.privacy.events import Neighbors

# The algorithm that runs on these points, and their public bound.
Choice = Callable[[Federation], tuple[Any, float]]
ALARMS = 0.1  # rate of false alarms that whole runs are enough to count

# --------------------------------------------------------------------------------------------------
# Points, from the distances that a server decodes.


def judge_geometry(
    result: Clustering, federation: Federation, known: str | None, *, segments: bool
) -> dict[str, GuessJudgement]:
    """Judgements of the attack and of a guess from the labels alone, by name."""
    from secfc.attacks.geometry import locate_points
    from secfc.attacks.geometry import reconstruct_geometry as reconstruct
    from secfc.attacks.history import label_history
    from secfc.attacks.judging import judge_guess
    from secfc.coded_kmeans.adversary_view import DecodedView
    from secfc.roles.exchange import SERVER

    quantizer = result.plan.quantizer
    parts = [quantizer(party.read()) / quantizer.scale for party in federation.parties]
    points = np.concatenate(parts)
    seen = DecodedView.of(result, result.plan, (SERVER,) if known is None else (SERVER, known), federation)
    guess = reconstruct(seen) if known is None else locate_points(seen)
    found = {"distances": judge_guess(guess, points)}
    if segments and known is None:
        found["distances of every segment"] = judge_guess(reconstruct(seen, segments=True), points)
    found["labels alone"] = judge_guess(label_history(seen, result), points)
    return found


# --------------------------------------------------------------------------------------------------
# Single rows, from what algorithms open.


def run_secure_sums(
    federation: Federation, k: int, *, max_iter: int, seed: int, bound: float | None
) -> Clustering:
    """Lloyd over exact secure sums; its transcript keeps every message."""
    from secfc.federated.algorithm import FederatedLloyd
    from secfc.pipeline import fit

    way = FederatedLloyd(k, max_iter=max_iter, blind=False, coarse="allow")
    return fit(way, federation, seed=seed, bound=bound, keep_bodies=True)


def rows_from_steps(result: Clustering, federation: Federation, known: str | None) -> RebuiltRows:
    """Rows that the attacker does not hold, from a run over secure sums.

    known: the client that attacks, None for the server.
    """
    from secfc.attacks.judging import judge_rows
    from secfc.attacks.reconstruction import step_differences
    from secfc.attacks.views import View
    from secfc.federated.views import others_sums
    from secfc.roles.exchange import SERVER

    quantizer = result.plan.quantizer
    seen = others_sums(View.of(result, result.plan, known or SERVER))
    limit = np.full(result.plan.d, quantizer.max_int / quantizer.scale)
    rows = step_differences(seen, quantizer.scale, low=-limit, high=limit)
    others = [party.read() for party in federation.parties if party.name != known]
    # Features stand in the order of their names in the messages, and in the federation's in the points.
    points = np.concatenate(others)[:, list(result.plan.columns.places)]
    return judge_rows(rows, points, 1 / quantizer.scale)


def rows_from_sites(
    federation: Federation, k: int, *, max_iter: int, seed: int, bound: float | None
) -> RebuiltRows:
    """Rows from what every site would send in the clear, of data rounded as for a secure run.

    Raises InvalidValue.
    """
    from field.ring.quantize import Quantizer
    from secfc.attacks.judging import judge_rows
    from secfc.attacks.reconstruction import site_differences, site_messages

    bound = bound or max(federation.largest(), 1e-12)
    quantizer = Quantizer(2.0**16 / bound, bound)
    parts = [quantizer(party.read(), owner=f"client {party.name!r}") for party in federation.parties]
    if k > federation.m:
        raise InvalidValue(f"k={k} clusters of m={federation.m} points: lower k")
    sites = site_messages(parts, k, seed=seed, max_iter=max_iter)
    limit = np.full(federation.d, bound)
    rows = site_differences(sites, quantizer.scale, low=-limit, high=limit)
    points = federation.stacked()
    return judge_rows(rows, points, 1 / quantizer.scale)


def rows_from_centers(
    algorithm: Any, federation: Federation, row: int, *, seed: int, bound: float
) -> dict[str, RebuiltRows]:
    """Rows from SecFC's centers, opened without regard to sizes in two runs, one without the row; and closed.

    row: of the last client.
    """
    from secfc.attacks.judging import judge_rows
    from secfc.attacks.reconstruction import RowGuesses, run_differences, singleton_rows
    from secfc.attacks.views import OUTSIDER, PublicOutput, View
    from secfc.data.inputs import with_parameters
    from secfc.kmeans.starts import RandomLabels
    from secfc.pipeline import fit

    algorithm = with_parameters(algorithm, coarse="allow")
    # Random labels are the same with and without a last row, as where data are updated.
    opening = with_parameters(algorithm, init=RandomLabels(), reveal_centers=True, smallest_center=1)
    *rest, last = (replace(party, ids=None, truth=None) for party in federation.parties)
    fewer = replace(federation, parties=(*rest, replace(last, points=np.delete(last.read(), row, axis=0))))
    points = federation.stacked()
    outputs, step = [], 0.0
    for data in (federation, fewer):
        result = fit(opening, data, seed=seed, bound=bound, keep_bodies=True)
        outputs.append(View.of(result, result.plan, OUTSIDER).output)
        step = 1 / result.plan.quantizer.scale
    safe = fit(algorithm, federation, seed=seed, bound=bound, keep_bodies=True)
    one, other = (output for output in outputs if output is not None)
    try:
        closed = singleton_rows(View.of(safe, safe.plan, OUTSIDER).output or PublicOutput(None, None))
    except ValueError:
        none = np.zeros((0, federation.d))
        closed = RowGuesses(none, np.zeros(federation.d), "centers, of which none was opened,")
    return {
        "SecFC with centers opened, twice": judge_rows(run_differences(one, other), points, 2 * step),
        "SecFC with every center opened": judge_rows(singleton_rows(one), points, step),
        "SecFC, the default": judge_rows(closed, points, step),
    }


# --------------------------------------------------------------------------------------------------
# Who took part, from opened centers of many runs.


@dataclass(frozen=True, eq=False, repr=False)
class PlayedRuns:
    """What was opened in every run, who was in, and the smallest cluster there.

    kept: of each run one bool a row of all.  opened: to everybody.  local: by client, to the server.
    """

    kept: list[Any]
    opened: list[OpenedRun]
    local: Mapping[str, list[OpenedRun]]


def play_runs(
    choose: Choice, federation: Federation, runs: int, *, seed: int, done: Callable[[], None]
) -> PlayedRuns:
    """Runs on halves of all clients' rows that coins keep.  Raises InputError where no centers are opened."""
    from secfc.attacks.membership import OpenedRun, draw_halves, select_half
    from secfc.attacks.views import OUTSIDER, View
    from secfc.kfed import KFed, OneShotPlan, local_clusters
    from secfc.pipeline import fit
    from secfc.roles.exchange import SERVER

    kept, opened = [], []
    local: dict[str, list[OpenedRun]] = {}
    for number in range(runs):
        mine = draw_halves(federation, np.random.default_rng([seed, number]))
        part = select_half(federation, mine)
        algorithm, bound = choose(part)
        shown = isinstance(algorithm, KFed)
        result = fit(algorithm, part, seed=seed + number, bound=bound, keep_bodies=shown)
        if result.excluded:
            raise InputError(f"{', '.join(result.excluded)} took no part to the end: who is in is not known")
        opened.append(OpenedRun.of(View.of(result, result.plan, OUTSIDER), part.m / result.k))
        kept.append(np.concatenate(mine))
        if isinstance(result.plan, OneShotPlan):
            for name, (centers, own) in local_clusters(View.of(result, result.plan, SERVER)).items():
                local.setdefault(name, []).append(OpenedRun(centers, own))
        done()
    return PlayedRuns(kept, opened, local)


def membership_rates(played: PlayedRuns, federation: Federation, alarms: float) -> dict[str, Rates]:
    """Rates by what was read; of the guess that sees nothing of the run that it judges as well."""
    from secfc.attacks.membership import draw_halves, membership_scores
    from secfc.attacks.rates import score_rates

    points = federation.stacked()
    found = {"opened centers": membership_scores(played.opened, points)}
    if played.local:
        ends = np.cumsum([0, *federation.counts])
        each = [
            membership_scores(played.local[name], points[ends[j] : ends[j + 1]])
            for j, name in enumerate(federation.names)
        ]
        found["local centers, by the server"] = [np.concatenate(run) for run in zip(*each, strict=True)]
    judged = {name: score_rates(one, played.kept, alarms=(alarms,)) for name, one in found.items()}
    # Held against coins that decided nothing: any other run is among those that the law comes from.
    rng = np.random.default_rng(len(played.kept))
    other = [np.concatenate(draw_halves(federation, rng)) for _ in played.kept]
    judged["nothing of the run"] = score_rates(found["opened centers"], other, alarms=(alarms,))
    return judged


# --------------------------------------------------------------------------------------------------
# Whether a private run keeps what it claims.


def plant_canary(
    federation: Federation, client: str, row: int | None, neighbors: Neighbors, radius: float | None = None
) -> tuple[Federation, Mapping[str, Any], str]:
    """The federation with the canary, the points without it, and what the canary is in words.

    Of persons the federation has no more rows than clients take, and the canary has as many.  radius: the
    public one about 0, of which a planted row lies far out where the server has no points.
    """
    from secfc.data.federation import select_rows
    from secfc.feddp.auditing import without_client, without_row
    from secfc.feddp.clients import own_rows

    if neighbors.unit == "client":
        return federation, without_client(federation, client), f"all points of client {client!r}"
    if row is not None:
        return federation, without_row(federation, client, row), f"row {row} of client {client!r}"
    # Along an axis, so that rounding takes least off a shortened row; far, so that it always is one.
    far = np.zeros((1, federation.d))
    held = federation.server_points
    far[0, 0] = 1e4 * max(1.0, radius or 0.0, 0.0 if held is None else float(np.abs(held).max()))
    parties: list[Party] = []
    others: dict[str, Any] = {}
    total = 0
    for j, party in enumerate(federation.parties):
        most = neighbors.rows_at(j, federation.n)
        bare = replace(select_rows(party, np.flatnonzero(own_rows(party, most))), ids=None, truth=None)
        others[party.name] = bare.read()
        more = (most or 1) * (party.name == client or neighbors.unit == "person")
        whose = None if bare.persons is None else np.append(bare.persons, np.full(more, -1))
        points = np.concatenate([bare.read(), np.repeat(far, more, axis=0)])
        parties.append(replace(bare, points=points, rows=None, persons=whose))
        total += more
    at = "all clients" if neighbors.unit == "person" else f"client {client!r}"
    said = f"{total} rows of one person" if neighbors.of_persons else "a row"
    said += f" planted at {at}, far out along the first feature"
    return replace(federation, parties=tuple(parties)), others, said


def run_audited(choose: Choice, federation: Federation, seed: int) -> Clustering:
    """One run, whose transcript keeps every message."""
    from secfc.pipeline import fit

    algorithm, bound = choose(federation)
    return fit(algorithm, federation, seed=seed, bound=bound, keep_bodies=True)


def audit_once(choose: Choice, planted: Federation, others: Mapping[str, Any], *, seed: int) -> AuditedRun:
    """The audit that needs no repetition."""
    from secfc.feddp.auditing import audit_run

    return audit_run(run_audited(choose, planted, seed), planted, others)


def audit_repeatedly(
    choose: Choice, planted: Federation, others: Mapping[str, Any], runs: int, *, seed: int,
    done: Callable[[], None],
) -> tuple[Rates, ShiftFinding, bool]:  # fmt: skip
    """Rates of the attacker who knows everybody else, the shift proved, and whether it refutes the claim."""
    from secfc.attacks.rates import score_rates
    from secfc.feddp.auditing import AuditedTranscript, canary_score
    from secfc.privacy import many_gaussian_runs

    kept = tuple(
        replace(
            party,
            points=others[party.name],
            ids=None,
            truth=None,
            persons=None if party.persons is None else party.persons[: len(others[party.name])],
        )
        for party in planted.parties
        if len(others[party.name])
    )
    absent = replace(planted, parties=kept)
    if len(kept) < len(planted.parties):
        raise InputError(
            "--runs compares runs with and without the canary, and a run without a client has another "
            "roster, which is public: leave --runs out with --protect client."
        )
    canary = {p.name: p.read() for p in planted.parties if len(p.read()) != len(others[p.name])}
    scores, members = [], []
    for number in range(2 * runs):
        result = run_audited(choose, (planted, absent)[number % 2], seed + 1 + number)
        scores.append(np.array([canary_score(AuditedTranscript.of(result), others, canary)]))
        members.append(np.array([number % 2 == 0]))
        done()
    alarms = (ALARMS,) if runs * ALARMS >= 100 else ()
    found = score_rates(scores, members, alarms=alarms)
    shift = many_gaussian_runs(np.concatenate(scores[::2]), np.concatenate(scores[1::2]))
    return found, shift, shift.refutes(result.plan.event)
