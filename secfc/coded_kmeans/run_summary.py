"""What reports say of a run of SecFC, and of its plaintext twin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from field.ring.basis import LANE_PRIMES, MAX_LANES, MERSENNE_61, Basis, lanes_for
from field.ring.quantize import LEAST_STEPS, clusters_rounding_modulus
from psu.plan import Committee
from secfc.algorithm import Clustering
from secfc.coded.joined import Joined
from secfc.coded.membership import Private
from secfc.coded.plan import CodedPlan, ColumnLayout
from secfc.coded_kmeans.parameters import DISCLOSURES, MEMBERSHIPS, LloydSettings, SecFCSettings, word_for
from secfc.data.federation import Federation
from secfc.data.inputs import names_listed
from secfc.disclosure import OwnLabels
from secfc.kmeans.starts import STARTS
from secfc.run_summary import CentersSummary, NoisyReleaseSummary, RunSummary


def summarize_secfc(
    way: SecFCSettings, result: Clustering, federation: Federation, ids: str | None
) -> RunSummary:
    """The account of a run.  ids: the column that names points, if one does."""
    plan, membership, exact = result.plan, way.membership, way.disclosure.capabilities.exact
    title = "SecFC: exact k-means on shares"
    claim = "Not verified: the labels were not compared with those of plaintext k-means."
    if way.quantization.centers == "rounded":
        title = "SecFC: k-means with rounded centers on shares (not k-means with exact centers)"
        claim = (
            "Not verified: the labels were not compared with those of plaintext k-means that rounds alike."
        )
    if not exact:
        what, which = ("distances", "every distance carries noise, so labels differ from plaintext k-means")
        if way.disclosure.capabilities.sums:
            what, which = (
                "sums",
                "every sum carries noise, so centers differ from those of plaintext k-means",
            )
        title = f"SecFC with differential privacy: k-means on noisy {what}"
        claim = f"Not exact, by intent: {which}."
    found = RunSummary(
        "secfc",
        title,
        {**step_parameters(way), **privacy_parameters(way, plan, ids)},
        claim,
        task_phrases(way),
        threat_model(
            plan, leakage_under_policy(way), *deviation_note(way, plan), *center_rounding_note(way, plan)
        ),
        delta=None if exact else budget_parameters(way)["delta"],
        **({} if exact else noise_sentences(way.disclosure, plan)),
    )
    if way.disclosure.capabilities.sums:
        # Labels follow from centers and a row: whoever has the row has its label, and no budget has paid.
        found = replace(found, follows=False, centers=placed_centers(way.disclosure, plan, result.details))
    if isinstance(membership, Joined):
        notes = *deviation_note(way, plan), *center_rounding_note(way, plan)
        of_columns = ("Membership", joined_owners(plan))
        return replace(found, setup=threat_model(plan, leakage_under_policy(way), of_columns, *notes))
    if not isinstance(membership, Private):
        return found
    return replace(
        found,
        setup=threat_model(
            plan,
            leakage_under_policy(way),
            ("Membership", f"private; {row_identity(federation, ids)}"),
            *deviation_note(way, plan),
            *center_rounding_note(way, plan),
        ),
        hidden=never_revealed(membership, plan),
        opened=opened_by_private_membership(membership, plan, federation),
    )


def summarize_lloyd(way: LloydSettings) -> RunSummary:
    """The account of a run on pooled points."""
    which = (
        ""
        if way.quantization.centers == "exact"
        else " with rounded centers (not k-means with exact centers)"
    )
    title = f"Plaintext k-means{which} (Lloyd): the server sees every point"
    return RunSummary(
        "lloyd", title, {**step_parameters(way), "centers": way.quantization.centers}, task=task_phrases(way)
    )


def step_parameters(way: LloydSettings) -> dict[str, Any]:
    """How Lloyd's heuristic was run, by the names that the shell gives it."""
    return {
        "init": word_for(way.init, STARTS),
        "n_init": way.n_init,
        "max_iter": way.max_iter,
        "field": "mersenne61" if way.quantization.basis == Basis((MERSENNE_61,)) else "ring",
    }


def task_phrases(way: LloydSettings) -> tuple[str, ...]:
    """How Lloyd's heuristic was run, in phrases."""
    best = "" if way.n_init == 1 else f", best of {way.n_init} starts"
    return (f"start {word_for(way.init, STARTS)}{best}", f"at most {way.max_iter} iterations")


def privacy_parameters(way: SecFCSettings, plan: CodedPlan, ids: str | None) -> dict[str, Any]:
    """Who may see what, and the code."""
    membership, policy = way.membership, way.disclosure
    found: dict[str, Any] = {"membership": word_for(membership, MEMBERSHIPS)}
    if isinstance(membership, Private):
        found |= {"merge": membership.merge, "id_column": ids}
        found |= {"counts": membership.counts, "on_conflict": membership.on_conflict}
        found |= {"tags": membership.tags, "quota": membership.quota}
        if membership.verify:
            found["verify_union"] = True
        if membership.schema is not None:
            found["schema"] = membership.schema.digest
    found["disclosure"] = word_for(policy, DISCLOSURES) if policy.capabilities.exact else "noise"
    if policy.capabilities.sums:
        found["disclosure"] = "noisy-sums"
    if not policy.capabilities.exact:
        found |= budget_parameters(way)
    if policy.capabilities.compares:
        found["dealer"] = policy.capabilities.dealer or "none"
    if isinstance(policy, OwnLabels):
        found["sizes"] = policy.sizes
    basis = plan.code.basis
    return found | {
        "centers": way.quantization.centers,
        "t": plan.code.t,
        "ell": plan.code.ell,
        "primes": list(basis.primes),
        "lanes": basis.lanes,
        "modulus_bits": basis.modulus.bit_length(),
        "reveal_centers": list(plan.revealing),
        "corrected": plan.corrected,
    }


def budget_parameters(way: SecFCSettings) -> dict[str, Any]:
    """What a policy with noise may spend, and on what."""
    policy: Any = way.disclosure
    return {
        "epsilon": policy.budget.epsilon,
        "delta": policy.budget.delta,
        "radius": policy.radius.value,
        "noise": "shares",
        "protect": policy.neighbors.word,
    }


def noise_sentences(policy: Any, plan: CodedPlan) -> dict[str, Any]:
    """How much noise of a policy lies on what, and what its promise takes for public."""
    questions, honest = policy.paid_noise(plan)
    per_client, joined = policy.neighbors.unit == "client", isinstance(plan.layout, ColumnLayout)
    source = "READ OFF THE DATA, which no noise protects" if policy.radius.private else policy.radius.source
    assumed = {
        "clients": f"the names of n = {len(plan.clients)} clients, and that they take part",
        "rows": f"m = {plan.m:,}"
        + (", and of which people" if joined else ", and how many each client has" * (not plan.layout.mixed)),
        "features": f"d = {plan.d}, their names and units",
        "clusters": f"k = {plan.k}, and {policy.public_start}",
        "radius": f"{policy.radius.value:.6g} ({source}); longer {shortened_of(plan)} are shortened to it",
        "questions": f"{questions} are paid for, whether or not all are asked",
        "neighbors": f"{policy.neighbors}; {'all rows of one' if per_client else 'one row'} may differ",
    }
    assumed["honest clients"] = (
        f"the noise of {honest} suffices: t = {plan.code.t} may collude and {policy.absent} vanish"
    )
    return {
        "noise": (NoisyReleaseSummary(*policy.released_noise(plan)),),
        "assumed": assumed,
        "notes": policy.notes(plan),
    }


def shortened_of(plan: CodedPlan) -> str:
    """What is shortened to the radius, by whoever has it."""
    return "parts of rows at one owner" if isinstance(plan.layout, ColumnLayout) else "rows"


def placed_centers(policy: Any, plan: CodedPlan, details: Any) -> CentersSummary | None:
    """How sure centers of noisy sums are, and whom they leave out.  details: as of `Trace.placed`."""
    found, placed = details
    if len(found.counts) != plan.k:
        return None
    scale, lost = float(plan.scale), int((found.counts < placed.least).sum())
    bias = (
        f"A cluster of fewer than {placed.least:,.0f} rows is within the noise: it keeps the center that it "
        f"had, so small groups are not seen ({lost} of {plan.k} here).",
        f"Clipping: {shortened_of(plan)} longer than {policy.radius.value:.6g} are shortened to it, and one "
        f"farther than {found.reach / scale:.6g} from its center counts for less the farther it is, also as "
        "a row. How many rows these are is not released: each client knows its own, and a count would take a "
        "part of the budget.",
    )
    sizes, blur = found.counts.tolist(), placed.blur / scale
    return CentersSummary.of(sizes, found.miscounted, blur, placed.least, bias)


def leakage_under_policy(way: SecFCSettings) -> str:
    """What clients learn of others' points, under any policy of that kind."""
    what: Mapping[str, str] = {
        "sizes": "the sizes of clusters",
        "steps": "the number of steps",
        "noisy sums": "noisy centers",
    }
    return what.get(way.disclosure.capabilities.exposes, "the labels")


def threat_model(plan: CodedPlan, but: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Who is protected from whom, and by which code.  but: what clients learn of others' points."""
    code, basis = plan.code, plan.code.basis
    corrected: tuple[tuple[str, str], ...] = ()
    if plan.corrected:
        most = f"{plan.corrected:,} deviating client{'' if plan.corrected == 1 else 's'}"
        said = f"labels are exact with up to {most}; whose lies are read are named and left out"
        corrected = (("Corrected", said),)
    segments = "is shared whole" if code.ell == 1 else f"is cut into {code.ell} segments and shared"
    primes = "1 prime" if basis.lanes == 1 else f"{basis.lanes} lanes (primes)"
    return (
        ("Privacy", f"t = {code.t}: {hidden_from_coalition(code.t, but)}"),
        *more,
        *corrected,
        ("Coding", f"ell = {code.ell}: each point {segments}"),
        ("Field", f"{primes}, a modulus of {basis.modulus.bit_length()} bits"),
    )


def deviation_note(way: SecFCSettings, plan: CodedPlan) -> tuple[tuple[str, str], ...]:
    """What clients that deviate can do where a committee compares."""
    if not way.disclosure.capabilities.compares:
        return ()
    if not plan.deviating:
        return (("Deviating", "one client that deviates can read the others' rows"),)
    one = plan.deviating == 1
    does = "1 client" if one else f"{plan.deviating} clients"
    what = f"of a committee that deviate{'s' * one} end{'s' * one} the run, and learn{'s' * one} nothing more"
    return (("Deviating", f"{does} {what}"),)


def center_rounding_note(way: SecFCSettings, plan: CodedPlan) -> tuple[tuple[str, str], ...]:
    """To which grid centers are rounded; or, where exact ones are costly, what rounding them would save."""
    if plan.fraction is not None:
        grid = f"rounded to 1/{1 << plan.fraction} of a step, ties up"
        return (("Centers", f"{grid}: labels are those of plaintext k-means that rounds alike"),)
    lanes, steps = plan.code.basis.lanes, plan.quantizer.max_int
    if not way.disclosure.capabilities.rounds or (lanes < MAX_LANES and steps >= LEAST_STEPS):
        return ()
    wide = clusters_rounding_modulus(plan.d, plan.largest, plan.proven, plan.layout.multiple, way.init.factor)
    fewer = lanes_for(wide, LANE_PRIMES)
    if math.prod(LANE_PRIMES[:fewer]) <= wide or (fewer >= lanes and steps >= LEAST_STEPS):
        return ()
    why = f"exact, which takes {lanes} lanes" if lanes == MAX_LANES else f"exact, which leaves {steps} steps"
    saved = f"{fewer} lanes for as many steps" if fewer < lanes else "as many lanes for more steps"
    return (("Centers", f"{why}; --centers rounded takes {saved}, but is not k-means with exact centers"),)


def hidden_from_coalition(t: int, but: str) -> str:
    """What t clients together do not learn.  but: of what they do."""
    if t == 0:
        return "the shares carry no noise and hide nothing from the clients"
    who = "no client learns" if t == 1 else f"no {t} clients together learn"
    return f"{who} anything about the others' points but {but}, as long as all follow the protocol"


# --- private membership --------------------------------------------------------------------------


def rows_are_ids(federation: Federation | None) -> bool:
    """Whether points have no names, so that equal rows are one point."""
    return federation is not None and federation.parties[0].ids is None


def joined_owners(plan: CodedPlan) -> str:
    """Who has which columns of the same people, and who together would have all."""
    names: Any = plan.terms and plan.terms.public.features
    layout: Any = plan.layout
    owns = (
        f"{client} {names_listed([names[column] for column in block]) or 'none'}"
        for client, block in zip(plan.clients, layout.blocks, strict=True)
    )
    return (
        f"columns of the same people, each at one client: {'; '.join(owns)}. Any {plan.code.t + 1} clients "
        "together, also such as have none, hold all columns"
    )


def row_identity(federation: Federation | None, ids: str | None) -> str:
    """What makes two rows the same point.  federation: None at a server, which knows no site's columns."""
    if federation is None:
        return "rows with equal IDs are one point, or equal rows of sites that name no column of IDs"
    if rows_are_ids(federation):
        return "no ID column was named, so the rows themselves are the IDs: equal rows are one point"
    return f"rows with equal IDs{'' if ids is None else f' (column {ids!r})'} are one point"


def never_revealed(membership: Private, plan: CodedPlan) -> tuple[str, ...]:
    """What nobody learns, and who may collude."""
    n, mode = len(plan.clients), membership.mode or Committee(plan.code.t)
    merged = (
        "how many clients hold a point, and which"
        if membership.counts == "hidden"
        else "which clients hold a point that several hold, beyond what their number tells"
    )
    if isinstance(mode, Committee):
        who = "any client" if mode.t == 1 else f"any {mode.t} clients"
        union = (
            f"the union hides this even from {who} together with the server; they see which points are not "
            f"their own, so that each of these belongs to some of the other {n - mode.t} clients"
        )
    else:
        union = (
            f"the union hides this from any {n - 2} clients together, and from the server as long as it "
            "colludes with nobody: with a client it learns which of that client's points others hold as well"
        )
    return (
        "which client holds which point",
        "how many points a client holds, but for what can be told from how long it computes: that grows with "
        "them, and whoever sees when its messages come sees it",
        *((merged,) if membership.merge else ()),
        union,
    )


def opened_by_private_membership(
    membership: Private, plan: CodedPlan, federation: Federation | None
) -> tuple[str, ...]:
    """What is opened that open membership does not need."""
    whole = "; an ID is a whole row here, so that is a test of a guessed row"
    size = f"to all: the size of the union, m = {plan.m:,}"
    if membership.quota:
        return (
            size,
            "to all: pseudonyms of the IDs; only the server and t+1 clients together compute them at will",
            f"to every client: pseudonyms of {membership.quota:,} IDs, so it can test as many guesses as it "
            "has fewer IDs itself" + (whole if rows_are_ids(federation) else ""),
            *_merging(membership),
        )
    return (
        size,
        "to the server: pseudonyms of the IDs, under a key that only clients have",
        "to every client: the same pseudonyms with the key, so it can test whether an ID that it guesses is "
        "in the union" + (whole if rows_are_ids(federation) else ""),
        *_merging(membership),
    )


def _merging(membership: Private) -> tuple[str, ...]:
    """What merging opens, or doing without it."""
    if not membership.merge:
        return ("to all: that no two clients hold the same point",)
    counts = "to all: how many clients hold each point (not which); --counts hidden does not"
    disputes = "to all: which points have different data at their holders: none, or the run ends"
    return (
        *((counts,) if membership.counts == "opened" else ()),
        *((disputes,) if membership.on_conflict == "fail" else ()),
    )
