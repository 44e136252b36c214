"""Where time and traffic of a run went."""

from __future__ import annotations

from collections.abc import Mapping

from secfc.algorithm import Clustering
from secfc.report import text
from secfc.report.parts import Grid
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
    "Confirmation": "digests of keys and the union",
    "Multiplicities": "holders of each row",
    "Disputes": "rows in dispute",
    "Indicator": "shares of who holds what",
    "MaskedRows": "masked rows to merge",
    "DividedRows": "merged rows, masked",
    "HeldOnce": "whether IDs are disjoint",
    "Hello": "the parameters",
    "SumOf": "digests of whose vectors are summed",
    "PlanDigest": "digests of the parameters",
    "TossedSeed": "the coins that workers tossed",
    "Counted": "digests of whose rows count",
    "Result": "labels of the client's own points, sizes",
    "Shares": "shares of the points",
    "Contributors": "whose shares arrived",
    "Challenge": "coins to check shares with",
    "Hiding": "which masks hide a test",
    "Projected": "masked sums that test rows",
    "Commitment": "commitments to coins",
    "Coin": "coins to draw with",
    "Tossed": "commitments and coins of all",
    "PublicKey": "keys of masks",
    "Blinding": "shares of the blinding",
    "CheckedDistances": "coded distances, each step",
    "Assignment": "labels of all points, each step",
    "Halve": "halves of all points, each step of a start",
    "CompareHalves": "halves of all points, each step of a start",
    "MeasureGains": "halves of all points, each level of a start",
    "MeasureLosses": "clusters to merge, the end of a start",
    "CodedGains": "coded gains of splits, costs of merging",
    "CodedDistances": "coded distances, each step",
    "NoiseShares": "shares of noise, each step",
    "MaskSeed": "seeds of masks",
    "Compare": "labels of all points, each step",
    "CompareOwn": "labels of all points, each step",
    "CompareMoved": "labels, and which points move",
    "MaskedDistances": "masked distances, each step",
    "MaskedSum": "sums of masked distances",
    "MaskedCenters": "masked sums of clusters, each step",
    "CenterShares": "shares of rounded centers, each step",
    "Corrections": "tables for comparing",
    "Ready": "requests for more tables",
    "MaskedBits": "bits opened under masks",
    "LabelShare": "shares of the labels",
    "Advance": "sizes and the first labels, each step",
    "SizeShare": "shares of the sizes, each step",
    "Deliver": "sizes at the end",
    "Show": "the first labels, at the end",
    "Weigh": "sizes at the end of a restart",
    "Cleave": "directions of a start, and sizes",
    "MeasureSplits": "sizes, and what was split",
    "Locate": "who labels new points",
    "OwnShare": "shares of own labels",
    "PickedShare": "labels where rows are held",
    "RevealSums": "whose centers are asked for",
    "Ended": "sizes and centers, if opened",
    "Unheard": "who was not heard",
    "SetKeys": "keys of sets of clients",
    "Cluster": "labels of the start",
    "Reshared": "products, shared anew",
    "ChangeShare": "shares of whether labels changed",
    "FinalShare": "shares of the final labels",
    "MeasureCost": "labels of a restart",
    "CodedCosts": "coded costs of a restart",
    "RevealCenters": "request for the centers",
    "CodedCenters": "shares of the centers",
    "Final": "the result",
    "SumShares": "shares of sums",
    "Opened": "digests of sums",
    "CodedSum": "sums of shares",
    "LocalCentroids": "local centroids",
    "LocalGroups": "what became of local clusters",
    "SharedSums": "sums and counts",
    "GlobalCentroids": "global centroids",
    "AlignedCentroids": "local centroids, aligned",
    "LocalGaussians": "local clusters, described",
    "Project": "the server's points, projected",
    "Choose": "starts to choose from",
    "GroupAbout": "centers to sum about",
    "NoisyCenters": "noisy centers",
    "RawPoints": "points in the clear",
    "LocalCenters": "local centers in the clear",
    "CenterLabels": "merged centers",
    "OwnLabels": "labels of own points",
}


def rounds(result: Clustering) -> int:
    """How often distances were asked for: iterations of all restarts, and what the starts needed."""
    # By phase and round, which a sealed run shows as well; the server asks for the centers once.
    asked = {
        e.round // STRIDE for e in result.transcript.envelopes if e.sender == SERVER and e.phase == "assign"
    }
    return max(0, len(asked) - (result.centers is not None))


def seconds(result: Clustering) -> dict[str, dict[str, float]]:
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
    """Milliseconds by role and phase (`seconds`), and a step of this many."""
    columns = ("Who", "Work", "ms", "slowest client", *["ms a step"] * bool(steps))
    rows: list[list[str]] = []

    def add(who: str, phase: str, spent: float, slowest: str) -> None:
        work = [who, WORK.get(phase, phase), text.ms(spent), slowest]
        if steps:
            each = phase in ("distances", "blind", "assign")
            work.append(text.ms(spent / steps) if each else "")
        rows.append(work)

    for phase, mean in times["client_mean"].items():
        add("each client", phase, mean, text.ms(times["client_max"][phase]))
    for phase, spent in times["server"].items():
        add("server", phase, spent, "")
    return Grid(columns, rows, 2)


def traffic_table(traffic: Mapping[str, Mapping[str, tuple[int, int]]]) -> Grid:
    """Messages and bytes by direction and kind (`Transcript.summary`)."""
    rows = [
        (direction, CONTENTS.get(kind, kind), f"{count:,}", text.size_of(size))
        for direction, kinds in sorted(traffic.items())
        for kind, (count, size) in kinds.items()
    ]
    return Grid(("Direction", "Contents", "messages", "bytes"), rows, 2)
