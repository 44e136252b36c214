"""What a site keeps of a run to label new points later, and how it does."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from secfc.data.inputs import InputError
from secfc.data.kept import Kept

if TYPE_CHECKING:
    from secfc.algorithm import Outcome
    from secfc.cli.deploy.building import Built
    from secfc.cli.deploy.place import Site

MODEL = "model.npz"
# Algorithms whose clients know all centers, and label new points by themselves.
OPEN = ("k-fed", "feddp")


def inner(asked: Built) -> Any:
    """The algorithm, without the scale that its features are brought to first."""
    return asked.algorithm if not hasattr(asked.algorithm, "algorithm") else asked.algorithm.algorithm


def kept_of(site: Site, asked: Built, outcome: Outcome) -> Kept | None:
    """What this party keeps, None if it cannot label anything."""
    import numpy as np

    from secfc.exact.retained import Retained
    from secfc.exact.secfc import SecFC

    terms, party, way = site.run.digest, site.file.party, inner(asked)
    facts: dict[str, Any] = {"scaling": None}
    if outcome.scaling is not None:
        facts["scaling"] = asdict(outcome.scaling.scaling)
    if isinstance(way, SecFC):
        retained = Retained.of(way, outcome)
        if retained is None:
            return None
        more, arrays = retained.values()
        return Kept(terms, party, "shares", facts | more, arrays, retained.plan.predictions)
    if site.run.algorithm in OPEN and outcome.centers is not None and outcome.labels is not None:
        centers = np.asarray(outcome.centers, np.float64)
        return Kept(terms, party, "centers", facts, {"centers": centers})
    return None


def scaled(kept: Kept, party: Any) -> Any:
    """New rows as the rows of the run were scaled."""
    from secfc.scaling.scaling import Scaling

    facts = kept.facts["scaling"]
    return party if facts is None else Scaling(**facts).party(party)


def nearest(kept: Kept, party: Any) -> Any:
    """Labels of new rows by centers that this party knows."""
    from secfc.lloyd.centers import nearest_center
    from secfc.scaling.scaling import Scaling

    centers, facts = kept.arrays["centers"], kept.facts["scaling"]
    if facts is not None:
        centers = Scaling(**facts).forward(centers, "the centers")
    return nearest_center(scaled(kept, party).read(), centers)


def retained(kept: Kept, asked: Built) -> Any:
    """This party's part of the model.  Raises InputError for one that does not fit the run."""
    from secfc.exact.retained import Retained

    public = replace(asked.public, derived=False) if inner(asked) is not asked.algorithm else asked.public
    try:
        return Retained.read(inner(asked), public, kept.facts, kept.arrays)
    except (ValueError, KeyError) as error:
        raise InputError(f"the model does not fit the run file ({error}): restore both") from error
