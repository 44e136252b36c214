"""`--algorithm dbscan`: density clusters, by which two points are near, which clients find on shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from secfc.cli.clustering.execute import bound_from_data, check_bound
from secfc.cli.methods.secfc import SecFCOptions, choose_threshold, derived_remark, runtime_from_options
from secfc.cli.shell.method import AskedOptions, ChosenAlgorithm, Method
from secfc.cli.shell.options import CLUSTERS, Positive, Whole, fields_of, option

if TYPE_CHECKING:
    from field.arrays import Array
    from secfc.algorithm import PublicFacts
    from secfc.coded.plan import CodedPlan
    from secfc.pairs import DBSCAN


@dataclass(frozen=True)
class DensityOptions:
    """What `--algorithm dbscan` takes, and no other."""

    # fmt: off
    eps: float | None = option(None, Positive(), metavar="EPS", group=CLUSTERS, help=
        "dbscan: up to this distance two points are near, in units of the data or of scaled features.")
    min_samples: int = option(5, Whole(1), metavar="POINTS", group=CLUSTERS, help=
        "dbscan: points near a core point, itself among them; clusters are core points and what is near.")
    # fmt: on


def settle_density(asked: AskedOptions) -> AskedOptions:
    """Raise UsageError if nobody said what is near, and for a model of clusters that have none."""
    if asked.settings.model is not None:
        raise click.UsageError(
            "--model: --algorithm dbscan keeps none that labels new rows. Leave it out, and cluster old and "
            "new rows together."
        )
    if asked["eps"] is None:
        raise click.UsageError(
            "--algorithm dbscan needs --eps, the distance up to which two points are near: for example "
            "--eps 0.5 of standardized features."
        )
    return asked


def choose_density(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """DBSCAN with as many colluding clients as fit.  Raises InputError."""
    from secfc.coded.parameters import Quantization, Threshold
    from secfc.coded_kmeans.parameters import committee_cautions
    from secfc.data.inputs import is_installed
    from secfc.pairs import DBSCAN
    from secfc.roles.exchange import SERVER

    dealer = asked["dealer"] or SERVER
    t, ell, notes = choose_threshold(asked.with_values(disclosure="assignments", corrected=0), public, dealer)
    algorithm = DBSCAN(
        asked["eps"], asked["min_samples"], threshold=Threshold(t, ell, deviating=asked["deviating"]),
        quantization=Quantization(
            asked["scale"], rounding=asked["rounding"],
            coarse="warn" if asked["coarse"] == "allow" else asked["coarse"],
        ),
        runtime=runtime_from_options(asked), dealer=None if dealer == "none" else dealer,
    )  # fmt: skip
    remarks = (
        "the server learns which two points are within eps of one another, and whose they are",
        *derived_remark(asked, public),
    )
    notes += committee_cautions(algorithm.way, public.clients, t)
    return ChosenAlgorithm(
        algorithm, {"bound_from_data": bound_from_data(asked)}, notes, remarks,
        plain=partial(label_plainly, algorithm) if asked["verify"] and is_installed("sklearn") else None,
    )  # fmt: skip


def label_plainly(algorithm: DBSCAN, plan: CodedPlan, points: Array) -> Array | None:
    """Labels of points (m, d) by scikit-learn, on integers that they become; None where these are long."""
    from sklearn.cluster import dbscan

    rows = plan.quantizer(points)
    if 4 * plan.d * int(abs(rows).max()) ** 2 >= 1 << 53:
        return None
    # Squares are integers, and none lies between this one and the next.
    eps = math.sqrt(algorithm.square(plan) + 0.5)
    found: Array = dbscan(rows, eps=eps, min_samples=algorithm.min_samples)[1]
    return found


METHOD = Method(
    "dbscan",
    "finds clusters of any shape, and noise, among few points (--eps, --min-samples); it takes no -k",
    [
        *fields_of(DensityOptions),
        *fields_of(
            SecFCOptions,
            "t ell workers dealer deviating latency bandwidth threads scratch scale bound rounding coarse "
            "verify",
        ),
    ],
    choose_density,
    settle=settle_density,
    inspect=check_bound,
    chooses=False,
    finds=True,
)
METHODS = (METHOD,)
