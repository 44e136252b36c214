"""Models of runs in one process, as files: what is kept, and how new points are labeled by it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from secfc.data.federation import Federation, drop_incomplete_rows
from secfc.data.files import category_names, parse_listed
from secfc.data.linkage import linkage_of
from secfc.data.model_file import ModelFile
from secfc.data.party import Party, SeenRows
from secfc.errors import Caution, IncompatibleOptions, InputError

if TYPE_CHECKING:
    from secfc.algorithm import Clustering

NOBODY = bytes(32)


def model_file_of(result: Clustering, texts: Sequence[str] = ()) -> ModelFile | None:
    """The model of a run, for a file; None if there is none that could be kept.

    texts: the columns of text whose categories became features.
    """
    from secfc.coded_kmeans.model_share import to_plain_values
    from secfc.coded_kmeans.predict import CodedModel, fitted_terms
    from secfc.federated.model import OverlapModel
    from secfc.kmeans.centers import CentersModel
    from secfc.scaling.algorithm import ScaledModel

    model: Any = result.model
    facts: dict[str, Any] = {"features": None if result.features is None else list(result.features)}
    facts["clients"], facts["scaling"] = list(result.plan.clients), None
    facts["texts"] = list(texts)
    if isinstance(model, ScaledModel):
        facts["scaling"], model = asdict(model.scaling), model.model
    elif result.simulated is not None and result.simulated.observed is None:
        facts["seen"] = asdict(SeenRows.of(result.simulated.parties))
    if isinstance(model, CodedModel):
        facts["model"], arrays = to_plain_values(model)
        facts["scales"] = {name: own and asdict(own) for name, own in model.scales.items()}
        if model.joined:
            scale = fitted_terms(model.plan).way.membership.scale
            facts["scale"] = scale and asdict(scale)
        return ModelFile(NOBODY, "", "shares", facts, arrays)
    if isinstance(model, OverlapModel):
        shared = model.shared_centers(result.features)
        model = None if shared is None else CentersModel(shared)
    if isinstance(model, CentersModel):
        return ModelFile(NOBODY, "", "centers", facts, {"centers": model.centers})
    return None


def model_of(kept: ModelFile) -> Any:
    """The model that was kept."""
    from secfc.coded_kmeans.model_share import from_plain_values as shares
    from secfc.kmeans.centers import CentersModel
    from secfc.scaling.algorithm import ScaledModel
    from secfc.scaling.scaling import Scaling
    from secfc.scaling.ways import Standardize

    hidden = kept.kind == "shares"
    if hidden:
        scale, own = kept.facts.get("scale"), kept.facts.get("scales", {})
        scales = {name: each and Scaling(**each) for name, each in own.items()}
        model: Any = shares(kept.facts["model"], kept.arrays, scale and Standardize(**scale), scales)
    else:
        model = CentersModel(kept.arrays["centers"])
    scaling = kept.facts["scaling"]
    return model if scaling is None else ScaledModel(model, Scaling(**scaling))


@dataclass(frozen=True, repr=False)
class KeptModel:
    """A model in a file, which labels new points of the clients of its run and counts them there.

    clients: of the run.  features: names of columns, None without any.  d: how many there are.
    """

    kept: ModelFile
    path: Path

    @classmethod
    def read(cls, path: Path) -> KeptModel:
        """Raises InputError for a file that holds no model of all clients; OSError."""
        kept = ModelFile.read(path)
        if kept.party:
            raise InputError(f"{path} is the part of {kept.party} alone: use `secfc deploy predict`.")
        return cls(kept, path)

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self.kept.facts["clients"])

    @property
    def features(self) -> tuple[str, ...] | None:
        return None if self.kept.facts["features"] is None else tuple(self.kept.facts["features"])

    @property
    def d(self) -> int:
        hidden, joined = self.kept.kind == "shares", joined_columns(self.kept)
        if joined is not None:
            return int(joined["d"])
        return int(self.kept.facts["model"]["d"] if hidden else self.kept.arrays["centers"].shape[1])

    def predict(self, federation: Federation) -> list[Any]:
        """Labels of new points: one (m_j,) array a client.  Raises InputError, BudgetSpent."""
        return label_clients(self.kept, self.path, federation)


def new_points(
    kept: ModelFile, files: Sequence[Path], missing: str = "refuse", owners: Sequence[str] = (), **how: Any
) -> tuple[Federation, dict[str, list[int]]]:
    """New points of all clients of the run, and by client which of its rows they are.

    A client that has none is not in there, and has a blank row.  owners: whose the files are, in their order;
    without, their names say it.  how: as for `Federation.from_files`.
    """
    clients, features = list(kept.facts["clients"]), kept.facts["features"]
    scaling = kept.facts["scaling"]
    if missing == "mean" and (scaling is None or scaling["fill"] is None):
        raise IncompatibleOptions(
            {"missing": "mean"}, "the run did not fill gaps, so no mean is known", [("missing", "drop")]
        )
    joined = joined_columns(kept) or {}
    read = read_points(kept, files, gaps=missing != "refuse", joined=joined, **how)
    bringing = [c for c, own in zip(clients, joined.get("observed", clients), strict=True) if own]
    found = dict(parties_by_client(read, bringing, owners))
    rows = {name: list(range(party.points.shape[0])) for name, party in found.items()}
    if missing == "drop":
        found, rows = without_incomplete_rows(read, without_far_values(scaling, found))
    if joined:
        return with_helpers(found, clients, bringing), rows
    # On a scale of the run the middle is a row that no limit refuses.
    blank = np.zeros((1, read.d)) if scaling is None else np.nan_to_num([scaling["centers"]])
    if scaling is not None and scaling.get("norm"):
        blank[0, 0] = 1.0  # which has one
    parties = parties_with_blanks(found, clients, blank)
    made = Federation(parties, feature_names=read.feature_names)
    return (made if features is None else made.ordered(features)), rows


def read_points(
    kept: ModelFile, files: Sequence[Path], *, gaps: bool, joined: Mapping[str, Any], **how: Any
) -> Federation:
    """New points of files, by the columns of the run."""
    features, categories = kept.facts["features"], categories_of(kept)
    bits = set(category_names(categories))
    columns = None if features is None else tuple(name for name in features if name not in bits)
    if joined:
        how |= {"union": True, "linkage": joined["schema"] and linkage_of(joined["schema"], "the model")}
    return Federation.from_files(files, columns=columns, gaps=gaps, categorical=categories, **how)


def without_incomplete_rows(
    read: Federation, found: Mapping[str, Party]
) -> tuple[dict[str, Party], dict[str, list[int]]]:
    """Parties by client without rows with gaps, and which of its rows each keeps."""
    left, kept_rows = drop_incomplete_rows(replace(read, parties=tuple(found.values())))
    whole = dict(zip(found, kept_rows, strict=True))
    return {p.name: p for p in left.parties}, {p.name: whole[p.name].tolist() for p in left.parties}


def with_helpers(found: Mapping[str, Party], clients: Sequence[str], bringing: Sequence[str]) -> Federation:
    """Owners of joined columns, and clients without.  Raises InputError for an owner that brings nobody."""
    if lost := [name for name in bringing if name not in found]:
        raise InputError(f"{lost[0]} has columns and no file: people are found among those of all, so add it")
    return Federation(tuple(found.get(name) or Party.without_data(name) for name in clients))


def joined_columns(kept: ModelFile) -> dict[str, Any] | None:
    """Who has which columns (`secfc.coded_kmeans.model_share`), None where all have all."""
    found: dict[str, Any] | None = kept.facts["model"].get("joined") if kept.kind == "shares" else None
    return found


def without_far_values(scaling: Mapping[str, Any] | None, found: Mapping[str, Party]) -> dict[str, Party]:
    """New rows by client, with gaps where a run without a mean to fill in took values for missing."""
    from secfc.scaling.scaling import Scaling

    if scaling is None or scaling["outside"] != "missing" or scaling["fill"] is not None:
        return dict(found)
    masked, _ = Scaling(**scaling).without_outside(Federation(tuple(found.values())))
    return dict(zip(found, masked.parties, strict=True))


def parties_by_client(
    read: Federation, clients: Sequence[str], owners: Sequence[str] = ()
) -> dict[str, Party]:
    """Parties by the names of clients of the run: by owners, their own, or in order where there are as many.

    Raises InputError.
    """
    if owners:
        if len(owners) != read.n or len({*owners} & {*clients}) != read.n:
            raise InputError(
                f"{', '.join(owners[:6])} for {read.n} files: a client of the run is needed for each, "
                f"and each once; they are {', '.join(clients[:6])}",
                [("client", ..., "name as many of them")],
            )
        return {name: replace(party, name=name) for name, party in zip(owners, read.parties, strict=True)}
    found = {party.name: party for party in read.parties}
    if set(found) <= set(clients):
        return found
    if len(found) != len(clients):
        raise InputError(
            f"{', '.join(list(found)[:6])}: these are not the clients of the run, which are "
            f"{', '.join(clients[:6])}",
            [
                "call files like those of the run",
                "give one for each, in order",
                ("client", ..., "say whose they are"),
            ],
        )
    return {name: replace(party, name=name) for name, party in zip(clients, read.parties, strict=True)}


def parties_with_blanks(found: Mapping[str, Party], clients: Sequence[str], blank: Any) -> tuple[Party, ...]:
    """A party for each client: of those that have no rows one with the blank row (1, d), and a blank ID."""
    parties = [found.get(name, Party(name, blank)) for name in clients]
    ids = next((party.ids for party in found.values() if party.ids), None)
    if ids:
        parties = [p if p.ids else replace(p, ids=(type(ids[0])(),)) for p in parties]
    return tuple(parties)


def categories_of(kept: ModelFile) -> dict[str, tuple[str, ...]]:
    """The categories of each column of text, as the run's features name them."""
    features = kept.facts["features"] or ()
    listed = {
        column: [name.removeprefix(f"{column}=") for name in features if name.startswith(f"{column}=")]
        for column in kept.facts.get("texts", ())
    }
    return {column: parse_listed("|".join(each)) for column, each in listed.items()}


def label_clients(kept: ModelFile, path: Path, federation: Federation) -> list[Any]:
    """Labels by client.  What the clients agreed to label is written down as spent first."""
    from secfc.pipeline import predict_with_model
    from secfc.scaling.algorithm import ScaledModel

    try:
        model = model_of(kept)
    except (KeyError, TypeError, ValueError) as error:  # of a file that is none
        raise InputError(str(error)) from error
    shares: Any = model.model if isinstance(model, ScaledModel) else model
    if kept.kind == "shares":
        left, count = kept.facts["model"]["left"], shares.count_labeled(federation)
        for client, allowance in shares.allowances.items():
            left[client] = allowance.left - count
        if min(left.values()) >= 0:  # else the parties refuse
            kept.write(path)
    labels = predict_with_model(model, federation)
    seen = kept.facts.get("seen")
    if seen is not None and (far := SeenRows(**seen).far_note(federation.parties)) is not None:
        warnings.warn(far, Caution, stacklevel=2)
    return labels
