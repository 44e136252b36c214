"""What does not go together in a run of SecFC: refused before any data is touched, with the remedy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from field.code.range_check import LARGEST, MOST, soundness_slack
from field.ring.basis import LANE_PRIMES, MAX_LANES, Basis
from field.ring.quantize import (
    FRACTION,
    MAX_INT,
    Quantizer,
    cost_modulus,
    distance_bound,
    excess_modulus,
    finest_scale,
)
from field.ring.quantize import rounding_modulus as needed_to_round
from secfc.algorithm import PublicFacts
from secfc.coded.joined import Joined
from secfc.coded.membership import Membership, Open, Private
from secfc.coded.parameters import (
    Quantization,
    Release,
    Runtime,
    Threshold,
    check_enough_workers,
    select_workers,
)
from secfc.coded.plan import CodedPlan, RowLayout
from secfc.data.inputs import WHOLE, instance_of
from secfc.disclosure import AssignmentsOnly, Disclosure, Distances, FinalLabelsOnly, OwnLabels
from secfc.disclosure.checked.blocks import check_deviating, largest_deviating
from secfc.errors import BudgetSpent, IncompatibleOptions, InputError
from secfc.kmeans.elbow import Elbow
from secfc.kmeans.starts import STARTS, GivenLabels, Start, check_choice
from secfc.remedies import Remedy
from secfc.roles.exchange import SERVER, PartyId


class LloydSettings(Protocol):
    """How Lloyd's heuristic is run, and under which policy: `Lloyd`, and `SecFC`."""

    @property
    def k(self) -> int | Elbow: ...
    @property
    def init(self) -> Start: ...
    @property
    def n_init(self) -> int: ...
    @property
    def max_iter(self) -> int: ...
    @property
    def quantization(self) -> Quantization: ...
    @property
    def disclosure(self) -> Disclosure: ...


class SecFCSettings(LloydSettings, Protocol):
    """And who brings which rows, who computes, and the plan once rows are known: `SecFC`."""

    @property
    def threshold(self) -> Threshold: ...
    @property
    def membership(self) -> Membership: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def release(self) -> Release: ...

    def complete(self, public: PublicFacts, layout: RowLayout) -> CodedPlan:
        """The plan for a known layout of rows."""
        ...


def check_corrected(way: SecFCSettings) -> None:
    """Raises ValueError where replies could not be corrected."""
    corrected = way.threshold.corrected
    if corrected and not isinstance(way.membership, Open):
        raise IncompatibleOptions(
            {"corrected": corrected, "membership": word_for(way.membership, MEMBERSHIPS)},
            "no other client has the columns of one that would be left out"
            if isinstance(way.membership, Joined)
            else "the shares of all clients are mixed in every row, so a false dealing cannot be traced",
            [("membership", "open"), ("corrected", 0)],
        )
    if corrected and not way.disclosure.capabilities.corrects:
        raise IncompatibleOptions(
            {"corrected": corrected, "disclosure": way.disclosure},
            "this policy does not check what clients send, which is done by coded distances",
            [("disclosure", "distances"), ("corrected", 0)],
        )


def check_owners_known(way: SecFCSettings) -> None:
    """Raises IncompatibleOptions where an owner of labels could not be asked for a row's data."""
    mean = isinstance(way.membership, Private) and way.membership.on_conflict == "mean"
    if mean and isinstance(way.disclosure, OwnLabels):
        raise IncompatibleOptions(
            {"on_conflict": "mean", "disclosure": way.disclosure},
            "an owner is told labels of rows whose data it knows, and of a mean no holder does",
            [("on_conflict", None), ("disclosure", "final-labels"), ("disclosure", "assignments")],
        )


def check_joined(way: SecFCSettings, public: PublicFacts) -> None:
    """Raises IncompatibleOptions for what is not made for columns of several owners."""
    if not isinstance(way.membership, Joined):
        return
    if way.release.reveal_centers:
        raise IncompatibleOptions(
            {"reveal_centers": way.release.reveal_centers, "membership": "joined"},
            "a center has columns of several owners, and each computes its part from the labels of its rows",
            [("reveal_centers", None)],
        )
    if way.disclosure.capabilities.exposes == "noisy distances":
        raise IncompatibleOptions(
            {"disclosure": way.disclosure, "membership": "joined"},
            "labels that noisy distances give would tell all of them of the columns of others",
            [("disclosure", "own-labels"), ("membership", "open")],
        )
    blocks = [frozenset(block) for block in public.observed or () if block]
    if len({*blocks}) < len(blocks) and way.disclosure.capabilities.exposes in ("sizes", "steps"):
        raise IncompatibleOptions(
            {"disclosure": way.disclosure, "membership": "joined"},
            "several clients have the same columns, of other people, and would be told these people's labels",
            [("disclosure", "assignments"), ("disclosure", "final-labels")],
        )
    if way.membership.keep == "union" and way.disclosure.capabilities.exposes in ("sizes", "steps"):
        raise IncompatibleOptions(
            {"disclosure": way.disclosure, "keep": "union"},
            "owners would be told labels of people whom they do not hold",
            [("keep", "intersection"), ("disclosure", "assignments")],
        )


def check_dendrogram(way: SecFCSettings) -> None:
    """Raises IncompatibleOptions where what merging clusters costs is opened to nobody."""
    sees = way.disclosure.capabilities
    if not way.release.dendrogram or (sees.exact and sees.exposes in ("labels", "sizes")):
        return
    wrong: dict[str, Any] = {"dendrogram": True, "disclosure": way.disclosure}
    if not sees.exact or sees.exposes != "distances":
        why = "a dendrogram needs exact costs of merging clusters, which this policy opens to nobody"
        others = [("disclosure", "assignments"), ("disclosure", "own-labels")]
        raise IncompatibleOptions(wrong, why, [("dendrogram", None), *others])
    if way.n_init > 1:
        raise IncompatibleOptions(
            wrong | {"n_init": way.n_init},
            "the server decodes distances of one run's last labels alone for it",
            [("n_init", 1), ("disclosure", "assignments")],
        )


def check_workers(way: SecFCSettings, clients: tuple[PartyId, ...]) -> None:
    """Raises InputError for workers that are too few, or that this run cannot leave alone."""
    workers, threshold = way.runtime.workers, way.threshold
    if workers is None:
        return
    computing = len(select_workers(workers, clients))
    check_enough_workers(workers, computing, threshold.ell, threshold.t or 0, threshold.corrected)
    if not isinstance(way.membership, Open):
        raise IncompatibleOptions(
            {"workers": workers, "membership": word_for(way.membership, MEMBERSHIPS)},
            "a union of IDs is found by all clients together",
            [("membership", "open"), ("workers", None)],
        )
    if threshold.corrected:
        raise IncompatibleOptions(
            {"workers": workers, "corrected": threshold.corrected},
            "false dealings are traced among all clients",
            [("workers", None), ("corrected", 0)],
        )
    if way.disclosure.capabilities.exposes in ("sizes", "steps", "noisy sums"):
        raise IncompatibleOptions(
            {"workers": workers, "disclosure": way.disclosure},
            "owners hear labels from all who compute, and compute themselves",
            [("disclosure", "assignments"), ("disclosure", "final-labels"), ("workers", None)],
        )


def check_start_for_k(way: SecFCSettings) -> None:
    """Raises ValueError where k cannot be chosen, or labels not be given, whatever the points."""
    policy = way.disclosure
    given = isinstance(way.membership, Joined) and way.membership.align == "given"
    if isinstance(way.init, GivenLabels) and not (isinstance(way.membership, Open) or given):
        raise IncompatibleOptions(
            {"init": way.init, "membership": word_for(way.membership, MEMBERSHIPS)},
            "the rows of a union come in an order that nobody knows before the run, so labels would go to "
            "other points than they were given for",
            [("init", "random"), ("membership", "open")],
        )
    costly = policy.capabilities.exposes in ("steps", "nothing") or not policy.capabilities.exact
    if way.init.grows and policy.capabilities.exposes != "sizes":
        raise IncompatibleOptions(
            {"init": way.init, "disclosure": policy},
            "this start is for labels that stay secret, by sizes that are opened",
            [("init", "random" if costly else "bisecting"), ("disclosure", "own-labels")],
        )
    if isinstance(way.k, Elbow) and costly:
        raise IncompatibleOptions(
            {"k": way.k, "disclosure": policy},
            "k is chosen by exact costs of clusters, which this policy opens to nobody",
            ["give k as a number", ("disclosure", "assignments")],
        )
    check_choice(way.init, way.k)


def check_rounded_centers(way: SecFCSettings) -> None:
    """Raises InputError where centers cannot be rounded, or need not be."""
    if way.quantization.centers == "exact" or way.disclosure.capabilities.rounds:
        return
    decoded = way.disclosure.capabilities.exposes == "distances"
    undealt = way.disclosure.capabilities.exposes in ("labels", "sizes")
    others = [("dealer", SERVER) if undealt else ("disclosure", "assignments")] * (not decoded)
    raise IncompatibleOptions(
        {"centers": way.quantization.centers, "disclosure": way.disclosure},
        "the server decodes distances to exact centers, and nothing is compared that rounding makes narrower"
        if decoded
        else "centers are rounded by sizes that all hear, and by tables that somebody deals",
        [("centers", "exact"), *others],
    )


# --------------------------------------------------------------------------------------------------
# How many clients of a committee may deviate: as asked, or refused; by default as many as there can be, up to
# this.
BY_DEFAULT = 1


def unchecked_committee(way: SecFCSettings) -> tuple[str, list[Any]]:
    """Why nobody checks what a committee says, and what to do about it; "" where it can be checked."""
    if not way.disclosure.capabilities.checks_words:
        return "only committees that compare play parts by several", [("disclosure", "assignments")]
    return "", []


def choose_deviating(way: SecFCSettings, workers: tuple[PartyId, ...], t: int) -> int:
    """How many of these clients may deviate in a committee (`secfc.disclosure.checked.blocks`).

    Raises IncompatibleOptions for a number that the policy does not have, ValueError for one that so many
    clients do not allow.
    """
    asked, (why, remedies) = way.threshold.deviating, unchecked_committee(way)
    dealer = way.disclosure.capabilities.dealer
    if asked is None:
        return 0 if why else largest_deviating(len(workers), t, dealer, most=BY_DEFAULT)
    if asked and why:
        wrong = {"deviating": asked, "disclosure": way.disclosure}
        raise IncompatibleOptions(wrong, why, [*remedies, ("deviating", 0)])
    check_deviating(len(workers), t, asked, dealer)
    return asked


def committee_cautions(way: SecFCSettings, clients: tuple[PartyId, ...], t: int) -> tuple[str, ...]:
    """What somebody should know whose committee has parts that one client plays alone, where two could."""
    workers = select_workers(way.runtime.workers, clients)
    if t == 0 or unchecked_committee(way)[0] or way.threshold.deviating or choose_deviating(way, workers, t):
        return ()
    dealer = way.disclosure.capabilities.dealer
    needed, besides = t + 2 if dealer else 2 * t + 2, len(workers) - (dealer not in (None, SERVER))
    if besides < needed:
        apart = "" if dealer is None else " besides one that deals"
        remedy = f"for parts played by two have {needed} clients or more{apart}"
    else:
        remedy = "deviating=1 has each part played by two"
    reads = "one client of the committee that deviates can read the others' rows, unnoticed"
    return (f"deviating=0: {reads}; {remedy}",)


# --------------------------------------------------------------------------------------------------
# What a choice of ell gives away, in a sentence: the same for Python, the shell and reports.
#
# Any t clients hold uniform shares whatever ell is.  But t + 1 shares and the ell segments of a point satisfy
# one linear relation, and evaluation points 1, 2, 3, ... make its coefficients small integers: values with
# few steps, such as counts, codes and flags, are often its only solution.  (Random points would be worse:
# data of any kind would be a short vector of a lattice of dimension two.)  So from t + 1 clients on nothing
# is promised, and ell buys speed with the clients that a larger t would have withstood.


def segment_cautions(t: int, ell: int) -> tuple[str, ...]:
    """What somebody who cuts points into ell segments should know; nothing if they stay whole."""
    if ell == 1 or t == 0:
        return ()
    few = "one client learns" if t == 1 else f"{t} clients together learn"
    return (
        f"ell={ell} buys speed and no privacy: {few} nothing from shares, but t+1={t + 1} can read small or "
        f"categorical values, not only ell+t={ell + t}. ell=1 with t={t + ell - 1} needs as many replies and "
        f"withstands {t + ell - 1} clients",
    )


# --------------------------------------------------------------------------------------------------
# How many colluding clients a run should withstand, where its caller leaves that open.


def largest_threshold(n: int, ell: int, corrected: int = 0) -> int:
    """The largest t for which n >= 2 (ell + t - 1) + 1 + 2 corrected; below 1 if none hides anything."""
    return (n - 1) // 2 - ell + 1 - corrected


def threshold_limit(n: int, ell: int, corrected: int, *, most: int | None) -> tuple[int, str]:
    """The most collusion that n clients tolerate, up to a third of them, and what limits it, in words.

    most: of comparisons without a dealer.
    The same rule for Python and the shell.  `largest_threshold` is at least 1.
    """
    t, limit = min(largest_threshold(n, ell, corrected), -(-n // 3)), "a third of them"
    if most is not None and t > most:
        t, limit = most, "what comparisons without a dealer allow"
    return t, limit


def check_any_threshold(n: int, ell: int, corrected: int = 0) -> None:
    """Raises InputError where n clients can hide points from nobody."""
    if largest_threshold(n, ell, corrected) >= 1:
        return
    plain, most = ell == 1 and not corrected, (n - 1) // 2
    given = "" if plain else f" with ell={ell}, corrected={corrected}"
    raise InputError(
        f"n={n} client{'s' * (n != 1)}{given} cannot hide points from t=1 of them: "
        f"n >= 2 (ell + t - 1) + 1 + 2 corrected = {2 * (ell + corrected) + 1} are needed",
        [
            "add clients",
            ("client_column", ..., "name the column that tells whose row it is"),
            *[("ell", most - corrected)] * (most - corrected >= 1),
            *[("corrected", most - ell)] * (corrected > 0 and most >= ell),
            ("algorithm", "lloyd", "hide nothing"),
        ],
    )


def default_threshold(n: int, ell: int, corrected: int, *, policy: Disclosure) -> int:
    """t for n clients, as the shell chooses it.

    policy: what the server may see, of which some withstand fewer.

    Raises InputError where no t of at least 1 fits.
    """
    from field.compare.replicated import MAX_T

    check_any_threshold(n, ell, corrected)
    undealt = policy.capabilities.compares and policy.capabilities.dealer is None
    return threshold_limit(n, ell, corrected, most=MAX_T if undealt else None)[0]


# --------------------------------------------------------------------------------------------------
# Of what kinds the parameters of SecFC and of its plaintext twin are.

OF_LLOYD = {
    "n_init": WHOLE,
    "max_iter": WHOLE,
    "quantization": instance_of(Quantization, "Quantization(scale=1000.0)"),
}
OF_SECFC = {
    "runtime": instance_of(Runtime, "Runtime(threads=2)"),
    "release": instance_of(Release, "Release(reveal_centers=True)"),
}

# --------------------------------------------------------------------------------------------------
# Words for values: what a caller may write, in Python and in the shell, where a policy, a start or a
# membership is due.
#
# One table for both, so that a word means the same everywhere.  A word stands for the value with its
# defaults; whoever wants other ones builds the value.

DISCLOSURES: Mapping[str, Disclosure] = {
    "assignments": AssignmentsOnly(),
    "own-labels": OwnLabels(),
    "final-labels": FinalLabelsOnly(),
    "distances": Distances(),
}
MEMBERSHIPS: Mapping[str, Membership] = {"open": Open(), "private": Private(), "joined": Joined()}


def parse_start(value: Any) -> Start:
    """The start that a word stands for, or the given one.  Raises InputError."""
    return _meant("init", value, STARTS, "draw_labels")  # type: ignore[no-any-return]


def default_start(value: Any, policy: Disclosure) -> Start:
    """A start, from its value or word; for None the best start that a policy allows."""
    return policy.start if value is None else parse_start(value)


# Words that stand for values, for type checkers.
PolicyWord = Literal["assignments", "own-labels", "final-labels", "distances"]
MembershipWord = Literal["open", "private", "joined"]
StartWord = Literal[
    "random", "random-points", "k-means++", "center-separation", "bisecting", "splitting"
]  # fmt: skip


def parse_disclosure(value: Any) -> Disclosure:
    """The policy that a word stands for, or the given one.  Raises InputError."""
    if isinstance(value, str) and value == "centers":
        raise InputError(
            "disclosure='centers': use FederatedLloyd(k), which shows all clients the centers of every step"
        )
    return _meant("disclosure", value, DISCLOSURES, "open_centers")  # type: ignore[no-any-return]


def default_disclosure(value: Any, membership: Membership) -> Disclosure:
    """The policy that is meant, and for None the default: of joined columns labels tell others' columns."""
    if value is None:
        return OwnLabels() if isinstance(membership, Joined) else AssignmentsOnly()
    return parse_disclosure(value)


def parse_membership(value: Any) -> Membership:
    """The membership that a word stands for, or the given one.  Raises InputError."""
    return _meant("membership", value, MEMBERSHIPS, "draft")  # type: ignore[no-any-return]


def word_for(value: Any, table: Mapping[str, Any]) -> str:
    """The word for a value in a table, else for its kind, whatever parameters it has; else its class."""
    equal = (word for word, item in table.items() if item == value)
    alike = (word for word, item in table.items() if type(item) is type(value))
    return next(equal, None) or next(alike, type(value).__name__)


def _meant(name: str, value: Any, table: Mapping[str, Any], method: str) -> Any:
    """The value of a word in the table; anything else must offer the method that such values have."""
    if isinstance(value, str):
        word = value.strip().lower().replace("_", "-").replace(" ", "-")
        if word in table:
            return table[word]
    elif isinstance(value, type) and hasattr(value, method):
        raise InputError(f"{name}={value.__name__} is a class: build the value, {value.__name__}(...)")
    elif hasattr(value, method):
        return value
    words = ", ".join(repr(word) for word in table)
    values = ", ".join(f"{type(item).__name__}()" for item in table.values())
    raise InputError(
        f"{name}={value!r} is unknown: use one of the words {words}, or a value such as {values}"
    )


def choose_code(
    n: int, t: int | None, ell: int | None, *, most: int | None = None, corrected: int = 0
) -> tuple[int, int, tuple[str, ...]]:
    """t, ell and notes: the most collusion that n clients can tolerate, up to a third of them, and to `most`.

    ell is 1 unless it is asked for: more buys speed for clients that a larger t would withstand.

    Raises InputError if no t of at least 1 fits.
    """
    ell = 1 if ell is None else ell
    if t == 0:
        return 0, ell, ("t=0 protects nobody: shares carry no noise, so clients see each other's points",)
    if t is not None:
        return t, ell, segment_cautions(t, ell)
    found = f" and corrected={corrected}" if corrected else ""
    check_any_threshold(n, ell, corrected)
    t, limit = threshold_limit(n, ell, corrected, most=most)
    return t, ell, (
        f"t={t} was chosen: the most that {_clients(n)} with ell={ell}{found} tolerate, up to {limit}",
        *segment_cautions(t, ell),
    )  # fmt: skip


def _clients(n: int) -> str:
    return f"{n} client{'' if n == 1 else 's'}"


# --------------------------------------------------------------------------------------------------
# How finely points may be quantized, and how many of their words are tested together.
#
# What passes the test of shared rows (`field.code.range_check`) may be some thousand times as large as what
# an honest client has, and must not wrap around the modulus either.  So the range is chosen for such rows:
# small blocks leave more steps, large blocks cost less.  Public facts decide, and every party chooses the
# same.

# An automatic scale gives at least so many integer steps between 0 and the bound: 64 in a sixteenth of it.
STEPS = 1 << 10
# Lanes below which rounded centers leave few steps.
ROUNDED_LANES = 2
# Below this many words a block costs more masks than it has words.
LEAST_BLOCK = 1 << 6
# A client with no more words than these may have blocks of one, which leave the most steps and cost some 130
# masks a word; beyond, that would be gigabytes.
FEW_WORDS = 1 << 14


@dataclass(frozen=True)
class CodeRange:
    """basis, quantizer; block: words that are tested together; headroom: see `CodedPlan`."""

    basis: Basis
    quantizer: Quantizer
    block: int
    headroom: int


@dataclass(frozen=True)
class _Wish:
    """What a range must hold: `headroom` times the distances of d features to clusters of m points.

    layout: whose rows there are.  colluding: see `Projections`.  rounds: of how many
    points centers are rounded, so that they stand for m; 0 if they are exact.  aside: how many steps
    beyond rows their coordinates may lie.  judged: points whose columns labels may not explain; 0 for none.
    """

    disclosure: Any
    plain: int
    d: int
    m: int
    ell: int
    dealers: int
    layout: RowLayout
    colluding: int
    rounds: int = 0
    aside: int = 0
    judged: int = 0

    def headroom(self, block: int) -> int:
        wide: int = self.disclosure.stretch_headroom(self.plain, self.stretch(block), self.layout)
        # Distances, and noise on them, grow with the square of rows.
        return wide * self.layout.multiple**2

    @property
    def points(self) -> int:
        """Points of the largest cluster."""
        return self.rounds or self.m

    @property
    def common(self) -> _Wish:
        """What automatic scales are chosen by: the same for one segment as for two, and for plain Lloyd."""
        return replace(self, ell=max(2, self.ell))

    def stretch(self, block: int) -> int:
        return soundness_slack(block, self.ell, self.dealers, self.colluding)

    def needed(self, block: int, max_int: int) -> int:
        distances = distance_bound(self.headroom(block) * self.d, max_int, self.m)
        largest = self.layout.multiple * (self.stretch(block) * max_int + self.aside)
        costs = cost_modulus(self.d, self.rounds, self.layout.multiple * max_int)
        rounded = needed_to_round(self.rounds, largest, FRACTION, self.layout.multiple)
        return max(distances, costs, rounded, excess_modulus(self.judged, max_int) if self.judged else 0)

    def most(self, basis: Basis, block: int) -> int:
        """The largest integer of an honest client that this basis holds."""
        held = math.isqrt((basis.modulus - 1) // (self.headroom(block) * self.d)) // (2 * self.m)
        if self.rounds:
            # What is divided is at most 2**(q + 2) times the largest sum, and the size.
            each = self.rounds * self.layout.multiple << (FRACTION + 2)
            within = (basis.modulus - 1 - self.rounds * self.layout.multiple) // each - self.aside
            held = min(held, max(0, within) // self.stretch(block))
            # Costs may be opened: as many distances are added up, of honest rows.
            costs = (basis.modulus - 1) // (self.rounds * self.d)
            held = min(held, math.isqrt(costs) // (2 * self.m * self.layout.multiple))
        if self.judged:
            held = min(held, math.isqrt((basis.modulus - 1) // excess_modulus(self.judged, 1)))
        return min(held, MAX_INT, (MOST - 1) // self.stretch(block))


def choose_range(way: LloydSettings, public: PublicFacts, layout: RowLayout, ell: int, t: int) -> CodeRange:
    """With a scale: the smallest basis that holds it.  With a basis: its finest scale.

    With neither: the fewest lanes (at least the policy's) that leave STEPS steps between 0 and the bound, at
    their finest scale.  Blocks are the largest with which that is so.

    Raises ValueError, with the numbers, if the wish cannot be held.
    """
    if way.quantization.largest is not None and way.quantization.largest < 1:
        raise InputError(f"largest={way.quantization.largest} is too small: it must be at least 1")
    plain = way.disclosure.headroom(way, public, layout)
    dealers = max(map(len, layout.groups))
    colluding = max(1, t) if dealers > 1 else 1
    size = way.quantization.largest or way.disclosure.capabilities.weigh_centers(layout.m)
    rounds, d = 0, layout.padded_features(public.d, max(1, ell))
    if way.quantization.centers == "rounded":
        size, rounds = 1 << FRACTION, size
    aside, judged = int(rounds and way.init.grows), layout.m * (layout.explained is not None)
    wish = _Wish(way.disclosure, plain, d, size, ell, dealers, layout, colluding, rounds, aside, judged)
    parts = max(1, ell)  # what is less is refused by the code
    each = (min(d, parts * layout.word_span(j, -(-d // parts), parts)[1]) for j in range(layout.n))
    words = max(layout.span(j)[1] * features for j, features in enumerate(each))
    sizes = block_sizes(words)
    if way.quantization.scale is not None:
        given = Quantizer(way.quantization.scale, public.bound, way.quantization.rounding)
        return _given_scale(way, public, wish, (*sizes, _least(words, sizes)), given)
    if way.quantization.basis is not None:
        # A field that was asked for may leave few steps.
        return _finest(way, public, wish, way.quantization.basis, sizes, _least(words, sizes))
    least = ROUNDED_LANES if wish.rounds else way.disclosure.capabilities.least_lanes
    for lanes in range(least, MAX_LANES + 1):
        basis = Basis(LANE_PRIMES[:lanes])
        if wish.common.most(basis, sizes[-1]) >= STEPS:
            return _finest(way, public, wish, basis, sizes, sizes[-1])
    left = wish.common.most(Basis(LANE_PRIMES[:MAX_LANES]), sizes[-1])
    less = _less(way, wish.common, sizes[-1], STEPS)
    raise InputError(
        f"m={wish.points} points of d={wish.d} features leave {left} integer steps between 0 and the bound "
        f"in {MAX_LANES} lanes of 30 bits, where {STEPS} are wanted, and room for rows that a client may "
        "pass off as within it",
        [
            *less,
            ("largest", ..., "say how large a cluster can get"),
            "take fewer points",
            ("disclosure", "distances", "show the server distances"),
            ("scale", ..., "give a scale if so few steps will do"),
        ],
    )


def _less(way: LloydSettings, wish: _Wish, block: int, steps: int) -> tuple[Remedy, ...]:
    """What rounding centers would save, as a remedy before others; nothing if it cannot be."""
    if wish.rounds or not way.disclosure.capabilities.rounds:
        return ()
    rounded = replace(wish, plain=2, m=1 << FRACTION, rounds=wish.m)
    for lanes in range(ROUNDED_LANES, MAX_LANES + 1):
        if rounded.most(Basis(LANE_PRIMES[:lanes]), block) >= steps:
            return (("centers", "rounded", f"round centers, which leaves {steps} steps in {lanes} lanes"),)
    return ()


def block_sizes(words: int) -> tuple[int, ...]:
    """Sizes of blocks to choose from, for clients with so many words: powers of two, the largest first."""
    top = min(LARGEST, 1 << max(0, words - 1).bit_length())
    least = min(top, LEAST_BLOCK)
    return tuple(1 << b for b in range(top.bit_length() - 1, least.bit_length() - 2, -1))


def _least(words: int, sizes: tuple[int, ...]) -> int:
    """The smallest block that may be taken where no other leaves the steps that were asked for."""
    return 1 if words <= FEW_WORDS else sizes[-1]


def _finest(
    way: LloydSettings, public: PublicFacts, wish: _Wish, basis: Basis, sizes: tuple[int, ...], least: int
) -> CodeRange:
    common = wish.common
    chosen = next((size for size in sizes if common.most(basis, size) >= STEPS), least)
    headroom, most = common.headroom(chosen), common.most(basis, chosen)
    scale = finest_scale(basis, headroom * wish.d, wish.m, public.bound, most=most)
    quantizer = Quantizer(scale, public.bound, way.quantization.rounding)
    # What masks reach less far leaves room for larger blocks.
    held = (size for size in sizes if wish.most(basis, size) >= quantizer.max_int)
    block = max(chosen, next(held, chosen))
    return CodeRange(basis, quantizer, block, wish.headroom(block))


def _given_scale(
    way: LloydSettings, public: PublicFacts, wish: _Wish, sizes: tuple[int, ...], quantizer: Quantizer
) -> CodeRange:
    bases = [Basis(LANE_PRIMES[:lanes]) for lanes in range(1, MAX_LANES + 1)]
    if way.quantization.basis is not None:
        bases = [way.quantization.basis]
    for basis in bases:
        for block in sizes:
            if wish.most(basis, block) >= quantizer.max_int:
                return CodeRange(basis, quantizer, block, wish.headroom(block))
    widest, needed = bases[-1], wish.needed(sizes[-1], quantizer.max_int)
    if way.quantization.basis is None:
        raise InputError(
            f"scale={quantizer.scale:g} with bound={public.bound:g}, m={wish.points}: integers up to "
            f"2**{needed.bit_length()} need more than {MAX_LANES} lanes of 30 bits",
            [
                *_less(way, wish, sizes[-1], quantizer.max_int),
                f"lower the scale (at most {wish.most(widest, sizes[-1])} steps fit between 0 and the bound)",
                "lower the bound of the data",
                "take fewer points",
            ],
        )
    raise InputError(
        f"scale={quantizer.scale:g} with bound={public.bound:g}, m={wish.points} makes distances, or what is "
        f"computed from them, up to 2**{needed.bit_length()}, beyond {widest.modulus.bit_length()} "
        "bits of the modulus: lower the scale, or leave lanes to the plan (basis=None, --field ring)"
    )


# --------------------------------------------------------------------------------------------------
# What predictions may cost.


class PredictionAllowance:
    """How many new points a client still helps to label.  No frozen value: what is left is what changes."""

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit

    def spend(self, points: int) -> None:
        """Raises BudgetSpent, and spends nothing, for more points than are left."""
        if points > self.left:
            raise BudgetSpent(
                "new points to be labeled", points, self.left, self.limit,
                "Each label tells where hidden centers lie: plan for more with Release(predictions=...)",
            )  # fmt: skip
        self.left -= points
