"""Who is blamed, suspected, or merely lost: one table over exchanges, which roles read and a page prints.

Three rules hold of every exchange.

* What is missing is no fault: a run goes on, or ends by an error that names nobody as faulty.  The row says
  which (`Absence`); who is indispensable and not heard ends every run.
* What no honest party sends, by its form, kind or place, is proof against its sender
  (`secfc.roles.exchange.blame_error`).
* What has the right form and contradicts something else is suspicion of all whose words enter: the row says
  of whom, and by what (`suspect_parties`).  A row without doubts is of contents that nobody can compare.
"""

from __future__ import annotations

from collections.abc import Iterable

from psu.blame import UNION_TABLE
from psu.blame import Absence as Absence
from psu.blame import BlameRow as BlameRow
from secfc.errors import PartyId, SuspectedParties
from secfc.roles.exchange import SERVER

TOLD = "what the server told one client is not what it told another"
DEALT = "shares are on no polynomial, by who told them or who dealt them"
UNFIT = "what was told is on no polynomial, or does not fit shares of rows"
PART = "clients that play one part say different things of it"
ASKED = ", or the server asks one of them something else"
COINS = "clients heard different coins, or questions"

TABLE = (
    BlameRow(
        (
            "Hello", "Greeting", "Countersign", "Sealed", "Arrival", "AllArrivals", "SignedConsent",
            "NewRows", "ClusterGroups",
        ),
        Absence.ENDS,
    ),
    BlameRow(("PlanDigest", "SealedDecision", "Abort"), Absence.SPARED),
    # Unions of IDs.
    *UNION_TABLE,
    BlameRow(
        ("Introduction", "Multiplicities", "KeptRows", "Disputes", "DividedRows", "DivisionShares"),
        Absence.ENDS,
    ),
    BlameRow(
        ("MaskedRows",),
        Absence.SPARED,
        {"server + clients": "the server divides rows otherwise than as clients tell each other"},
    ),
    # Rows, and the test of them.
    BlameRow(
        ("RowShares", "Commitment", "Coin", "TossedCoins", "TossedSeed", "Contributors"), Absence.EXCLUDED
    ),
    BlameRow(("MaskChoice",), Absence.EXCLUDED, {"sender + server": TOLD}),
    BlameRow(
        ("ProjectedShares",),
        Absence.SPARED,
        {"dealer + tellers": "so few words say that a dealing is false that one false word would do"},
    ),
    BlameRow(("ContributorsDigest",), Absence.SPARED, {"server + sender": TOLD}),
    # Questions, and answers that are decoded.
    BlameRow(
        ("Query",),
        Absence.SPARED,
        {
            "server + committee": "it does not follow from what members opened to this client",
            "server + responders + committee": "it is put again to the same, one of whom may have caused it",
            "server + players": "it tells other sizes than members opened to this client",
        },
    ),
    BlameRow(("CodedDistances", "CheckedDistances"), Absence.SPARED, {"clients": "no points have them"}),
    BlameRow(("CodedGains",), Absence.SPARED, {"responders": "they are on no polynomial"}),
    BlameRow(("CodedCenters",), Absence.SPARED, {"tellers + dealers": DEALT}),
    BlameRow(("NoiseShares",), Absence.SPARED, {"server + sender": TOLD}),
    BlameRow(
        (
            "PublicKey", "BlindingShares", "DealingChallenge", "CodedCosts", "RevealCenters", "RevealSums",
            "FinalResult", "InputPartyResult", "RunEnded",
        ),
        Absence.SPARED,
    ),
    # Comparisons, and the check of replies.
    BlameRow(
        (
            "MaskedDistances", "MaskedSum", "MaskedRow", "MaskedProducts", "MaskSums", "PartSums",
            "CheckDealing",
        ),
        Absence.REPEATED,
        {
            "responders + committee + server": UNFIT + ASKED,
            "responders + committee + dealer + server": UNFIT + ", and a dealer told of masks",
            "responders + committee + dealers + server": UNFIT + ", or what members kept of two blocks",
            "responders + committee + owners + server": "replies are beyond what rows within the bound give",
        },
    ),
    BlameRow(
        ("CheckCoin", "CheckDigest"),  # of steps, which are taken again, and of merged rows
        Absence.ENDS,
        {"committee + server": COINS, "responders + dealers + server": COINS},
    ),
    BlameRow(
        (
            "SetKeys", "MaskSeed", "Corrections", "RequestCorrections", "MaskedCenters", "RepliesFixed",
            "MissingMessages",
        ),
        Absence.REPEATED,
    ),
    BlameRow(
        ("MaskedBits", "PartDigests"),
        Absence.REPEATED,
        {
            "committee + dealers + server": "members heard different words" + ASKED,
            "players + dealers + server": PART + ASKED,
            "committee + server": "what was opened is not what parts add up to" + ASKED,
        },
    ),
    BlameRow(
        ("PartShares", "SeatDigest", "WitnessedBits"), Absence.REPEATED, {"players + server": PART + ASKED}
    ),
    BlameRow(
        ("LabelShare", "OwnShare", "SizeShare"),
        Absence.REPEATED,
        {
            "players + server": PART + ASKED + ", or a step that is taken again opens other sizes",
            "committee + dealers + server": "they add up to what no labels have" + ASKED,
        },
    ),
    # Labels that stay shared.
    BlameRow(("OwnersHeard", "SelectedRowShare"), Absence.REPEATED),
    BlameRow(
        ("CheckedPart", "ResharedPart", "ProductWords"),  # of both as well
        Absence.ENDS,
        {
            "responders + dealers + server": UNFIT + ASKED,
            "committee + server": "shares of a change of labels are on no polynomial" + ASKED,
        },
    ),
    # Secure sums.
    BlameRow(("SumShares",), Absence.EXCLUDED, {"server + sender": TOLD}),
    BlameRow(("ShareSeed",), Absence.ENDS),
    BlameRow(("SumDigest", "LastDigest"), Absence.SPARED, {"server + sender": TOLD}),
    BlameRow(
        ("CodedSum",),
        Absence.SPARED,
        {
            "tellers + dealers": DEALT,
            "tellers": "they have different lengths",
            "clients + server": "no rows have the sums that were opened",
        },
    ),
    BlameRow(("SharedTotals",), Absence.EXCLUDED, {"clients + server": "no points have these sums"}),
    BlameRow(("RunKey",), Absence.ENDS),
    BlameRow(("OpenedSumsDigest",), Absence.EXCLUDED, {"committee + server": "clients opened others"}),
    BlameRow(("Project", "Choose", "GroupAbout", "Narrow"), Absence.EXCLUDED),
    BlameRow(("NoisyCenters", "NoisyLabels"), Absence.SPARED),
    # Columns that overlap, and baselines.
    BlameRow(
        ("CodedPairDistances",),
        Absence.SPARED,
        {"tellers": "members count different local clusters", "tellers + dealers": DEALT},
    ),
    BlameRow(("CentroidShares",), Absence.EXCLUDED),
    BlameRow(("CenterLabels", "PointLabels"), Absence.SPARED),
    BlameRow(
        (
            "LocalGroups", "LocalCentroids", "LocalGaussians", "GlobalCentroids", "AlignedCentroids",
            "RawPoints", "LocalCenters",
        ),
        Absence.ENDS,
    ),
)  # fmt: skip


def find_row(kind: str) -> BlameRow:
    """The row of a kind of message.  Raises LookupError if there is none."""
    for row in TABLE:
        if kind in row.kinds:
            return row
    raise LookupError(f"no row of the table says what follows of {kind}: add one")


def suspect_parties(kind: str, why: str, **roles: PartyId | Iterable[PartyId]) -> SuspectedParties:
    """The error for a message that contradicts others, about all whom its row suspects of it.

    roles: the parties of each role that the row names.  Raises LookupError if no doubt of the row is of
    exactly these roles.
    """
    for doubt in find_row(kind).doubts:
        if (names := doubt.split(" + ")) and {*names} == {*roles}:
            groups = ((who,) if isinstance(who, str) else who for who in map(roles.__getitem__, names))
            suspects = dict.fromkeys(c for group in groups for c in group)
            # The text shows only the first of many, and everybody can speak with the server.
            return SuspectedParties(tuple(sorted(suspects, key=lambda c: c != SERVER)), why)
    raise LookupError(f"no doubt about {kind} is of {', '.join(roles)}")
