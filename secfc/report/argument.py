"""The security argument as data: of each message what a coalition sees of it, and what its sender can do.

Read from the tables of `secfc/disclosure/README.md`, which tests keep in step with the messages of runs, and
of `policies.md` beside it; so a page for officers says what the argument says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from secfc.disclosure import AssignmentsOnly, Distances, FinalLabelsOnly, NoiseInShares, OwnLabels
from secfc.roles.exchange import SERVER

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
    for title, text in re.findall(r"<!-- (?:messages|also): (.*?) -->\n((?:\|.*\n)+)", page):
        table = found.setdefault(title, {})
        above = MessageArgument("", "")
        for line in text.splitlines()[2:]:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            kind = re.match(r"`(\w+)`", cells[0])
            if kind is None or len(cells) < 4:
                continue
            above = MessageArgument(
                _again(cells[2], kind[1], found, title, above, "seen"),
                _again(cells[3], kind[1], found, title, above, "deviating"),
            )
            table[kind[1]] = above
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
    if isinstance(policy, FinalLabelsOnly):
        return "FinalLabelsOnly()" if dealer is None else 'FinalLabelsOnly(dealer="server")'
    if isinstance(policy, AssignmentsOnly | OwnLabels):
        return f"{name}(dealer=None)" if dealer is None else f"{name}()"
    if isinstance(policy, NoiseInShares):
        return "NoiseInShares()"
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
