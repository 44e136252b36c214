"""The report of a union of IDs: what it cost, and what each party learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from psu import Committee, Server, UnionResult
from secfc.report import terminal
from secfc.report.data import library_versions
from secfc.report.json import strict_json

ROLES = {"client": "each client", "member": "each member", "server": "server"}


@dataclass(frozen=True, eq=False, repr=False)
class UnionReport:
    """A finished union and what is needed to report it.

    ids and distinct: how many IDs each client has, with and without repetition.  wall: seconds by the
    clock.
    """

    result: UnionResult
    ids: Mapping[str, int]
    distinct: Mapping[str, int]
    source: str
    notes: tuple[str, ...]
    wall: Mapping[str, float]

    @property
    def repeated(self) -> dict[str, int]:
        """IDs that stand once more in the file of the same client, of clients that have any."""
        return {
            name: count - self.distinct[name]
            for name, count in self.ids.items()
            if count > self.distinct[name]
        }


def role_seconds(result: UnionResult) -> dict[str, dict[str, float]]:
    """CPU time by role: mean and maximum over its parties."""
    return _by_role(dict(result.seconds))


def role_bytes(result: UnionResult) -> dict[str, dict[str, float]]:
    """Bytes sent by role: mean and maximum over its parties."""
    return _by_role({party: result.sent(party) for party in result.seconds})


def _by_role(values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    found = {role: [v for party, v in values.items() if party.split()[0] == role] for role in ROLES}
    return {role: {"mean": sum(v) / len(v), "max": max(v)} for role, v in found.items() if v}


def total_bytes(result: UnionResult) -> int:
    """Bytes that all parties sent together."""
    return sum(size for _, size in result.traffic.values())


def leakage_sentences(union: UnionReport) -> dict[str, list[str]]:
    """What each party learned and what it did not, in sentences."""
    result = union.result
    n, m, plan = result.plan.n, result.m, result.plan
    guesses = (
        "pseudonyms of all IDs with the key that makes them, so it can test whether an ID that it "
        "guesses is in the union (--quota prevents that)"
    )
    if plan.quota:
        guesses = (
            f"pseudonyms of all IDs, and of {plan.quota:,} that it named: it can test as many guesses as it "
            f"has fewer IDs; more take the server and {terminal.pluralize(plan.t + 1, 'client')} together"
        )
    facts: dict[str, list[str]] = {
        "every client": [f"the size of the union, {m:,}, and the row number of each of its own IDs", guesses],
        "the server": [f"the size of the union, {m:,}, and pseudonyms of the IDs under a key that it lacks"],
    }
    facts["whoever sees when messages come"] = [
        "about how many IDs a client has: the more it has, the longer it computes before it answers"
    ]
    if isinstance(plan.mode, Server):
        facts["the server"].append("nothing about who holds an ID, as long as it colludes with no client")
        facts["a client together with the server"] = [
            "which of that client's IDs somebody else holds as well, not who, nor how many"
        ]
        if n > 2:
            some = "any client" if n == 3 else f"any {n - 2} clients together"
            facts[some] = [
                "the union and no more from messages: not who else holds an ID, nor how many IDs anybody has"
            ]
        return facts
    t, some = plan.t, "any client" if plan.t == 1 else f"any {plan.t} clients"
    facts[f"{some} together with the server"] = [
        "the union and no more from messages: not who holds an ID, how many hold it, how many IDs anybody "
        "has, nor how many two clients have in common",
        f"which IDs of the union are not their own: each of these belongs to some of the other "
        f"{n - t} clients",
    ]
    facts[f"{t + 1} or more of the {len(plan.committee)} committee members together"] = [
        "could find out who holds what: t is the limit"
    ]
    return facts


def as_json(union: UnionReport) -> dict[str, Any]:
    """The report as one object of plain values: strictly JSON."""
    result = union.result
    plan = result.plan
    server = isinstance(plan.mode, Server)
    by_kind: dict[str, dict[str, dict[str, int]]] = {}
    for (sender, recipient, kind), (messages, size) in result.traffic.items():
        direction = f"{sender.split()[0]} -> {recipient.split()[0]}"
        entry = by_kind.setdefault(direction, {}).setdefault(kind, {"messages": 0, "bytes": 0})
        entry["messages"] += messages
        entry["bytes"] += size
    report: dict[str, Any] = {
        "format": 1,
        "versions": library_versions(),
        "source": union.source,
        "parameters": {
            "mode": "server" if server else "threshold",
            "t": None if server else plan.t,
            "spares": plan.mode.spares if isinstance(plan.mode, Committee) else None,
            "committee": len(plan.committee),
            "bound": plan.bound,
            "sized": plan.sized,
            "quota": plan.quota or None,
        },
        "n": plan.n,
        "m": result.m,
        "clients": {
            name: {"ids": count, "distinct": union.distinct[name]} for name, count in union.ids.items()
        },
        "estimate": result.estimate,
        "rounds": result.rounds,
        "attempts": result.attempts,
        "seconds": {**role_seconds(result), "wall": dict(union.wall)},
        "bytes": {"sent": role_bytes(result), "total": total_bytes(result), "by_direction": by_kind},
        "learned": leakage_sentences(union),
        "notes": list(union.notes),
    }
    plain: dict[str, Any] = strict_json(report)
    return plain


def cost_table(result: UnionResult) -> Table:
    """Milliseconds and bytes sent, by role."""
    table = terminal.rich_table("Who", "ms", "max", "sent", "max", text=1)
    spent, size = role_seconds(result), role_bytes(result)
    for role, who in ROLES.items():
        if role in spent:
            table.add_row(
                who,
                terminal.in_milliseconds(spent[role]["mean"]),
                "" if role == "server" else terminal.in_milliseconds(spent[role]["max"]),
                terminal.size_of(round(size[role]["mean"])),
                "" if role == "server" else terminal.size_of(round(size[role]["max"])),
            )
    return table


def print_union(console: Console, union: UnionReport) -> None:
    """Print the whole report."""
    result, plan = union.result, union.result.plan
    terminal.print_heading(console, "Private set union")
    least, most = min(union.ids.values()), max(union.ids.values())
    each = f"{least:,} each" if least == most else f"{least:,} to {most:,} each"
    lines = [
        ("Source", union.source),
        ("IDs", f"{sum(union.ids.values()):,} at n = {terminal.pluralize(plan.n, 'client')} ({each})"),
    ]
    if union.repeated:
        many = sum(union.repeated.values())
        lines.append(
            ("Repeated", f"{many:,} within a client; each counts once, and equal IDs have equal row numbers")
        )
    if isinstance(plan.mode, Server):
        lines.append(
            ("Mode", "server: only the server, which must collude with nobody, sees the sum of tables")
        )
    else:
        lines.append(
            (
                "Mode",
                f"threshold, t = {plan.t}: a committee of "
                f"{terminal.pluralize(len(plan.committee), 'client')} "
                f"holds "
                f"shares of the sum of tables; {plan.mode.spares or 'none'} of them may fall silent",
            )
        )
    if plan.quota:
        lines.append(("Tags", f"oblivious, for {plan.quota:,} IDs of each client, real or made up"))
    size = f"estimated first, as {result.estimate:,}" if plan.sized else f"tables are made for {plan.bound:,}"
    lines += [
        ("Size", size),
        (
            "Rounds",
            f"{terminal.pluralize(result.rounds, 'round')} of openings, "
            f"{terminal.pluralize(result.attempts, 'table')}",
        ),
    ]
    terminal.print_pairs(console, lines)
    for note in union.notes:
        terminal.print_paragraph(console, f"Note: {note}", "yellow")
    terminal.print_heading(console, "Result")
    terminal.print_paragraph(console, f"The union has {terminal.pluralize(result.m, 'ID')}.", "bold green")
    terminal.print_heading(console, "Time and traffic")
    terminal.print_paragraph(
        console,
        "All parties were simulated in this process, one after another; networks are not counted. Together: "
        f"{terminal.duration_text(union.wall.get('union', 0.0))}, {terminal.size_of(total_bytes(result))}.",
    )
    console.print(cost_table(result))
    terminal.print_heading(console, "What each party learned")
    for who, facts in leakage_sentences(union).items():
        terminal.print_paragraph(console, f"{who[0].upper()}{who[1:]}:")
        terminal.print_items(console, facts)
