"""The tables of pages that come from code: `python -m docs.tables` writes them anew, a test compares."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from pathlib import Path

import secfc
from docs.ways import POLICIES, TREE, Fork, columns_apart, federation, said, way_of
from secfc import errors
from secfc.algorithm import PublicFacts
from secfc.coded.queries import Operation
from secfc.data.inputs import with_parameters
from secfc.deploy import floors, reconnect
from secfc.pairs import TOLD
from secfc.report.deviations import COLUMNS, TABLE, cells_of, kinds_of, rows_about
from secfc.roles.blame import TABLE as BLAME
from secfc.roles.blame import Absence
from tests.loading import every_message

ROOT = Path(__file__).resolve().parent.parent


def sentences(facts):
    return "<br>".join(fact[0].upper() + fact[1:] + "." for fact in facts)


def who_learns_what():
    rows = [
        "| policy | in every step the server sees | the server learns | every client learns |",
        "|---|---|---|---|",
    ]
    ways = {f"`{code}`": (policy, {}) for code, policy in POLICIES.items()}
    for code in ("OwnLabels()", "AssignmentsOnly()", "NoisySums(Budget(8, 1e-6), ...)"):
        ways[f"`{code}` with `Joined()`"] = POLICIES[code], {"membership": secfc.Joined()}
    for code in ("OwnLabels()", "AssignmentsOnly()"):
        ways[f"`{code}` with a dendrogram"] = POLICIES[code], {"dendrogram": True}
    for code, (policy, want) in ways.items():
        server, clients = said(policy, want)
        rows.append(
            f"| {code} | {policy.capabilities.exposes} | {sentences(server)} | {sentences(clients)} |"
        )
    for code, way, once in (
        ("`DBSCAN(eps=1)`", secfc.DBSCAN(1.0, threshold=1), "which points are near, once"),
        (
            "`Precomputed(consent=True)`",
            secfc.Precomputed(None, consent=True, threshold=1),
            "distances of points, once",
        ),
    ):
        server = way.server_learned(way.plan(PublicFacts.of(federation(), 4.0)))
        rows.append(f"| {code} | {once} | {sentences(server)} | {sentences([TOLD])} |")
    return "\n".join(rows)


def tree(node=TREE, depth=0):
    """The decision tree as a list, for readers without the picture."""
    if not isinstance(node, Fork):
        return f" `{node.code}`: {node.why} ([why]({node.page}))"
    pad = "    " * depth
    answers = "\n".join(
        f"{pad}- *{word}*:{tree(next_, depth + 1)}" for word, next_ in (("yes", node.yes), ("no", node.no))
    )
    return (f" **{node.question}**" if depth else f"**{node.question}**\n") + f"\n{answers}"


def features():
    """What can be combined: each policy against what a run may want, by asking for a plan."""
    wants = {
        "several starts": {"n_init": 2},
        "centers opened": {"reveal_centers": True},
        "k chosen": {"k": secfc.Elbow(4)},
        "dendrogram": {"dendrogram": True},
        "hidden membership": {"membership": secfc.Private(counts="hidden")},
        "joined columns": {"membership": secfc.Joined()},
        "workers": {"workers": 3},
        "replies corrected": {"corrected": 1},
        "rounded centers": {"centers": "rounded"},
    }
    rows = ["| policy | " + " | ".join(wants) + " |", "|---" * (len(wants) + 1) + "|"]
    whole, apart = federation(), columns_apart()

    def possible(policy, want):
        try:
            way = with_parameters(way_of(policy), **want)
            data = apart if way.capabilities.joins else whole
            way.foreseen(way.plan(PublicFacts.of(data, 4.0)), data)
        except (ValueError, secfc.ProtocolError):
            return False
        return True

    for code, policy in POLICIES.items():
        marks = ("yes" if possible(policy, want) else "-" for want in wants.values())
        rows.append(f"| `{code}` | " + " | ".join(marks) + " |")
    return "\n".join(rows)


def benchmarks():
    """Each script behind a figure: its command, what it measures, and the pages that quote it."""
    pages = sorted(
        p
        for p in ROOT.glob("**/*.md")
        if p.relative_to(ROOT).parts[0] in ("secfc", "psu", "benchmarks", "README.md")
    )
    rows = ["| script | what it measures | its figures are on |", "|---|---|---|"]
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text()))
        if path.stem.startswith("_") or "__main__" not in path.read_text() or not text:
            continue
        quoting = [
            p.relative_to(ROOT).as_posix()
            for p in pages
            if re.search(rf"-m benchmarks\.{path.stem}\b", p.read_text())
        ]
        links = ", ".join(f"[{name.removesuffix('/README.md')}](../{name})" for name in quoting)
        rows.append(
            f"| `python -m benchmarks.{path.stem}` | {' '.join(text.split(chr(10) * 2)[0].split())} "
            f"| {links or '-'} |"
        )
    return "\n".join(rows)


def deviations_in_short():
    """The rows of that table about the default policy, and in what a deviation goes unnoticed."""
    told = rows_about(kinds_of(secfc.SecFC(2)))
    stopped = "; ".join(row.who for row in told if row.seen != "unnoticed")
    open_ = "; ".join(f"{row.who} (learns {row.learns})" for row in told if row.seen == "unnoticed")
    page = "[all, with the tests that hold it](docs/threats.md#who-deviates-and-what-stops-it)"
    return (
        "Malformed messages are refused and their sender is named. Of who deviates within the format, under "
        f"the default policy ({page}): *Noticed, or named:* {stopped}. *Unnoticed:* {open_}."
    )


def deviations():
    """Who deviates and what stops it, with the tests that hold it."""
    columns = (*COLUMNS, "tests")
    rows = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in TABLE:
        names = ", ".join(f"`{name.rpartition(':')[2]}`" for name in row.tests)
        rows.append("| " + " | ".join((*cells_of(row), names or "-")) + " |")
    return "\n".join(rows)


# What the docstring of a message, or of the queries, says of it under policies: one paragraph for each.
JUDGED = re.compile(
    r"(?:`(\w+)` u|U)nder (.+?): (?:(.+?)\. Seen: (.+?)\. By deviating: (.+)|(as under [^:]+))\."
)


@functools.cache
def judged():
    """By table, the messages that its lines are about, by their cells."""
    tables = {}
    for kind in [*sorted(every_message(), key=lambda kind: kind.tag), Operation]:
        for text in (inspect.getdoc(kind) or "").split("\n\n"):
            if found := JUDGED.fullmatch(" ".join(text.split())):
                name, titles, *cells, alike = found.groups()
                for title in titles.split("; "):
                    plain = title if title[0].isupper() else title.strip('"')
                    lines = tables.setdefault(plain, {})
                    lines.setdefault((alike,) * 3 if alike else tuple(cells), []).append(
                        name or kind.__name__
                    )
    return tables


def messages(title):
    """What each message of a table shows, and what its sender can do: docstrings say it."""
    rows = ["| message | from, to | a coalition sees | a sender that deviates can |", "|---|---|---|---|"]
    for cells, names in judged()[title].items():
        rows.append(f"| {', '.join(f'`{name}`' for name in names)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def blame():
    """What follows where a message does not come, and whom contents that contradict others make suspects."""
    rows = ["| without one the run | messages | suspects, and by what |", "|---|---|---|"]
    for row in sorted(BLAME, key=lambda row: [*Absence].index(row.absence)):
        kinds = ", ".join(f"`{kind}`" for kind in row.kinds)
        doubts = [f"*{roles}*: {why}" for roles, why in row.doubts.items()]
        proofs = [f"proof against *{roles}*: {why}" for roles, why in row.proofs.items()]
        rows.append(f"| {row.absence.value} | {kinds} | {'; '.join(doubts + proofs) or '-'} |")
    return "\n".join(rows)


def verdicts():
    """How many lines of the papers' page have each verdict."""
    counted = re.search(
        r"^\| verdict \| lines \|\n(?:\|.*\n)+", (ROOT / "docs/papers.md").read_text(), re.MULTILINE
    )
    return counted[0].strip()


def lost():
    """How many cells of the matrix of private clustering are lost, by part."""
    return re.search(
        r"^\| part \|.*lost.*\n(?:\|.*\n)+", (ROOT / "docs/dp_matrix.md").read_text(), re.MULTILINE
    )[0].strip()


def problems():
    """Each problem by its number: what its error's docstring says of it."""
    rows = [
        "| problem | error | what happened | who may have done it | what to do |",
        "|---|---|---|---|---|",
    ]
    homes = (errors, floors, reconnect)
    for name, number in errors.PROBLEMS.items():
        kind = next(getattr(home, name) for home in homes if hasattr(home, name))
        what, more, *_ = (" ".join(text.split()) for text in inspect.getdoc(kind).split("\n\n"))
        by, remedy = re.fullmatch(r"By: (.+?)\. What to do: (.+)\.", more).groups()
        rows.append(f"| SECFC-{number} | `{name}` | {what.removesuffix('.')} | {by} | {remedy} |")
    return "\n".join(rows)


TABLES = {
    ("paper.md", "verdicts"): verdicts,
    ("README.md", "deviations"): deviations_in_short,
    ("docs/threats.md", "deviations"): deviations,
    ("secfc/feddp/README.md", "lost"): lost,
    ("secfc/disclosure/README.md", "blame"): blame,
    ("docs/who_learns_what.md", "policies"): who_learns_what,
    ("docs/choose.md", "tree"): tree,
    ("docs/features.md", "features"): features,
    ("docs/benchmarks.md", "benchmarks"): benchmarks,
    ("secfc/deploy/problems.md", "problems"): problems,
}
SECURITY = "secfc/disclosure/README.md"
for name, title in re.findall(r"<!-- from code: (\w+: (.+)) -->", (ROOT / SECURITY).read_text()):
    TABLES[SECURITY, name] = functools.partial(messages, title)


def between(name):
    return re.compile(rf"(<!-- from code: {re.escape(name)} -->\n).*?(\n<!-- end -->)", re.DOTALL)


def main():
    for (page, name), table in TABLES.items():
        path = ROOT / page
        blank = "\n" if table().startswith("|") or "- *" in table() else ""  # a paragraph needs none
        text, count = between(name).subn(
            lambda m, t=table, b=blank: f"{m[1]}{b}{t()}{b}{m[2]}", path.read_text()
        )
        assert count == 1, page
        path.write_text(text)


if __name__ == "__main__":
    main()
