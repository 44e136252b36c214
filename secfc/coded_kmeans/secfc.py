"""SecFC: exact k-means over Lagrange coded shares, its parameters, plan and results.

What parties do is in `secfc.coded_kmeans.algorithm1`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from field.code.lagrange_code import LagrangeCode
from field.ring.quantize import FRACTION
from field.secrets.coins import Coins
from secfc.algorithm import (
    Capabilities,
    Clustering,
    Model,
    PartyOutcome,
    PublicFacts,
    SplittableBudget,
    join_outcomes,
)
from secfc.coded.joined import Joined, JoinedPlan
from secfc.coded.membership import Membership, Open, Private, PrivateMembershipPlan
from secfc.coded.parameters import (
    Quantization,
    Release,
    Runtime,
    Threshold,
    check_enough_workers,
    parse_threshold,
    select_workers,
)
from secfc.coded.plan import CodedPlan, ColumnLayout, RowLayout
from secfc.coded_kmeans import parameters
from secfc.coded_kmeans.algorithm1 import (
    Draft,
    SecFCClientResult,
    SecFCServerResult,
    check_terms,
    plan_from_all_data,
    run_client,
    run_server,
)
from secfc.coded_kmeans.parameters import (
    OF_LLOYD,
    OF_SECFC,
    MembershipWord,
    PolicyWord,
    PredictionAllowance,
    StartWord,
    check_corrected,
    check_dendrogram,
    check_joined,
    check_owners_known,
    check_rounded_centers,
    check_start_for_k,
    check_workers,
    choose_range,
    default_threshold,
    segment_cautions,
)
from secfc.coded_kmeans.predict import CodedModel
from secfc.coded_kmeans.run_summary import summarize_secfc
from secfc.data.federation import Federation
from secfc.data.inputs import check_fields
from secfc.data.party import Party
from secfc.disclosure import Disclosure, NoiseInShares, NoisySums
from secfc.errors import Caution
from secfc.kmeans.centers import CentersModel
from secfc.kmeans.elbow import Elbow, largest_k, parse_k
from secfc.kmeans.starts import Start
from secfc.privacy.calibration import Budget
from secfc.privacy.events import Event
from secfc.privacy.ledger import Promise
from secfc.roles.description import RunTerms
from secfc.roles.exchange import SERVER, PartyId, Role, SimulatedRun
from secfc.run_summary import RunSummary


@dataclass(frozen=True)
class SecFC:
    """Exact secure k-means on Lagrange coded shares: labels equal those of plaintext Lloyd, bit for bit.

    Parameters
    ----------
    k
        Number of clusters, from 1 to m.  `Elbow(most, least)`, "auto" or "2..12" chooses it during the first
        start, which must be `Bisecting()` or `Splitting()`.
    threshold
        Who may collude or deviate, a `Threshold`; a number t is short for `Threshold(t=t)`, None for the
        defaults.
    init
        Initialization: a value, such as `KMeansPlusPlus()` or `GivenLabels(labels)`, or its word in the
        shell, such as "k-means++".  None for the best that the policy allows: `Bisecting()`, under
        `OwnLabels()` `Splitting()`, under final labels and noise `RandomLabels()`.
    n_init
        Restarts, from 1 on, of which the cheapest is kept.
    max_iter
        Maximum number of steps of Lloyd's heuristic in each restart, from 1 on.
    quantization
        Fixed-point precision, a `Quantization`.
    membership
        Which clients contribute which rows: `Open()`; `Private()`, which hides the owners of rows;
        `Joined()`, where clients hold different columns of the same people; or "open", "private", "joined".
    disclosure
        What the server learns.  By default labels, `AssignmentsOnly()`, but of joined columns none,
        `OwnLabels()`.  Also `FinalLabelsOnly()`, `Distances()`, policies with noise, or "assignments",
        "own-labels", "final-labels", "distances".
    runtime
        Who computes, over which network and with which resources, a `Runtime`; changes no label.
    release
        What is opened of the centers, a `Release`.

    Raises
    ------
    InputError
        For a value of another kind.  `plan` refuses values that do not go together, before any data moves.

    Notes
    -----
    Any t clients together learn nothing beyond their output, if they follow the protocol.  The policy says
    what the server sees; `secfc/disclosure/README.md` has the argument.

    References
    ----------
    Li, Hou, Buyukates and Avestimehr, Secure Federated Clustering, Algorithm 1.

    Examples
    --------
    >>> import secfc
    >>> secfc.SecFC(k=4, threshold=2).threshold
    Threshold(t=2, ell=1, corrected=0, deviating=None)
    """

    k: int | Elbow
    threshold: Threshold = Threshold()
    init: Start = None  # type: ignore[assignment]  # resolved below
    n_init: int = 1
    max_iter: int = 300
    quantization: Quantization = Quantization()
    membership: Membership = Open()
    disclosure: Disclosure = None  # type: ignore[assignment]  # resolved below
    runtime: Runtime = Runtime()
    release: Release = Release()

    if TYPE_CHECKING:  # words stand for values

        def __init__(
            self,
            k: int | str | Elbow,
            threshold: int | Threshold | None = None,
            init: StartWord | Start | None = None,
            n_init: int = 1,
            max_iter: int = 300,
            quantization: Quantization = ...,
            membership: MembershipWord | Membership = ...,
            disclosure: PolicyWord | Disclosure | None = ...,
            runtime: Runtime = ...,
            release: Release = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        check_fields(self, OF_LLOYD | OF_SECFC)
        for name, meant in (
            ("threshold", parse_threshold),
            ("membership", parameters.parse_membership),
        ):
            object.__setattr__(self, name, meant(getattr(self, name)))
        policy = parameters.default_disclosure(self.disclosure, self.membership)
        object.__setattr__(self, "disclosure", policy)
        object.__setattr__(self, "k", parse_k(self.k))
        object.__setattr__(self, "init", parameters.default_start(self.init, self.disclosure))

    def plan(self, public: PublicFacts) -> Draft:
        """What is public before the parties talk: the `CodedPlan`, with open membership, else its draft.

        Warns (`Caution`) where t=0 or ell > 1.  Raises ValueError naming the value, the rule and the remedy.
        """
        if self.threshold.t is None:
            return self.restrict_clients(public.clients).plan(public)
        check_corrected(self)
        check_owners_known(self)
        if isinstance(self.disclosure, NoiseInShares | NoisySums):
            self.disclosure.check_people(self.membership)
        check_joined(self, public)
        check_dendrogram(self)
        check_workers(self, public.clients)
        check_rounded_centers(self)
        check_start_for_k(self)
        t, terms = self.threshold.t, RunTerms(self, public)
        draft: Any = self.membership.draft(public.clients, public.counts, t, public.session, terms)
        found = isinstance(draft, PrivateMembershipPlan | JoinedPlan)
        plan = draft if found else self.complete(public, draft)
        if t == 0 and len(public.clients) > 1:
            warnings.warn(
                "t=0 protects nobody: shares carry no noise, so clients see each other's points. Raise t to "
                "at least 1, for which n >= 2*ell + 1 clients are needed",
                Caution,
                stacklevel=2,
            )
        told = (
            *segment_cautions(t, self.threshold.ell), *parameters.committee_cautions(self, public.clients, t)
        )  # fmt: skip
        for caution in told:
            warnings.warn(caution, Caution, stacklevel=2)
        return plan

    def complete(self, public: PublicFacts, layout: RowLayout) -> CodedPlan:
        """The plan for a known layout of rows, whose t is known."""
        ell, t = self.threshold.ell, self.threshold.t or 0
        elbow = self.k.among(layout.m) if isinstance(self.k, Elbow) else None
        chosen = choose_range(self, public, layout, ell, t)
        workers = select_workers(self.runtime.workers, public.clients)
        code = LagrangeCode(chosen.basis, len(workers), ell, t)
        revealing = self.release.reveal_centers
        if isinstance(revealing, bool):
            # Noisy centers are the result; nobody opens others.
            revealing = workers if revealing or self.disclosure.capabilities.sums else ()
        predictions = self.release.predictions
        plan = CodedPlan(
            code, self.disclosure.clip_quantizer(chosen.quantizer), public.clients, layout,
            layout.padded_features(public.d, ell),
            largest_k(elbow or self.k), self.max_iter, self.n_init, self.init, tuple(revealing),
            self.quantization.largest or self.disclosure.capabilities.weigh_centers(layout.m),
            chosen.headroom, self.threshold.corrected, chosen.block, RunTerms(self, public), public.seed,
            self.release.smallest_center, 10 * layout.m if predictions is None else predictions,
            elbow, self.runtime.network, () if self.runtime.workers is None else workers,
            FRACTION if self.quantization.centers == "rounded" else None,
            parameters.choose_deviating(self, workers, t), self.release.dendrogram,
        )  # fmt: skip
        self.disclosure.check(plan.at_work)
        return plan

    def restrict_clients(self, clients: tuple[PartyId, ...]) -> SecFC:
        """This algorithm with a t for these clients, if it was left open.  Raises InputError if none fits."""
        threshold, workers = self.threshold, self.runtime.workers
        if threshold.t is not None:
            return self
        computing, ell, corrected = (
            len(select_workers(workers, clients)),
            threshold.ell,
            threshold.corrected,
        )
        check_enough_workers(workers, computing, ell, 1, corrected)
        t = default_threshold(computing, ell, corrected, policy=self.disclosure)
        return replace(self, threshold=replace(threshold, t=t))

    @property
    def capabilities(self) -> Capabilities:
        """All that an algorithm can have; clients with different features have them of the same people."""
        policy, budget = self.disclosure, None
        if isinstance(policy, NoiseInShares | NoisySums):
            budget = SplittableBudget(policy.budget, policy.neighbors, self.with_budget, self.bound_releases)
        joins = isinstance(self.membership, Joined)
        return Capabilities(
            partial=joins,
            joins=joins,
            scale_alone=self.scale_alone if joins else None,
            counted=isinstance(self.membership, Open) or bool(budget and budget.neighbors.unit == "client"),
            policy=self.disclosure,
            membership=self.membership,
            coarse=self.quantization.coarse,
            max_iter=self.max_iter,
            restarts=self.n_init,
            budget=budget,
            promise=lambda: None if budget is None else Promise(budget.budget, budget.neighbors),
            threshold=lambda clients: self.restrict_clients(clients).threshold.t,
            losses=self.losses,
            foresee=self.foreseen,
            account=self.account,
        )

    def scale_alone(self, scale: Any) -> SecFC:
        """SecFC whose owners of columns bring them to scale.  Raises InputError for what none does alone."""
        return replace(self, membership=replace(cast(Joined, self.membership), scale=scale))

    def with_budget(self, budget: Budget) -> SecFC:
        """SecFC for another budget, where its policy adds noise."""
        policy: Any = self.disclosure
        return replace(self, disclosure=replace(policy, budget=budget))

    def bound_releases(self, budget: Budget, public: PublicFacts) -> Event:
        """All that a run for a budget releases at most; with private membership, as if no row had two owners.

        Raises as the plan does.
        """
        way = replace(self.with_budget(budget), membership=Open())
        policy: Any = way.disclosure
        if isinstance(policy, NoisySums):
            t = way.restrict_clients(public.clients).threshold.t or 0
            return policy.releases(len(public.clients), t, largest_k(way.k), public.d)
        event: Event = policy.released(way.plan(public))
        return event

    def losses(self, plan: Draft) -> int:
        """How many clients may fall silent once their rows are shared."""
        need = self.restrict_clients(plan.clients).threshold  # the union comes first, and the code is known
        n = plan.code.n if isinstance(plan, CodedPlan) else len(plan.clients)
        answer = 2 * (need.ell + (need.t or 0) - 1) + 1 + 2 * need.corrected
        if isinstance(plan, CodedPlan) and plan.deviating and self.disclosure.capabilities.dealer is None:
            answer = max(answer, 2 * plan.code.t + 1 + plan.deviating)  # so many compare
        return n - answer

    def foreseen(self, plan: Draft, federation: Federation) -> CodedPlan:
        """The plan that the points of all will lead to, for a process that sees all data."""
        return plan_from_all_data(self.restrict_clients(plan.clients), plan, federation)

    def client(self, plan: Draft, party: Party, *, coins: Coins) -> Role[SecFCClientResult]:
        """The role of one client; its coins are secret.  Raises ValueError for a plan on other terms."""
        way = self.restrict_clients(plan.clients)
        check_terms(way, plan)
        return run_client(way, plan, party, coins=coins)

    def server(self, plan: Draft, *, rng: np.random.Generator, coins: Coins) -> Role[SecFCServerResult]:
        """The role of the server; its coins are secret.  It draws no start, so rng is not used.

        Raises ValueError for a plan on other terms.
        """
        way = self.restrict_clients(plan.clients)
        check_terms(way, plan)
        return run_server(way, plan, coins=coins)

    def outcome(
        self, plan: Draft, party: PartyId, returned: SecFCClientResult | SecFCServerResult
    ) -> PartyOutcome:
        """A client's labels, their rows and its shares of the final centers; what the server learned."""
        if isinstance(returned, SecFCClientResult):
            known = returned.trace
            return PartyOutcome(
                party,
                returned.plan,
                labels=returned.labels,
                rows=returned.rows,
                centers=returned.centers,
                n_iter=None if known is None else known.n_iter,
                converged=None if known is None else known.converged,
                sizes=() if known is None else known.sizes,
                stability=known.stability if known and self.disclosure.capabilities.exact else None,
                learned=leakage_to_clients(self, returned.plan),
                excluded=returned.plan.excluded(plan) if isinstance(plan, CodedPlan) else (),
                share=returned.sums,
                details=returned.scale,
            )
        result = returned
        plan, trace = result.plan, result.trace
        return PartyOutcome(
            party,
            plan,
            centers=result.centers,
            cost=trace.cost(plan.scale) if self.disclosure.capabilities.exact else None,
            n_iter=trace.n_iter,
            converged=trace.converged,
            history=trace.history,
            stability=trace.stability if self.disclosure.capabilities.exact else None,
            sizes=trace.sizes,
            learned=leakage_to_server(self, plan),
            excluded=result.excluded,
            deviated=result.standing.deviated,
            disputes=result.standing.disputes,
            ledger=self.disclosure.ledger(plan),
            details=trace.placed or result.standing,
            curve=None if result.curve is None else result.curve.over(plan.scale**2),
            dendrogram=result.dendrogram and result.dendrogram.over(plan.scale**2),
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run.  ids: the column that names points, if one does."""
        found = summarize_secfc(self, result, federation, ids)
        return replace(found, heard=leakage_to_clients(self, result.plan), dendrogram=result.dendrogram)

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering all parties agree on."""
        plan, standing = outcomes[SERVER].plan, outcomes[SERVER].details
        shares = {name: own.share for name, own in outcomes.items() if name != SERVER}
        allowances = {c: PredictionAllowance(plan.predictions) for c in plan.clients}
        scales = {name: own.details for name, own in outcomes.items() if name != SERVER}
        model = CodedModel(plan, self.disclosure, shares, standing, allowances, scales)
        known: Model | None = model if self.disclosure.capabilities.exact else None
        centers = outcomes[SERVER].centers
        if self.disclosure.capabilities.sums and centers is not None:
            known = CentersModel(centers)
        result = join_outcomes(outcomes, run, counts, k=plan.k, model=known)
        return result if self.disclosure.capabilities.sums else replace(result, details=None)


# --------------------------------------------------------------------------------------------------
# What parties of a run learned, in sentences for people.


def leakage_to_server(way: SecFC, plan: CodedPlan) -> tuple[str, ...]:
    """What the server learned, in sentences for people."""
    facts = [*way.membership.learned, *way.disclosure.learned(plan)]
    if plan.workers:
        facts = [fact.replace("so did every client", "so did every worker") for fact in facts]
    if isinstance(way.k, Elbow):
        facts.append("what every cluster cost before the start merged some, and so what fewer clusters cost")
    if plan.dendrogram:
        facts.append(
            "what merging each two of the final clusters would cost, and so how far their centers are apart"
        )
    facts += withheld_sentences(plan)
    if not way.disclosure.capabilities.sums:
        facts.append(opened_centers_sentence(plan) if plan.revealing else "no point and no center")
    return tuple(facts)


AIMED = (
    "owners that choose their own for it read whether a column is high or low, of all people; an ordinary "
    "column of yes and no may tell it of most"
)


def leakage_to_clients(way: SecFC, plan: CodedPlan) -> tuple[str, ...]:
    """What every client learned of others' points, in sentences for people."""
    when = (
        "at the start and at the end"
        if way.disclosure.capabilities.exposes == "nothing"
        else "in every iteration"
    )
    facts = [f"all labels and cluster sizes, {when}"]
    if plan.workers:
        facts = [
            f"workers: {facts[0]}; other clients: cluster sizes at the end, and of other points no label"
        ]
    if way.disclosure.capabilities.sums:
        whose = ("other points no", "no point a")[isinstance(plan.layout, ColumnLayout)]
        facts = [f"noisy sums and weights of the clusters after each step; of {whose} label"]
    elif way.disclosure.capabilities.exposes == "steps":
        facts = ["the first labels, and how many steps there were; of other points no label"]
    elif way.disclosure.capabilities.exposes == "sizes":
        facts = ["the first labels, and the sizes of the clusters after each step; of other points no label"]
    if isinstance(plan.layout, ColumnLayout):
        labeled = not way.disclosure.capabilities.sums
        facts += [f"of the columns of others what labels tell: {AIMED}"] * labeled
        if plan.layout.kept:
            facts.append("the size of the union of all IDs, and which of them all owners of columns hold")
        facts += withheld_sentences(plan)
    elif plan.layout.mixed:
        ids = way.membership
        told = isinstance(ids, Private) and ids.merge and ids.counts == "opened"
        facts.append("the size of the union of all IDs" + ", and how many hold each row" * told)
    if plan.revealing and not way.disclosure.capabilities.sums:
        facts.append(opened_centers_sentence(plan))
    return tuple(facts)


def withheld_sentences(plan: CodedPlan) -> list[str]:
    """What all are told of how much labels explain, for people."""
    if plan.layout.explained is None:
        return []
    least = f"{plan.layout.explained / 1000:g} of each column's variance"
    return [f"that labels explain at most {least}, without which nobody has any"]


def opened_centers_sentence(plan: CodedPlan) -> str:
    """Which centers are opened, for people."""
    least = plan.smallest_center
    return "the centers" if least == 1 else f"the centers of clusters of at least {least} points"
