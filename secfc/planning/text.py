"""A plan in plain language: a dozen lines, or all of it, or the page for whoever has to approve a run.

For that page attacks are tried on a rehearsal's made-up rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from secfc.coded.plan import CodedPlan
from secfc.coded_kmeans.adversary_view import QueryRecorder
from secfc.coded_kmeans.secfc import SecFC
from secfc.errors import Caution
from secfc.logs import silence_logs
from secfc.pipeline import fit
from secfc.planning.dry_run import LAN, shrink_algorithm, synthetic_rows
from secfc.planning.estimate import rehearsal_sizes
from secfc.report.costs import CONTENTS
from secfc.report.leakage import attack_sentences, curious_server
from secfc.report.officer import Practice, as_html
from secfc.report.terminal import (
    Grid,
    Items,
    Pairs,
    Section,
    Words,
    duration_text,
    first_sentences,
    pluralize,
    size_of,
)

if TYPE_CHECKING:
    from secfc.coded.parameters import Network


def plan_summary(planned: Any) -> list[tuple[str, str]]:
    """At most twelve lines: names, and what is to be said of them."""
    cost, step, known = planned.cost, planned.step, planned.facts
    who = f"{pluralize(known['n'], 'client')}, {known['m']:,} rows of {pluralize(known['d'], 'feature')}"
    start = f", start {known['start']}" if known["start"] else ""
    lines = [("Run", f"{algorithm_name(planned)}: {who}, {clusters_in_words(known['k'])}{start}")]
    if "t" in known:
        lines.append(("Feasible", tolerance_sentence(planned)))
    if "lanes" in known:
        lines.append(
            (
                "Ring",
                f"{known['lanes']} lanes of 30 bits; values have {known['steps_between_0_and_bound']:,} "
                "steps between 0 and the bound",
            )
        )
    if planned.priced.steps_known:
        lines.append(
            (
                "Steps",
                f"{planned.steps} with the final number of clusters; each {size_of(step.nbytes)}, "
                f"{rounds_in_words(step.rounds)}",
            )
        )
    near, far = duration_text(planned.seconds(LAN)), duration_text(planned.seconds())
    party, together = size_of(planned.memory_of_a_party), size_of(planned.memory)
    server = size_of(planned.memory_of_the_server)
    lines += [
        (
            "Time",
            f"{near} on a LAN ({network_in_words(LAN)}); {far} at {network_in_words(planned.network)}; "
            f"{duration_text(planned.one_process_seconds)} in one process",
        ),
        (
            "Traffic",
            f"{size_of(cost.nbytes)} in {pluralize(cost.count, 'message')} "
            f"and {rounds_in_words(cost.rounds)}",
        ),
        ("Memory", f"up to {party} a client, {server} the server, {together} in one process"),
        ("Server", "learns " + first_sentences(planned.learned)),
    ]
    if planned.foreseen is not None:
        lines.append(("Noise", noise_cost(planned.foreseen)))
    if planned.heard:
        lines.append(("Clients", "learn " + first_sentences(planned.heard)))
    lines += [("Note", note) for note in planned.notes[: 12 - len(lines)]]
    return lines


def algorithm_name(planned: Any) -> str:
    """The algorithm, and its policy."""
    known = planned.facts
    return f"{known['algorithm']}, {known['policy']}" if "policy" in known else str(known["algorithm"])


def clusters_in_words(k: Any) -> str:
    """How many."""
    if k is None:
        return "as many clusters as are found"
    return pluralize(k, "cluster") if isinstance(k, int) else f"k = {k}"


def rounds_in_words(many: float) -> str:
    """So many."""
    return pluralize(round(many), "round")


def tolerance_sentence(planned: Any) -> str:
    """Who may collude, vanish or deviate."""
    known = planned.facts
    may = "nobody may vanish" if planned.losses == 0 else f"{pluralize(planned.losses, 'client')} may vanish"
    t = known["t"]
    who = "any t=1 client learns" if t == 1 else f"any t={t} clients together learn"
    hides = f"{who} nothing from shares" if t else "t=0: shares hide nothing from clients"
    said = f"{hides} (ell={known['ell']}); {may}"
    if known.get("corrected"):
        said += f", replies of {known['corrected']} are corrected"
    if known["workers"] < known["n"]:
        said += f"; {known['workers']} workers compute for all"
    return said


def noise_cost(foreseen: Any) -> str:
    """What it costs, beside doing without the clients."""
    asked, best = foreseen.asked, foreseen.best
    many = pluralize(len(asked.excess), "simulation")
    if not foreseen.held_out:
        many += " of made-up clusters, far apart to touching: others may cost more"
    without = f"a single center {excess_in_words(median(foreseen.one))}"
    if foreseen.alone:
        without = f"k-means of the server's points alone {excess_in_words(median(foreseen.alone))}, {without}"
    said = (
        f"costs {excess_in_words(asked.median)} ({excess_in_words(min(asked.excess))} to "
        f"{excess_in_words(max(asked.excess))} in {many}); {without}"
    )
    if best is not asked:
        said += f". Take {best.split}: {excess_in_words(best.median)}"
    if not foreseen.is_worthwhile:
        said += ". Asking clients does not pay at this budget: raise epsilon" + (
            ", or use the server's points" if foreseen.alone else ""
        )
    return said


def excess_in_words(excess: float) -> str:
    """Above the best cost.

    >>> excess_in_words(0.0123), excess_in_words(7.4), excess_in_words(0.00012)
    ('1.2 %', '740 %', '0.012 %')
    """
    return f"{100 * excess:.2g} %" if excess < 1 else f"{100 * excess:.0f} %"


def network_in_words(network: Network) -> str:
    """What a network does.

    >>> from secfc.coded.parameters import Network
    >>> network_in_words(Network())
    '100 Mbit/s, 20 ms'
    """
    return f"{8e-6 * network.bandwidth:g} Mbit/s, {1e3 * network.latency:g} ms"


def plan_details(planned: Any) -> tuple[Section, ...]:
    """Everything, as sections."""
    traffic = [
        (direction, CONTENTS.get(kind, kind), kind, f"{many:,}", size_of(size))
        for (direction, kind), (many, size) in sorted(planned.traffic.items(), key=lambda item: -item[1][1])
    ]
    rows = planned.priced.rows
    said = (
        f"Messages were counted, and work was timed, in rehearsals of this code on {rows[0]:,} and "
        f"{rows[1]:,} made-up rows ({planned.priced.machine}), and continued to {planned.facts['m']:,} rows "
        "in a straight line. What a start asks depends on data, and so does the number of steps."
    )
    return (
        Section(
            "Plan",
            (
                Pairs(
                    [
                        (name.replace("_", " "), str(value))
                        for name, value in planned.facts.items()
                        if value is not None
                    ]
                ),
            ),
        ),
        Section("Traffic", (Grid(("Direction", "Contents", "message", "messages", "bytes"), traffic, 3),)),
        *simulated_costs(planned.foreseen),
        Section("What the server learns", (Items(planned.learned),)),
        Section("What every client learns of others' points", (Items(planned.heard),)),
        Section("Where figures come from", (Words(said),)),
    )


def simulated_costs(foreseen: Any) -> tuple[Section, ...]:
    """What noise costs, by split of the budget."""
    if foreseen is None:
        return ()
    rows = [
        (str(one.split), *(excess_in_words(at) for at in (one.median, min(one.excess), max(one.excess))),
         "take this" if one is foreseen.best else "")
        for one in foreseen.tried
    ]  # fmt: skip
    made = "clients' rows lay in made-up clusters within the radius; others may cost more."
    if foreseen.held_out:
        made = (
            "half of the server's points stood for the server, clients were drawn from the other "
            f"{foreseen.held_out}. They were alike; where clients differ from these points, or from one "
            "another, it costs more."
        )
    said = (
        f"Cost above that of the best centers, in {pluralize(len(foreseen.one), 'simulation')}: {made} No "
        "client's data had part in it, so it spends no budget; a split that is chosen by results of runs "
        "does."
    )
    return (
        Section(
            "What noise costs",
            (Grid(("Split of the budget", "median", "least", "most", ""), rows, 3), Words(said)),
        ),
    )


MOST = 1000  # rows to attack


def plan_page(planned: Any, fill: Mapping[str, str] | None = None) -> str:
    """The page, as HTML.  fill: what only people know (`secfc.report.officer.FILLED`)."""
    return as_html(replace(plan_practice(planned), fill=fill or {}))


def plan_practice(planned: Any) -> Practice:
    """What is told of a plan."""
    tried, on = rebuilt_rows_sentences(planned)
    counted = planned.algorithm.capabilities.counted
    return Practice(
        planned.algorithm, planned.plan, len(planned.public.clients), planned.public.d,
        planned.facts["m"] if counted else None, planned.traffic, planned.learned, planned.heard, tried, on,
        budget_sentences(planned),
    )  # fmt: skip


def rebuilt_rows_sentences(planned: Any) -> tuple[tuple[str, ...], str]:
    """What a curious server rebuilds of made-up rows, in sentences, and on what."""
    way, public = planned.algorithm, planned.public
    if not isinstance(way, SecFC) or not isinstance(planned.plan, CodedPlan):
        return (), ""
    if planned.plan.layout.mixed or way.capabilities.joins:
        return (), ""
    k = planned.plan.k
    rows = min(max(rehearsal_sizes(public, public.m, k, 0)[1], 1), MOST)
    federation = synthetic_rows(public, rows, k)
    witness = QueryRecorder()
    with warnings.catch_warnings(), silence_logs():
        warnings.simplefilter("ignore", Caution)
        small: Any = shrink_algorithm(way, planned.plan, rows, public.m)
        result = fit(small, federation, bound=public.bound, watch=witness)
        finding = curious_server(witness, result, way.disclosure, federation)
    return tuple(attack_sentences(finding)), (
        f"{rows:,} made-up rows of {len(public.clients)} clients in {k} clusters, under this policy: a run's "
        "own page says what was found on its rows"
    )


def budget_sentences(planned: Any) -> tuple[str, ...]:
    """What is spent of differential privacy, in sentences."""
    from secfc.privacy.ledger import EXACT

    way = planned.algorithm
    promise = way.capabilities.promise()
    if promise is None:
        return ()
    delta = promise.budget
    ledger = way.disclosure.ledger(planned.plan) if isinstance(way, SecFC) else EXACT
    if ledger is EXACT:
        return (f"differential privacy: epsilon = {delta.epsilon:g} at delta = {delta.delta:g} in total",)
    from secfc.report.costs import privacy_spent

    return tuple(privacy_spent(ledger, delta.delta))
