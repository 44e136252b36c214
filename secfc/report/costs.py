"""Where time and traffic of a run went, and what it cost in differential privacy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from secfc.algorithm import Clustering
from secfc.privacy.ledger import EVERYBODY, EXACT, Ledger
from secfc.report import terminal
from secfc.report.terminal import Grid
from secfc.roles.exchange import SERVER, STRIDE

# Client or server work by the phase it is booked under, in words; a phase not listed is shown as it is.
WORK = {
    "align": "find the union of the IDs",
    "greet": "agree on keys",
    "agree": "compare parameters",
    "share": "share the points",
    "noise": "deal noise, each step",
    "pair": "agree on keys for masks",
    "blind": "deal and add the blinding",
    "distances": "distances on shares",
    "compare": "compare distances",
    "deal": "deal masks and tables",
    "centers": "answer for the centers",
    "assign": "decode and assign",
    "rest": "wait for the result",
    "send": "send the points",
    "receive": "wait for all clients",
    "cluster": "cluster",
    "merge": "merge the local centers",
    "match": "match the local clusters",
    "tell": "tell the sums",
    "label": "label own points",
    "sum": "make and add shares of sums",
    "scale": "bring features to a common scale",
    "ask": "ask for sums",
    "listen": "wait for the server",
    "finish": "finish",
}
CONTENTS = {
    "Greeting": "signed keys",
    "Countersign": "signed greetings",
    "Sealed": "anything, encrypted",
    "Introduction": "signing keys",
    "Offer": "key agreement",
    "KeyPacket": "keys of common randomness",
    "EvaluationKey": "keys of tags",
    "Blinded": "blinded IDs and padding",
    "Evaluated": "the same under a key",
    "ShareBlock": "shares of ID tables",
    "MaskedBlock": "masked ID tables",
    "Begin": "size of the next table",
    "Turn": "what to open",
    "Opening": "opened cells of ID tables",
    "UnionTags": "pseudonyms of the union",
    "KeptRows": "which IDs all owners of columns hold",
    "Confirmation": "digests of keys and the union",
    "Multiplicities": "holders of each row",
    "Disputes": "rows in dispute",
    "DivisionShares": "masks of rows that several hold",
    "MaskedRows": "masked rows to merge",
    "DividedRows": "merged rows, masked",
    "HeldOnce": "whether IDs are disjoint",
    "Hello": "the parameters",
    "SumDigest": "digests of whose vectors are summed",
    "PlanDigest": "digests of the parameters",
    "TossedSeed": "the coins that workers tossed",
    "ContributorsDigest": "digests of whose rows count",
    "InputPartyResult": "labels of the client's own points, sizes",
    "RowShares": "shares of the points",
    "Contributors": "whose shares arrived",
    "DealingChallenge": "coins to check shares with",
    "MaskChoice": "which masks hide a test",
    "ProjectedShares": "masked sums that test rows",
    "Commitment": "commitments to coins",
    "Coin": "coins to draw with",
    "TossedCoins": "commitments and coins of all",
    "PublicKey": "keys of masks",
    "BlindingShares": "shares of the blinding",
    "CheckedDistances": "coded distances, each step",
    "DistanceQuery": "labels of all points, each step",
    "HalfDistanceQuery": "halves of all points, each step of a start",
    "CompareHalvesQuery": "halves of all points, each step of a start",
    "GainQuery": "halves of all points, each level of a start",
    "LossQuery": "clusters to merge, the end of a start",
    "CodedGains": "coded gains of splits, costs of merging",
    "CodedDistances": "coded distances, each step",
    "NoiseShares": "shares of noise, each step",
    "MaskSeed": "seeds of masks",
    "CompareQuery": "labels of all points, each step",
    "CompareOwnQuery": "labels of all points, each step",
    "CompareMovedQuery": "labels, and which points move",
    "MaskedDistances": "masked distances, each step",
    "MaskedSum": "sums of masked distances",
    "CheckDealing": "random rows to check with, each step",
    "CheckCoin": "coins to check with, each step",
    "RepliesFixed": "that replies are fixed, each step",
    "CheckDigest": "digests of coins, each step",
    "MaskedRow": "masked sums of rows, each step",
    "MaskedProducts": "masked sums of replies, each step",
    "MaskSums": "sums of masks, each step",
    "MaskedCenters": "masked sums of clusters, each step",
    "Corrections": "tables for comparing",
    "RequestCorrections": "requests for more tables",
    "MaskedBits": "bits opened under masks",
    "WitnessedBits": "bits told under masks, and tags of those that another tells",
    "PartShares": "shares of labels that stay shared, and of rounded centers, each step",
    "PartDigests": "digests of what parts said, each step",
    "LabelShare": "shares of the labels",
    "LloydStepQuery": "sizes and the first labels, each step",
    "SizeShare": "shares of the sizes, each step",
    "DeliverLabels": "sizes at the end",
    "ExplainedQuery": "sizes, before labels are told",
    "RevealLabels": "the first labels, at the end",
    "ClusterCostQuery": "sizes at the end of a restart",
    "SplitQuery": "directions of a start, and sizes",
    "SplitGainQuery": "sizes, and what was split",
    "PredictLabels": "who labels new points",
    "OwnShare": "shares of own labels",
    "SelectedRowShare": "labels where rows are held",
    "RevealSums": "whose centers are asked for",
    "RunEnded": "sizes and centers, if opened",
    "MissingMessages": "who was not heard",
    "SetKeys": "keys of sets of clients",
    "SeatDigest": "digests of these keys, and of parts of replies",
    "ResharedPart": "products, shared anew",
    "CheckedPart": "shares of products that are checked",
    "ProductWords": "masked products to check with",
    "PartSums": "sums of parts of replies, each step",
    "OwnersHeard": "which owners asked for labels",
    "NoisySumsQuery": "noisy centers, each step",
    "WithinQuery": "up to which distance two points are near",
    "Narrow": "a narrower ball of rows",
    "CentroidShares": "shares of local centroids",
    "CodedPairDistances": "coded distances of local centroids",
    "Abort": "that a party ended the run",
    "CostQuery": "labels of a restart",
    "CodedCosts": "coded costs of a restart",
    "RevealCenters": "request for the centers",
    "CodedCenters": "shares of the centers",
    "FinalResult": "the result",
    "SumShares": "shares of sums",
    "OpenedSumsDigest": "digests of sums",
    "LastDigest": "digests of the result",
    "CodedSum": "sums of shares",
    "LocalCentroids": "local centroids",
    "LocalGroups": "what became of local clusters",
    "SharedTotals": "sums and counts, under pads",
    "RunKey": "key of pads",
    "ShareSeed": "seeds of shares",
    "GlobalCentroids": "global centroids",
    "AlignedCentroids": "local centroids, aligned",
    "LocalGaussians": "local clusters, described",
    "Project": "the server's points, or candidates, projected",
    "Choose": "starts to choose from",
    "GroupAbout": "centers to sum about",
    "NoisyCenters": "noisy centers",
    "NoisyLabels": "labels under randomized response",
    "RawPoints": "points in the clear",
    "LocalCenters": "local centers in the clear",
    "CenterLabels": "merged centers",
    "PointLabels": "labels of own points",
}


def count_rounds(result: Clustering) -> int:
    """How often distances were asked for: iterations of all restarts, and what the starts needed."""
    # By phase and round, which a sealed run shows as well; the server asks for the centers once.
    asked = {
        e.round // STRIDE for e in result.transcript.envelopes if e.sender == SERVER and e.phase == "assign"
    }
    return max(0, len(asked) - (result.centers is not None))


def phase_seconds(result: Clustering) -> dict[str, dict[str, float]]:
    """Computing time by phase: "client_mean" and "client_max" over the clients, and "server"."""
    clients = [table for party, table in result.seconds.items() if party != SERVER]
    phases = list(dict.fromkeys(phase for table in clients for phase in table))
    spent = {phase: [table.get(phase, 0.0) for table in clients] for phase in phases}
    return {
        "client_mean": {phase: sum(times) / len(times) for phase, times in spent.items()},
        "client_max": {phase: max(times) for phase, times in spent.items()},
        "server": dict(result.seconds.get(SERVER, {})),
    }


def time_table(times: Mapping[str, Mapping[str, float]], steps: int) -> Grid:
    """Milliseconds by role and phase (`phase_seconds`), and a step of this many."""
    columns = ("Who", "Work", "ms", "slowest client", *["ms a step"] * bool(steps))
    rows: list[list[str]] = []

    def add(who: str, phase: str, spent: float, slowest: str) -> None:
        work = [who, WORK.get(phase, phase), terminal.in_milliseconds(spent), slowest]
        if steps:
            each = phase in ("distances", "blind", "assign")
            work.append(terminal.in_milliseconds(spent / steps) if each else "")
        rows.append(work)

    for phase, mean in times["client_mean"].items():
        add("each client", phase, mean, terminal.in_milliseconds(times["client_max"][phase]))
    for phase, spent in times["server"].items():
        add("server", phase, spent, "")
    return Grid(columns, rows, 2)


def traffic_table(traffic: Mapping[str, Mapping[str, tuple[int, int]]]) -> Grid:
    """Messages and bytes by direction and kind (`Transcript.summary`)."""
    rows = [
        (direction, CONTENTS.get(kind, kind), f"{count:,}", terminal.size_of(size))
        for direction, kinds in sorted(traffic.items())
        for kind, (count, size) in kinds.items()
    ]
    return Grid(("Direction", "Contents", "messages", "bytes"), rows, 2)


# --------------------------------------------------------------------------------------------------
# What it cost in differential privacy.


def privacy_spent(ledger: Ledger, delta: float) -> list[str]:
    """What each view costs in total, and what was released."""
    lines = []
    for view, epsilon in epsilon_totals(ledger, delta).items():
        whose = f"the {view}" if view == SERVER else view
        who = "everybody, from what all may see" if view == EVERYBODY else f"{whose}, from all it sees"
        if math.isinf(epsilon):
            lines.append(f"{who}: not private, epsilon is infinite")
        else:
            lines.append(f"{who}: epsilon = {epsilon:.4g} at delta = {delta:g}, {ledger.neighbors}")
    if ledger == EXACT:  # who learned which results is said elsewhere: seldom everybody all
        return lines
    told = Counter(f"released to {', '.join(sorted(e.seen_by))}: {e.what}" for e in ledger.entries)
    return lines + [f"{said} (x {many})" if many > 1 else said for said, many in told.items()]


def epsilon_totals(ledger: Ledger, delta: float) -> dict[str, float]:
    """The proved epsilon of every view."""
    common = ledger.epsilon(delta, EVERYBODY)
    # Where nothing is promised to anybody, no view has less.
    views = (EVERYBODY,) if math.isinf(common) else ledger.views
    return {view: ledger.epsilon(delta, view) for view in views}


def privacy_as_json(ledger: Ledger, delta: float) -> dict[str, Any]:
    """Totals for programs; an infinite epsilon is null."""
    return {
        "neighbors": str(ledger.neighbors),
        "delta": delta,
        "epsilon": {v: None if math.isinf(e) else e for v, e in epsilon_totals(ledger, delta).items()},
        "released": [{"what": e.what, "seen_by": sorted(e.seen_by)} for e in ledger.entries],
    }
