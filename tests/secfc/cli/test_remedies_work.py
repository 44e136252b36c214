"""Every option that a message about files names, added to the line that raised it, gives another outcome."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nightly import every
from tests.secfc.data.test_doubts import DOUBTS
from tests.small import invoke

MANY = "".join(f"{i},{i % 7}.5,{i % 3}\n" for i in range(30))
FILES = {name: text for name, (text, *_) in DOUBTS.items()} | {
    "text": "x,s\n" + "".join(f"{i}.5,{'uvw'[i % 3]}\n" for i in range(12)),
    "dates": "x,day\n" + "".join(f"{i}.5,2024-01-{i + 10}\n" for i in range(12)),
    "gaps": "x,y\n" + "".join(f"{i}.5,{'' if i == 3 else i % 4}\n" for i in range(12)),
    "a word": "x,y\n" + "".join(f"{i}.5,{'<5' if i == 3 else i % 4}\n" for i in range(12)),
    "an infinite number": "x,y\n" + "".join(f"{i}.5,{'inf' if i == 3 else i % 4}\n" for i in range(12)),
    "percentages": "x,y\n" + "".join(f"{i}.5,{i} %\n" for i in range(12)),
    "mixed signs": "x;y\n" + "".join(f"{i}.5;{i},5\n" for i in range(12)),
    "an outlier": f"n,x,y\n{MANY}99,1e12,1\n",
    "another outlier": f"n,x,y\n{MANY}99,1e300,1\n",
    "a total": f"n,x,y\n{MANY}Total,5,5\n",
    "a half header": "x,1\n1,2\n3,4\n",
    "several delimiters": "a,b;c,d\n1,2;3,4\n5,6;7,8\n",
    "clients": "x,site\n" + "".join(f"{i}.5,{'' if i == 4 else 'abc'[i % 3]}\n" for i in range(12)),
    "other columns": "x,y\n1,2\n3,4\n",
    "IDs": "id,x\n" + "".join(f"{i}.0,{i}\n" for i in range(12)),
    "letters": "größe,y\n1,2\n3,4\n",
}
GIVEN = (
    "", "--decimal ,", "--decimal .", "--thousands ,", "--missing mean --bound 1e4", "--missing drop",
    "--missing mean --standardize", "--standardize", "--to-range", "--header", "--no-header", "--absent ?",
    "--id-column id", "--client-column site --missing drop", "--features union", "--encoding cp1252",
    "--standardize --outside refuse",
)  # fmt: skip
# What stands for a value that the user chooses.
VALUES = {
    "--delimiter": [",", ";"], "--decimal": [".", ","], "--thousands": [".", ","], "--encoding": ["cp1252"],
    "--bound": ["1e13"], "--scale": ["1000"], "--ranges": ["x=0:20,y=0:20"],
}  # fmt: skip


def check(folder: Path, words: list[str]) -> dict[str, Any]:
    """What `secfc check` tells, or the error that ended it."""
    done = invoke("check", *sorted(folder.glob("*.csv")), *words, "--json")
    if done.stdout.startswith("{"):
        told: dict[str, Any] = json.loads(done.stdout)
        return told
    assert done.exit_code == 2, done.output
    return {"faults": [{"text": done.stderr, "options": [], "column": None}]}


def lines(option: str, fault: dict[str, Any], given: list[str], text: str) -> Iterator[list[str]]:
    """Lines with an option that a fault names, with each value that may be meant."""
    flag, *value = shlex.split(option)
    column = fault["column"] or "y"
    values = [value] if value else [[one] for one in VALUES.get(flag, [])]
    if flag in ("--exclude", "--id-column", "--categorical", "--client-column"):
        values = [[column]]
    elif flag == "--absent":
        cut = ({cell.strip() for cell in re.split(signs, text)} for signs in ("[,;\n]", "[;\n]"))
        words = ([f'"{c}"' if "," in c else c for c in cells if c and not c[0].isdigit()] for cells in cut)
        values = [[",".join(some)] for some in words]
    elif flag == "--columns":
        values = [["x"]]
    kept = list(given)
    opposite = {"--header": "--no-header", "--no-header": "--header"}.get(flag)
    for one in filter(None, (flag, opposite)):
        if one in kept:
            at = kept.index(one)
            del kept[at : at + (1 if kept[at + 1 :] == [] or kept[at + 1].startswith("--") else 2)]
    for one in values or [[]]:
        yield [*kept, flag, *one]


@pytest.mark.parametrize("given", every(8, GIVEN))
def test_each_option_that_is_named_changes_what_comes_out(tmp_path: Path, given: str) -> None:
    words, tried, idle = shlex.split(given), 0, []
    for name, text in FILES.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        for site in "abc":
            bare = text.replace("x,y", "x,z") if (name, site) == ("other columns", "c") else text
            (folder / f"{site}.csv").write_bytes(bare.encode("cp1252" if name == "letters" else "utf-8"))
        for fault in check(folder, words)["faults"]:
            for option in fault["options"]:
                tried += 1
                more = list(lines(option, fault, words, text))
                others = [{one["text"] for one in check(folder, line)["faults"]} for line in more]
                if not any(fault["text"] not in other for other in others):
                    idle.append((name, given, option, fault["text"].replace(f"{folder}/", "")))
    assert not idle, "\n".join(map(str, idle))
    assert tried > 5
