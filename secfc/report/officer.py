"""The page for whoever has to approve a run: what leaves a site, who sees it, how long, and what was tried.

Facts only, in the words of the texts that ask for them; whether they suffice is for people to decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from secfc.algorithm import Clustering
from secfc.coded.membership import Private
from secfc.coded.plan import CodedPlan
from secfc.coded_kmeans.run_summary import hidden_from_coalition, leakage_under_policy
from secfc.coded_kmeans.secfc import SecFC
from secfc.data.inputs import get_parameter
from secfc.disclosure import (
    AssignmentsOnly,
    Distances,
    FinalLabelsOnly,
    NoiseInShares,
    NoisySums,
    OwnLabels,
)
from secfc.report.costs import CONTENTS, privacy_spent
from secfc.report.data import Report
from secfc.report.deviations import COLUMNS, cells_of, kinds_of, rows_about, scale_kinds
from secfc.report.leakage import attack_sentences
from secfc.report.terminal import CAUTION, Grid, Items, Pairs, Section, Words, pluralize, size_of
from secfc.roles.exchange import SERVER

FILL = "to be filled in by the controller"
# What only people know, and what stands in its place until they say it.
FILLED = {
    "Purpose": FILL,
    "Categories of data subjects": FILL,
    "Legal basis": FILL,
    "Controllers and processors": f"{FILL}: who runs each client and the server, and in which country",
    "Retention": f"{FILL}: how long labels, reports, models and logs are kept",
}


@dataclass(frozen=True, eq=False)
class Practice:
    """What is told of a plan or a run.

    algorithm, plan: of it; the plan None where it is not known.  clients, d: how many, and features.
    m: rows in total, None where nobody may know.  traffic: messages and bytes by direction and kind.
    learned, heard: what the server and every client learn, in sentences.  tried: what attacks found, each in
    a sentence; on: on what.  spent: of differential privacy, in sentences.  happened: whether it was run.
    opened: what private membership opens.  scale: the way of `secfc.scaling` for which clients added sums,
    None if they added none.  fill: what only people know, by names of FILLED in small letters.
    """

    algorithm: Any
    plan: Any
    clients: int
    d: int
    m: int | None
    traffic: Mapping[tuple[str, str], tuple[int, int]]
    learned: Sequence[str]
    heard: Sequence[str]
    tried: Sequence[str]
    on: str
    spent: Sequence[str] = ()
    happened: bool = False
    opened: Sequence[str] = ()
    scale: Any = None
    fill: Mapping[str, str] = field(default_factory=dict)

    @property
    def policy(self) -> Any:
        """What the server may see; None where the algorithm has no such choice."""
        return self.algorithm.capabilities.policy

    @property
    def told(self) -> tuple[str, ...]:
        """What every client learns, of the scale too."""
        return (*self.heard, *(() if self.scale is None else (self.scale.opened,)))

    @property
    def named(self) -> str:
        """The algorithm and its policy."""
        name = type(self.algorithm).__name__
        return name if self.policy is None else f"{name}, {type(self.policy).__name__}"


def of_run(found: Report, result: Clustering) -> Practice:
    """What is told of a run, to strangers too."""
    found = found.public
    traffic = {
        (direction, kind): sent for direction, kinds in found.traffic.items() for kind, sent in kinds.items()
    }
    tried = [] if found.finding is None or found.noisy else attack_sentences(found.finding)
    if found.risk is not None and not found.noisy:
        tried = [*tried, found.risk.sentence]
    m = found.counts.m if found.counts is not None and found.labels_paid else None
    clients = tuple(dict.fromkeys(s for o in result.transcript.envelopes for s in (o.sender,) if s != SERVER))
    heard, way = found.account.heard, result.plan.terms.way
    paid = tuple(privacy_spent(found.ledger, found.delta)) if found.noisy else ()
    return Practice(
        way, result.plan, len(clients), found.d, m, traffic, found.learned, heard, tried,
        "the rows of this run", paid, happened=True, opened=found.account.opened,
        scale=_summed_scale(result),
    )  # fmt: skip


def _summed_scale(result: Clustering) -> Any:
    """The way of scaling for which clients added sums, None if they added none."""
    summed = any(e.kind == "OpenedSumsDigest" for e in result.transcript.envelopes)
    return result.scaling.way if summed else None


# Messages that hold what is made of rows, in the clear.
CLEAR = ("LocalCenters", "LocalCentroids", "AlignedCentroids", "LocalGaussians")


def practice_sections(practice: Practice) -> tuple[Section, ...]:
    """The whole page."""
    found = (
        Section("What is done, and for what", (Pairs(_task(practice)),)),
        Section("What leaves a site, and who sees it", (Words(_leaves(practice)), _sent(practice, "client"))),
        Section("What a site is sent", (_sent(practice, "server"),)),
        Section("Who learns what, if all follow the protocol", (_coalitions(practice),)),
        Section("Who deviates, and what stops it", (_who_deviates(practice),)),
        Section("What a party that deviates can do", (Words(_deviating(practice)), _deviations(practice))),
        Section("Attacks that were tried", _tried(practice)),
        Section("How long it is kept", (_kept(practice),)),
        Section("Where the GDPR asks for this", (_gdpr(),)),
        Section("Where HIPAA asks for this", (_hipaa(practice),)),
        Section("What this page does not say", (Items(_open(practice)),)),
    )
    return tuple(section.trimmed for section in found if not section.empty)


def practice_summary(practice: Practice) -> list[tuple[str, str]]:
    """The first lines."""
    lines = [
        ("Processing", practice.named),
        ("Leaves a site", _leaves(practice)),
        ("The server", f"learns {'; '.join(practice.learned)}"),
    ]
    if practice.told:
        lines.append(("Other sites", f"learn {'; '.join(practice.told)}"))
    lines += [("Privacy", sentence) for sentence in practice.spent[:1]]
    return lines


def _task(practice: Practice) -> list[tuple[str, str]]:
    rows = "" if practice.m is None else f", {practice.m:,} rows in total"
    k = getattr(practice.plan, "k", None)
    k = k if isinstance(k, int) else practice.algorithm.k
    many = pluralize(k, "cluster") if isinstance(k, int) else "clusters"
    how = f"{many} of similar rows (k-means)"
    if practice.algorithm.capabilities.pairs:
        how = "as many clusters as are found, by how far each two are apart"
    fill = practice.fill
    return [
        ("Operation", f"{practice.named}: rows are put into {how}"),
        (
            "Parties",
            f"{pluralize(practice.clients, 'client')} that hold rows{rows}; a server that holds none",
        ),
        (
            "Fields",
            f"{pluralize(practice.d, 'number')} a row; names of columns are public, IDs of rows are "
            + ("compared under keys" if _private(practice) else "not sent"),
        ),
        *((name, fill.get(name.lower(), what)) for name, what in FILLED.items()),
    ]


def _private(practice: Practice) -> bool:
    return isinstance(practice.algorithm.capabilities.membership, Private)


def _leaves(practice: Practice) -> str:
    """What goes out, in a sentence."""
    sent = [(kind, size) for (way, kind), (_, size) in practice.traffic.items() if way.startswith("client")]
    kinds = sorted({kind for kind, _ in sent})
    each = size_of(round(sum(size for _, size in sent) / practice.clients))
    if "RawPoints" in kinds:
        return f"every row, in the clear; about {each} a site"
    if isinstance(practice.algorithm, SecFC):
        t = _t(practice)
        said = "no row in the clear: shares and masked numbers"
        if t:
            said += f"; shares that any {pluralize(t, 'client')} may receive are random numbers that do not "
            said += "depend on rows"
        return f"{said}; about {each} a site"
    clear = [kind for kind in CLEAR if kind in kinds]
    if clear:
        named = ", ".join(CONTENTS.get(kind, kind) for kind in clear)
        return f"no row, but in the clear {named}; about {each} a site"
    named = ", ".join(sorted(CONTENTS.get(kind, kind) for kind in kinds))
    return f"no row in the clear; {named}; about {each} a site"


def _t(practice: Practice) -> int:
    plan = practice.plan
    return plan.code.t if isinstance(plan, CodedPlan) else practice.algorithm.threshold.t or 0


def _sent(practice: Practice, sender: str) -> Grid:
    """What this kind of party says, the largest first."""
    rows = []
    for (direction, kind), (many, size) in sorted(practice.traffic.items(), key=lambda item: -item[1][1]):
        if direction.startswith(sender) and many:
            to = "the server" if direction.endswith("server") else "clients"
            seen = said_of(kind, practice.policy).seen
            rows.append((f"{CONTENTS.get(kind, kind)}, to {to}", seen, f"{many:,}", size_of(size)))
    return Grid(("what", "what its receivers see", "messages", "bytes"), rows, 2)


def _coalitions(practice: Practice) -> Grid:
    rows = [("the server alone", sentence) for sentence in practice.learned]
    rows += [("every client alone", sentence) for sentence in practice.told]
    if isinstance(practice.algorithm, SecFC):
        t, way = _t(practice), practice.algorithm
        if t:
            rows.append(
                (
                    f"any {pluralize(t, 'client')} together",
                    hidden_from_coalition(t, leakage_under_policy(way)),
                )
            )
            rows.append(
                (f"{t + 1} clients together, or more", "nothing is promised: shares give small or "
                 f"categorical values of all rows, and those of {t + way.threshold.ell} clients all")
            )  # fmt: skip
        else:
            rows.append(("any client", hidden_from_coalition(0, leakage_under_policy(way))))
        if (line := collusion_line(practice.policy)) is not None:
            rows += [(who.strip(), "together no more than its members alone") for who in line[0].split(";")]
            who, _, what = line[1].partition(":")
            rows.append((who, what.strip() or "nothing is promised"))
    opened = (*practice.opened, *_released(practice))
    rows += [("everybody who has the result", sentence) for sentence in opened]
    return Grid(("coalition", "learns"), rows, 2)


def _released(practice: Practice) -> tuple[str, ...]:
    """What is released of labels, in sentences."""
    labels = get_parameter(practice.algorithm, "labels", None)
    if labels is None:
        return ()
    k = practice.plan.k if isinstance(practice.plan.k, int) else practice.plan.k.most
    return (labels.sentence(k),)


def _who_deviates(practice: Practice) -> Grid:
    kinds = {*kinds_of(practice.algorithm, practice.plan), *scale_kinds(practice.scale)}
    rows = (cells_of(row) for row in rows_about(kinds))
    return Grid(COLUMNS, [tuple(re.sub(r"[*`]", "", cell) for cell in row) for row in rows], 5)


def _deviating(practice: Practice) -> str:
    return (
        "What follows holds for parties that do not follow the protocol, message by message, and what stops "
        "them. Where it says unnoticed, nothing does; noticed, the run ends, and nobody is named unless it "
        "says so."
    )


def _deviations(practice: Practice) -> Grid:
    rows: dict[tuple[str, str], None] = {}
    for (direction, kind), (many, _) in practice.traffic.items():
        if many:
            sender = direction.split(" -> ")[0]
            who = "the server" if sender == "server" else "a client"
            said = said_of(kind, practice.policy).deviating
            rows[(f"{CONTENTS.get(kind, kind)}, of {who}", said)] = None
    return Grid(("message", "what its sender can do, and what stops it"), list(rows), 2)


def _tried(practice: Practice) -> tuple[Words | Grid | Items, ...]:
    rows = [(sentence, *_attack(sentence)) for sentence in practice.tried]
    if not rows and not practice.spent:
        return (Words("None was tried: secfc attack --help names those there are."),)
    said = Words(f"Tried on {practice.on}. Others may do better.") if rows else Words("")
    return (said, Grid(("found", "attack", "to repeat it"), rows, 3), Items(tuple(practice.spent)))


def _attack(sentence: str) -> tuple[str, str]:
    """Which attack a sentence stands on, and the command that repeats it."""
    if "recognize" in sentence or "took part" in sentence:
        return "membership (secfc.attacks.membership)", "secfc attack membership"
    if "labels" in sentence and "distances" not in sentence:
        return "history of labels (secfc.attacks.history)", "secfc attack geometry"
    return "geometry of distances (secfc.attacks.geometry)", "secfc attack geometry"


def _kept(practice: Practice) -> Grid:
    rows = [
        ("shares and masks of others' rows", "memory of every computing client", "until the run ends"),
        ("journals, if a run is to resume", "each party's own disk, readable by its user alone",
         "deleted when results are written"),
        ("labels of own rows", "each client: results/, or the file that --labels names", _kept_for(practice)),
        ("the report", "each party's own disk", _kept_for(practice)),
    ]  # fmt: skip
    if isinstance(practice.algorithm, SecFC) and practice.policy.capabilities.exact:
        rows.append(("the model, if it is kept (--model, deploy predict): own shares of the centers",
                     "each client's own disk; secret", _kept_for(practice)))  # fmt: skip
    rows.append(("what the server was sent", "memory of the server", "until the run ends"))
    if _released(practice):
        rows.append(("released labels", "wherever they are published", "for good: nobody calls them back"))
    rows.append(("logs", "each party's own disk", f"{_kept_for(practice)}; they hold no row and no ID"))
    return Grid(("what", "where", "how long"), rows, 3)


def _kept_for(practice: Practice) -> str:
    return practice.fill.get("retention", FILL)


def _gdpr() -> Grid:
    rows = (
        ("Art. 4(1), (5)", "personal data; pseudonymisation", "what leaves a site; who learns what"),
        ("Art. 5(1)(b), (c)", "purpose limitation, data minimisation", "What is done; what leaves a site"),
        ("Art. 5(1)(e)", "storage limitation", "How long it is kept"),
        ("Art. 5(1)(f), 32", "integrity, confidentiality, security of processing",
         "Who learns what; what a party that deviates can do; attacks that were tried"),
        ("Art. 25", "data protection by design", "the policy, t, and what is not sent at all"),
        ("Art. 30(1)(a)-(g)", "records of processing", "what is done; recipients: what leaves a site; "
         "erasure: how long it is kept; measures: this page"),
        ("Art. 35(7)(a)-(d)", "impact assessment: description, necessity, risks, measures",
         "What is done; why so much leaves a site; attacks that were tried; who learns what"),
    )  # fmt: skip
    return Grid(("article", "asks about", "on this page"), rows, 3)


def _hipaa(practice: Practice) -> Grid:
    rows = (
        ("164.514(a)", "whether information identifies an individual",
         "not claimed of rows at a site, nor of labels with row numbers or IDs"),
        ("164.514(b)(1)", "expert determination of a very small risk",
         "who learns what, and attacks that were tried, are for an expert; none is made here"),
        ("164.514(b)(2)", "the identifiers of the safe harbor method",
         f"which columns are clustered: {FILL}; IDs are "
         + ("sent under keys only" if _private(practice) else "not sent")),
        ("164.514(d)", "minimum necessary", "what leaves a site, and what the server learns"),
    )  # fmt: skip
    return Grid(("section", "asks about", "on this page"), rows, 3)


def _open(practice: Practice) -> tuple[str, ...]:
    return (
        "whether these facts suffice in law: that is for the controller, and whoever advises it",
        "what labels themselves say about people: they are the result, and who has them can use them",
        "how well machines and keys of the parties are kept; who carries messages sees their times and sizes",
        *(() if practice.happened else ("how long a run takes and how many steps it has: data decide that",)),
    )


def as_html(practice: Practice) -> str:
    """The page."""
    from secfc.report.page import load_template

    return str(
        load_template("officer.html.jinja").render(
            title=f"For approval: {practice.named}",
            happened=practice.happened,
            caution=CAUTION,
            summary=practice_summary(practice),
            sections=practice_sections(practice),
        )
    )


# --------------------------------------------------------------------------------------------------
# The security argument as data: of each message what a coalition sees of it, and what its sender can do.
#
# Read from the tables of `secfc/disclosure/README.md`, which tests keep in step with the messages of runs,
# and of `policies.md` beside it; so a page for officers says what the argument says.

UNKNOWN = "not described in the security argument"


@dataclass(frozen=True)
class MessageArgument:
    """A message under a policy: what its receiver sees, and what its sender can do by deviating."""

    seen: str
    deviating: str


@cache
def argument_tables() -> Mapping[str, Mapping[str, MessageArgument]]:
    """By title, in the order of the page; what says "as above" is said again."""
    page = files("secfc.disclosure").joinpath("README.md").read_text(encoding="utf-8")
    found: dict[str, dict[str, MessageArgument]] = {}
    for title, text in re.findall(r"<!-- from code: (?:messages|also): (.*?) -->\n+((?:\|.*\n)+)", page):
        table = found.setdefault(title, {})
        above = MessageArgument("", "")
        for line in text.splitlines()[2:]:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for kind in re.findall(r"`(\w+)`", cells[0]) if len(cells) >= 4 else ():
                above = MessageArgument(
                    _again(cells[2], kind, found, title, above, "seen"),
                    _again(cells[3], kind, found, title, above, "deviating"),
                )
                table[kind] = above
    return found


def _again(
    text: str,
    kind: str,
    found: Mapping[str, Mapping[str, MessageArgument]],
    title: str,
    above: MessageArgument,
    part: str,
) -> str:
    """A cell that refers to another, with what that says."""
    if text.startswith(("as above", "the same")) and not text.startswith("the same "):
        earlier = [table[kind] for name, table in found.items() if kind in table and name != title]
        said = getattr(earlier[-1] if earlier else above, part)
        return str(said) + strip_markdown(re.sub(r"^(as above|the same)", "", text))
    if named := re.match(r"as (?:under|by) `([^`]+)`", text):
        under = found.get(named[1], {}).get(kind) or next(
            (table[named[1]] for table in reversed(list(found.values())) if named[1] in table), None
        )
        if under is not None:
            return str(getattr(under, part)) + strip_markdown(text[named.end() :])
    return strip_markdown(text)


def strip_markdown(text: str) -> str:
    """Without the marks of Markdown."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("`", "").replace("**", "").replace("\\", "")


def title_of(policy: Any) -> str:
    """Title of the table of a policy."""
    name = type(policy).__name__
    dealer = policy.capabilities.dealer
    if name == "PairBits":
        return "DBSCAN()"
    if isinstance(policy, FinalLabelsOnly):
        return "FinalLabelsOnly()" if dealer is None else 'FinalLabelsOnly(dealer="server")'
    if isinstance(policy, AssignmentsOnly | OwnLabels | NoisySums):
        return f"{name}(dealer=None)" if dealer is None else f"{name}()"
    if isinstance(policy, NoiseInShares):
        return f"{name}()"
    return "Distances(dealt=True)" if isinstance(policy, Distances) and policy.dealt else "Distances()"


def said_of(kind: str, policy: Any = None) -> MessageArgument:
    """The argument about a message, under a policy if it has a table."""
    order = [] if policy is None else [title_of(policy)]
    # Final labels with a dealer are kept as owners' labels are.
    order += [title for title in argument_tables() if title not in order]
    return next(
        (argument_tables()[title][kind] for title in order if kind in argument_tables().get(title, {})),
        _ELSEWHERE.get(kind, MessageArgument(UNKNOWN, UNKNOWN)),
    )


_ELSEWHERE = {
    "RawPoints": MessageArgument("every point, in the clear", "send other points"),
    "LocalCenters": MessageArgument(
        "means of the sender's local clusters, in the clear", "send other centers"
    ),
    "CenterLabels": MessageArgument("the merged centers, in the clear", "send other centers"),
    "PointLabels": MessageArgument("labels of the sender's points", "send other labels"),
}


def collusion_line(policy: Any) -> tuple[str, str] | None:
    """Who learns nothing beyond the result, and who breaks that: the line of `policies.md` for a policy that
    compares unseen, None for others."""
    if not isinstance(policy, AssignmentsOnly | OwnLabels | FinalLabelsOnly):
        return None
    page = files("secfc.disclosure").joinpath("policies.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", page.split("| dealer |")[1], re.MULTILINE)
    name, dealer = type(policy).__name__, policy.dealer
    for first, learns, breaks in lines:
        if name == "AssignmentsOnly":
            fits = {SERVER: "the server (default)", None: "nobody, `AssignmentsOnly"}.get(
                dealer, "a client, `AssignmentsOnly"
            )
        elif name == "OwnLabels":
            fits = "nobody, `OwnLabels" if dealer is None else "the server or a client, `OwnLabels"
        else:
            fits = ("nobody" if dealer is None else "the server or a client") + ", `FinalLabelsOnly"
        if first.startswith(fits):
            if learns.startswith("as above"):
                before = collusion_line(AssignmentsOnly(dealer=dealer))
                learns = (before[0] if before else "") + learns.removeprefix("as above")
            return strip_markdown(learns), strip_markdown(breaks)
    return None
