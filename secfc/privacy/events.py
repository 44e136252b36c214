"""What happened, as far as privacy is concerned.

Each docstring is a definition from which an accountant can be written.  The meaning of an event never
changes; another mechanism is another event.  Throughout, x is a statistic of the data, and its sensitivity
is the largest change of x between neighbors, under the neighboring relation of the ledger that holds the
event.  Events say what was released, never what it costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from secfc.data.inputs import WHOLE, check_fields
from secfc.errors import InputError

# Of the variance of discrete noise, in steps of the integers, so much goes into the rounding of a continuous
# one: as little as keeps the two within the distance at which noise is sampled.
ROUNDING = 3.6


@dataclass(frozen=True)
class NoOp:
    """Nothing was released that depends on the data."""


@dataclass(frozen=True)
class NonPrivate:
    """Something was released without protection: epsilon is infinite."""


@dataclass(frozen=True)
class Gaussian:
    """Release of x + noise_multiplier D Z, or a function of it, Z standard normal in each coordinate.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise over the L2 sensitivity D of x.

    Notes
    -----
    x is a real vector of any dimension.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True)
class RoundedGaussian:
    """Release of x + round(noise_multiplier D Z) for an integer vector x, a function of a `Gaussian` release.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise over the L2 sensitivity D of x.
    distance
        Total variation distance of the sampled Z from independent standard normals, all coordinates together.
    """

    noise_multiplier: float
    distance: float

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)
        if not 0 <= self.distance < 1:
            raise InputError(f"distance={self.distance} must be in [0, 1)")


@dataclass(frozen=True)
class DiscreteGaussian:
    """Release of x + Y for an integer vector x, with P(Y_i = y) ~ exp(-y**2 / (2 s**2)) independently.

    Parameters
    ----------
    noise_multiplier
        Parameter s of the noise over the L2 sensitivity D of x.

    Notes
    -----
    It is rho-zCDP with rho = 1 / (2 noise_multiplier**2), in any dimension.

    References
    ----------
    Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, 2020, theorem 4.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)

    @property
    def rho(self) -> float:
        return 1 / (2 * self.noise_multiplier**2)


@dataclass(frozen=True)
class DistributedDiscreteGaussian:
    """Release of x + Y_1 + ... + Y_h for an integer vector x, Y_j independent discrete Gaussian vectors.

    Parameters
    ----------
    each
        Parameter s of one contributor's Y_j over D, the L2 sensitivity of x.
    sigma
        The parameter s itself, at least 1/2.
    honest
        h: contributors whose noise the adversary neither knows nor withholds; n - t of n, if t clients may
        collude.
    dimension
        Coordinates of x.
    further
        Variance of a second discrete Gaussian that each contributor adds, as a multiple of the variance of
        the first.  By 1. below it is one noise with the first, of the variance of both.  The zCDP bound is
        that of the first alone: what is added later costs nothing.  `distance` and `tau` are no less than
        those of `alike` contributors without a second: so a plan that allows for this sum allows for theirs.

    Notes
    -----
    It is rho-zCDP with rho = (1 / (sqrt(h) each) + tau sqrt(dimension))**2 / 2,
    tau = 10 sum_{i=1}^{h-1} exp(-2 pi**2 sigma**2 i / (i + 1))
    (Kairouz, Liu, Steinke 2021, theorem 1, the last of its bounds).

    It is also within total variation `distance` of a function of a Gaussian release of noise multiplier
    `multiplier`, by the convolution lemma (Peikert 2010, theorem 3.1).  Let g_v be the weight exp(-x**2 / 2v)
    and N_v the normal law of variance v.  By Poisson summation the sum of g_v over any shift of the integers
    is sqrt(2 pi v) (1 +- e(v)), e(v) = 2 sum_{q>=1} exp(-2 pi**2 v q**2).

    1. Two discrete Gaussians of variances a and b: the probability that they add up to z is g_{a+b}(z) times
       the sum of g_{ab/(a+b)} over a shift of the integers, over a constant.  So the sum is the discrete
       Gaussian of variance a + b but for factors 1 +- e(ab/(a+b)).  Adding up h of variance v one by one has
       ab/(a+b) = v i/(i+1), i = 1 ... h-1; what is added later, being independent, drives no laws apart.
    2. Draw X from N_{S-r} and round it to z with probability proportional to g_r(z - X): z has probability
       (N_{S-r} * g_r)(z) / (sqrt(2 pi r) (1 +- e(r))), and the convolution is sqrt(2 pi r) times the density
       of N_S.  So it is the discrete Gaussian of variance S but for such factors of e(r), and e(S) < e(r).
    3. This rounding commutes with shifts by integers, and x is whole: x + Y is a rounding of x + X, and X has
       the variance S - r, S = h s**2.

    Laws whose ratio lies in (1 +- e) / (1 -+ e) are within e / (1 - e) of one another.  With r = 3.6 the
    rounding costs 2**-100 a coordinate.
    """

    each: float
    sigma: float
    honest: int
    dimension: int
    further: float = 0.0

    def __post_init__(self) -> None:
        require_positive("each", self.each)
        if not 0.5 <= self.sigma < math.inf:
            raise InputError(f"sigma={self.sigma}: the bound holds from 1/2 on; scale the integers up")
        for name in ("honest", "dimension"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.further < math.inf:
            raise InputError(f"further={self.further}: times a variance, it is no less than 0")

    @property
    def multiplier(self) -> float:
        """Noise multiplier of the Gaussian release that all but `distance` is a function of; else 0."""
        times = self.honest * (1 + self.further)
        # A relative 1e-12 covers the rounding of these floats.
        return math.sqrt(times * max(0.0, 1 - ROUNDING / (times * self.sigma**2))) * self.each * (1 - 1e-12)

    @property
    def alike(self) -> int:
        """So many contributors without further noise have no less of it together."""
        return self.honest + math.ceil(self.honest * self.further)

    @property
    def distance(self) -> float:
        """In total variation, all coordinates together: of 2**-100 each from s = 2.75 on, more below."""
        # Terms fall with i, so those beyond the first few are below the last of these.
        pairs = [_ripple(self.sigma**2 * i / (i + 1)) for i in range(1, min(self.alike, 64))]
        pairs += [pairs[-1] * (self.alike - 64)] if self.alike > 64 else []
        if self.further:
            # Each second noise comes to no less than the first noises: ab/(a+b) rises with a.
            a, b = self.honest * self.sigma**2, self.further * self.sigma**2
            pairs.append(self.honest * _ripple(a * b / (a + b)))
        return min(1.0, self.dimension * math.fsum([*pairs, _ripple(ROUNDING)]))

    @property
    def tau(self) -> float:
        # The terms fall with i towards exp(-2 pi**2 sigma**2); each of those left out is below the last.
        terms = [math.exp(-2 * (math.pi * self.sigma) ** 2 * i / (i + 1)) for i in range(1, self.alike)]
        return 10 * math.fsum(terms)

    @property
    def rho(self) -> float:
        return (1 / (math.sqrt(self.honest) * self.each) + self.tau * math.sqrt(self.dimension)) ** 2 / 2


def _ripple(variance: float) -> float:
    """At least e / (1 - e), e(variance) as in `DistributedDiscreteGaussian`; infinite if e may be 1."""
    first = math.exp(-2 * math.pi**2 * variance)
    e = 2 * first / (1 - first)  # exponents rise with q**2, so faster than with q
    return e / (1 - e) * (1 + 1e-9) if e < 1 else math.inf


@dataclass(frozen=True)
class DiscreteLaplace:
    """Release of x + Y for an integer vector x, with P(Y_i = y) ~ exp(-abs(y) / scale) independently.

    Parameters
    ----------
    scale
        Scale of the noise, above 0.
    sensitivity
        Most by which the single differing coordinate of neighbors differs, an integer.

    Notes
    -----
    Neighbors differ in one coordinate of x: a histogram to which one point was added, or a single count.
    """

    scale: float
    sensitivity: int

    def __post_init__(self) -> None:
        require_positive("scale", self.scale)
        if self.sensitivity < 1:
            raise InputError(f"sensitivity={self.sensitivity} must be at least 1; a constant is NoOp")

    @property
    def epsilon(self) -> float:
        return self.sensitivity / self.scale


@dataclass(frozen=True)
class Pure:
    """An epsilon-differentially private release of which no more is known.

    Parameters
    ----------
    epsilon
        Cost of the release.

    Notes
    -----
    x + Y with Y as for `DiscreteLaplace` has epsilon = D / scale, D the L1 sensitivity of x.
    """

    epsilon: float

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)


@dataclass(frozen=True)
class Response:
    """Release of a label in [0, k) for every row: its own at most exp(epsilon) times as likely as another.

    Parameters
    ----------
    epsilon
        Cost of all labels.
    k
        Number of labels.
    absent
        Whether neighbors have a row at its place or none, instead of replacing one.  Then a label was
        released for every place of a public number: that of an empty place is uniform, that of a row is its
        own at most exp(epsilon) as likely as there, and each other at least exp(-epsilon) as likely.

    Notes
    -----
    All other labels are equally likely, and rows are drawn independently.  A row's own label is a function of
    that row and of earlier releases alone, and neighbors replace one row: all labels cost what one does.
    """

    epsilon: float
    k: int
    absent: bool = False

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        if self.k < 1:
            raise InputError(f"k={self.k} labels: at least 1")


@dataclass(frozen=True)
class Composed:
    """Several events, each perhaps chosen after the results of earlier ones.

    Parameters
    ----------
    events
        All events.
    """

    events: tuple[Event, ...]


Event: TypeAlias = (
    "NoOp | NonPrivate | Gaussian | RoundedGaussian | DiscreteGaussian | DistributedDiscreteGaussian"
    " | DiscreteLaplace | Pure | Response | Composed"
)


def require_positive(name: str, value: float) -> None:
    """Raises ValueError unless the value is positive and finite."""
    if not 0 < value < math.inf:
        raise InputError(f"{name}={value} must be positive and finite; a release without noise is NonPrivate")


def flatten_events(event: Event) -> tuple[Event, ...]:
    """The events that are no compositions, in order."""
    if isinstance(event, Composed):
        return tuple(part for inner in event.events for part in flatten_events(inner))
    return (event,)


# --------------------------------------------------------------------------------------------------
# What privacy refuses.


# --------------------------------------------------------------------------------------------------
# Who is protected: which pairs of data sets count as neighbors.

Relation = Literal["add/remove", "replace"]
Unit = Literal["data point", "client", "person", "person at one client"]
UNIT_WORDS: dict[Unit, str] = {
    "data point": "point", "client": "client", "person": "person", "person at one client": "person-at-client",
}  # fmt: skip
MOST_ROWS = 999  # of one person


@dataclass(frozen=True)
class Neighbors:
    """Neighboring relation: two data sets are neighbors if one unit differs.

    Parameters
    ----------
    relation
        "add/remove": one data set lacks the unit.  "replace": the unit has other values, so the number of
        units is public.  An (epsilon, delta) claim under add/remove is one under replace with at least twice
        the epsilon.
    unit
        "data point": a row of one client.  "client": all rows of a client; that it takes part is public.
        "person": all rows of a person, at most `rows` over all clients, which every client enforces for its
        part.  "person at one client": at most `rows` at one client; a person with rows at several has the
        protection of those at each.
    rows
        Most rows of one person, from 1 to 999; 1 for other units.

    Raises
    ------
    InputError
        For other words, or rows out of range.
    """

    relation: Relation = "add/remove"
    unit: Unit = "data point"
    rows: int = 1

    def __post_init__(self) -> None:
        for name, value, known in (
            ("relation", self.relation, get_args(Relation)),
            ("unit", self.unit, get_args(Unit)),
        ):
            if value not in known:
                raise InputError(f"{name}={value!r} must be one of {', '.join(map(repr, known))}")
        check_fields(self, {"rows": WHOLE})
        if self.rows not in range(1, MOST_ROWS + 1) or (self.rows > 1 and not self.of_persons):
            raise InputError(
                f"rows={self.rows} of one {self.unit}: a number from 1 to {MOST_ROWS}, and 1 unless "
                'unit="person" or unit="person at one client". Pass 1, or rows=6 with such a unit'
            )

    @property
    def level(self) -> Unit:
        """What is shortened before it is added up: data points, or what a client adds of all its rows."""
        return "client" if self.unit == "client" else "data point"

    @property
    def of_persons(self) -> bool:
        """Whether all rows of a person are hidden together."""
        return self.unit.startswith("person")

    def rows_at(self, client: int, clients: int) -> int | None:
        """How many rows of a person this one of so many clients takes at most; None for all.

        Together they take `rows`, of which the first ones take the remainder.
        """
        if not self.of_persons:
            return None
        if self.unit != "person":
            return self.rows
        return self.rows // clients + (client < self.rows % clients)

    @property
    def factor(self) -> int:
        """By how many bounded contributions a sum over units moves: 1, or 2 where one goes and one comes."""
        return 2 if self.relation == "replace" else 1

    @classmethod
    def of_word(cls, relation: Relation, word: str) -> Neighbors:
        """Neighbors of a unit as commands name it: point, client, person:6, person-at-client:2.

        Raises InputError.
        """
        name, colon, rows = word.partition(":")
        units: dict[str, Unit] = {short: unit for unit, short in UNIT_WORDS.items()}
        if name not in units or bool(colon) != name.startswith("person") or (colon and not rows.isdecimal()):
            raise InputError(
                f"{word!r} is no unit to protect: write point, client, person:6 for one of at most 6 rows of "
                "all clients, or person-at-client:2 for one of at most 2 of each"
            )
        return cls(relation, units[name], int(rows or 1))

    @property
    def word(self) -> str:
        """The unit as commands name it."""
        return UNIT_WORDS[self.unit] + f":{self.rows}" * self.of_persons

    def __str__(self) -> str:
        named = "zero-out" if (self.relation, self.unit) == ("add/remove", "client") else self.relation
        return f"{named} one {self.unit}" + f", of at most {self.rows} rows" * self.of_persons
