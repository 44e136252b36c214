"""Large text files are read as small ones are, number by number and doubt by doubt."""

from __future__ import annotations

import gzip
import math
import re
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field.kernels import cells
from secfc import Federation
from secfc.data import plain_cells, row_reader
from secfc.data.dialects import Dialect
from secfc.errors import Caution, InputError
from tests.nightly import trials
from tests.secfc.cli.test_check import CASES
from tests.secfc.data.test_reports import REPORTS

pytest.importorskip("pyarrow")


def read(path: Path, least: int, **how: Any) -> Any:
    """Points, IDs and notes of a file, or its fault, if files from so many bytes on are large."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        patch.setattr(plain_cells, "LARGE", least)
        try:
            federation = Federation.from_files(path, **how)
        except InputError as fault:
            return str(fault)
    parties = [(np.asarray(party.points[:]).tobytes(), party.ids) for party in federation.parties]
    return federation.feature_names, parties, [str(note.message) for note in notes]


def at_once(patch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each file that is read from now on is read at once."""
    found: list[bool] = []
    inner = row_reader.RowReader.read_at_once

    def read_at_once(self: Any, *given: Any) -> Any:
        got = inner(self, *given)
        found.append(got is not None)
        return got

    patch.setattr(row_reader.RowReader, "read_at_once", read_at_once)
    return found


def agree(path: Path, **how: Any) -> Any:
    """What both readers make of a file, which must be the same."""
    slow, fast = read(path, 1 << 60, **how), read(path, 0, **how)
    assert fast == slow
    return fast


def test_all_files_of_doubts_and_reports_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = at_once(monkeypatch)
    files: dict[str, tuple[str, dict[str, Any]]] = {name: (text, {}) for name, text in CASES.items()}
    files |= {name: (text, how) for name, (text, how, _) in REPORTS.items()}
    for text, how in files.values():
        (tmp_path / "a.csv").write_text(text, encoding="utf-8")
        agree(tmp_path / "a.csv", **how)
    assert 8 < sum(found) < len(files)


LATE = "p,x,y\n" + "".join(f"q{i},{i}.5,{i}\n" for i in range(300))
# Below rows that say nothing of it: what is wrong, what is noted, or how many rows are read at once.
ROWS: dict[str, tuple[str, dict[str, Any], str | int]] = {
    "plain": ("z,1.25,3", {}, 301),
    "a gap": ("z,,3", {"gaps": True}, 301),
    "a usual word": ("z,NA,3", {"gaps": True}, 301),
    "an unusual word": ("z,nA,3", {"gaps": True}, "only by cells"),
    "a gap that may not be": ("z,,3", {}, "line 302, column 'x': the cell is empty"),
    "groups": ("z,1,3.250", {}, "line 302, column 'y': a point before three digits"),
    "groups that are said": ("z,1,3.250", {"dialect": Dialect(decimal=".")}, 301),
    "a comma": ('z,"1,5",3', {}, "line 302, column 'x'.*another kind"),
    "a row too short": ("z,1", {}, "line 302: 2 cells"),
    "a row too long": ("z,1,2,", {}, "line 302: 4 cells"),
    "a quote that never ends": ('z,1,"2', {}, "not valid CSV"),
    "beyond floats": ("z,9007199254740993,3", {}, r"line 302, column 'x': .*2\*\*53"),
    "a float of as many digits": ("z,0.12345678901234567,3", {}, 301),
    "an underscore": ("z,1_0,3", {}, "line 302, column 'x': the cell is not"),
    "a date": ("z,2024-01-31,3", {}, "is a date"),
    "a percentage": ("z,5%,3", {}, "is a percentage"),
    "a word": ("z,red,3", {}, "is not a number"),
    "infinite": ("z,inf,3", {}, "infinite"),
    "a number that is none": ("z,nan(7),3", {"gaps": True}, "is not a number"),
    "a sum": ("Total,1,3", {}, "line 302: the last row seems to sum up"),
    "an ID that is missing": (" ,1,3", {}, "line 302, column 'p': the cell is empty"),
    "a code": ("z,007,3", {}, "column 'x': some cells begin with a 0"),
    "a plus": ("z,+7,3", {}, 301),
    "blanks": ("z, 7 ,3", {}, "only by cells"),
    "an exponent": ("z,-1.5E-3,.5", {}, 301),
    "more digits than words of a machine": ("z,0.12345678901234567890123,3", {}, 301),
    "infinite beside gaps": ("z,inf,3", {"gaps": True}, "infinite"),
    "letters of others": ("ž,1,3", {}, 301),
    "an empty line": ("\nz,1,3", {}, 301),
    "a return of its own": ("z,1,3\rz,1,4", {}, "only by cells"),
    "a line end of Windows": ("z,1,3\r", {}, 301),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROWS)
def test_what_a_late_row_holds_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    row, how, expected = ROWS[kind]
    found = at_once(monkeypatch)
    (tmp_path / "a.csv").write_bytes(f"{LATE}{row}\n".encode())
    said = agree(tmp_path / "a.csv", id_column="p", **how)
    if isinstance(expected, int):
        assert len(said[1][0][0]) == 16 * expected
    elif expected != "only by cells":
        assert re.search(expected, said if isinstance(said, str) else said[2][0])
    assert found[-1] == (isinstance(expected, int) or kind in ("a code", "infinite beside gaps"))


def test_letters_that_are_none_and_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = at_once(monkeypatch)
    letters = {"ü": (True, False), "1,": (True, True)}
    for text, wanted in letters.items():
        block = np.frombuffer(text.encode(), np.uint8)
        assert (plain_cells.is_text(block, "utf-8"), plain_cells.is_text(block, "cp1252")) == wanted
        assert plain_cells.is_text(block[:1], "utf-8") == wanted[1]  # half of a letter is none
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        (tmp_path / "a.csv").write_bytes(f"{LATE}ü,1,2\n".encode(encoding))
        for given_encoding in (None, encoding):
            agree(tmp_path / "a.csv", id_column="p", dialect=Dialect(encoding=given_encoding))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(LATE.encode(), mtime=0))
    agree(tmp_path / "b.csv.gz", exclude=["p"])
    assert found.count(True) == 3


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=18, min_value=-2, max_value=2).map(str),
    st.integers(-(2**54), 2**54).map(str),
)
ODDITIES = st.one_of(
    st.sampled_from(["", "NA", " ", "1.234", "0012", "-0", "1.", ".5", "1e5", "nan", "+1", "true", "1 2"]),
    st.text(st.sampled_from("0123456789.,-+eE_ %\"n#'"), max_size=6),
)  # fmt: skip
TABLES = st.integers(1, 3).flatmap(
    lambda d: st.lists(
        st.lists(st.one_of(NUMBERS, NUMBERS, NUMBERS, ODDITIES), min_size=d, max_size=d),
        min_size=1, max_size=6,
    )
)  # fmt: skip


@trials(150)
@given(TABLES, st.sampled_from([",", ";", "\t"]), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_table_is_read_alike(
    tmp_path_factory: Any, rows: list[list[str]], delimiter: str, end: str, gaps: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    names = [f"c{i}" for i in range(len(rows[0]))]
    path.write_bytes((end.join(delimiter.join(row) for row in [names, *rows]) + end).encode())
    agree(path, gaps=gaps)


def facts(cell: str, point: str) -> int:
    """Facts of one cell, by regular expressions."""
    number = re.match(rf"[+-]?(\d*)({re.escape(point)}\d*)?([eE][+-]?\d*)?", cell)
    assert number
    whole, rest = number[1], cell[number.end() :]
    group = re.match(rf"[+-]?[1-9]\d{{0,2}}{re.escape(point)}\d{{3}}(?![\deE])", cell)
    return (
        (cells.WHOLE if whole and number[0] == whole else 0)
        | (0 if not number[2] else cells.GROUP if group else cells.POINT)
        | (cells.ZERO if re.match("0.", whole) else 0)
        | (cells.LONG if len(whole) >= cells.DIGITS else 0)
        | (
            0
            if not rest
            else cells.WORD
            if rest[0] == "#" or (rest[0] > "@" and rest[0] != "_")
            else cells.ODD
        )
        | (cells.ODD if re.search(r"[\x00- _]", rest) else 0)
    )


CELL = st.text(st.sampled_from("00112233.,-+eEx_# %"), max_size=20).filter(
    lambda cell: not re.match(r"[+-]?[.,]?[eE]", cell)
)


@trials(300)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=4), st.sampled_from(".,"))
def test_facts_of_cells_are_those_of_a_slow_twin(rows: list[tuple[str, str]], point: str) -> None:
    data = np.frombuffer("".join(f"{a}|{b}\n" for a, b in rows).encode(), np.uint8)
    found, wanted = np.zeros(2, np.uint8), np.zeros(2, np.uint8)
    for row in rows:
        wanted |= np.array([facts(cell, point) for cell in row], np.uint8)
    assert cells.scan_cells(data, ord("|"), *cells.cell_table(ord(point), ord("|")), found) == len(rows)
    assert found.tolist() == wanted.tolist()


def convert(*texts: str, words: tuple[str, ...] = ()) -> np.ndarray | None:
    """What the kernel makes of these cells of one column; None if it leaves one."""
    data = np.frombuffer("".join(f"a-e,{text}\r\n\n" for text in texts).encode(), np.uint8)
    points, keys = np.zeros((len(texts), 1)), [int.from_bytes(word.encode(), "big") for word in words]
    places, known = np.array([-1, 0]), np.array(keys, np.uint64)
    absent = cells.read_numbers(data, ord(","), ord("."), places, known, points)
    assert absent in (-1, np.isnan(points).sum())
    return None if absent < 0 else points[:, 0]


def decimals_near(value: float) -> Iterator[str]:
    """A float as programs write it; and 17 and 19 digits around it, and around halfway to the next one."""
    yield from (repr(value), f"{value:.17g}", f"{value:.18e}")
    high = math.nextafter(value, math.inf)
    exact = value if math.isinf(high) else (Fraction(value) + Fraction(high)) / 2
    for digits in (17, 19):
        power = math.floor(math.log10(value)) - digits + 1
        whole = math.floor(exact / Fraction(10) ** power)
        for near in (whole - 1, whole, whole + 1):
            yield f"{near}e{power}"
            if -40 < power < 0:
                yield f"-{near // 10**-power}.{near % 10**-power:0{-power}}"


@trials(200)
@given(
    st.one_of(st.floats(1e-285, 1e305), st.floats(1e-6, 1e17)),
    st.integers(0, 10**19 - 1),
    st.integers(-307, 288),
)
def test_numbers_up_to_19_digits_are_the_nearest_floats(value: float, whole: int, power: int) -> None:
    texts = [*decimals_near(value), f"{whole}e{power}", f"0.{whole:019}", f".000{whole}E{power:+}"]
    found = [(text, got) for text in texts if (got := convert(text)) is not None]
    assert len(found) > len(texts) - 6  # others are exactly halfway, or of a digit or a power too many
    for text, got in found:
        assert got.tobytes() == np.array([float(text)]).tobytes(), text


def test_powers_of_five_are_kept_to_128_bits() -> None:
    for power, five in zip(range(cells.LEAST, cells.MOST + 1), cells.FIVES.tolist(), strict=True):
        kept, exact = (five[0] << 64) + five[1], Fraction(5) ** power
        e = five[2] - power - 180 - 1022
        assert 2**127 <= kept < 2**128
        assert kept * Fraction(2) ** e <= exact < (kept + 1) * Fraction(2) ** e


def test_numbers_are_read_up_to_the_edge_and_others_are_left() -> None:
    nines, least, most, halfway = "9" * 19, cells.LEAST, cells.MOST, 2**53 + 1
    for cell in (
        "-0", "+.5", "7.", "0.1", "0" * 30 + "7", "1e5", "-1.5E-3", "0e999", "9007199254740994", nines,
        "4503599627370495.5", f"{10**18}", f"{10**18 - 1}.9", f"0.000{nines}", "1e-0000307", f"1e{least}",
        f"{nines}e{least}", f"1e{most}", f"{nines}e{most}", f"{halfway}.001", f"{halfway - 1}.999",
    ):  # fmt: skip
        got = convert(cell, cell)
        assert got is not None, cell
        assert got.tobytes() == np.array([float(cell)] * 2).tobytes(), cell
    for cell in (
        f"1e{least - 1}", f"1e{most + 1}", f"1{'0' * 19}", f"{2**64}", f"1.{nines}", f"-{'12' * 40}",
        f"{halfway}", f"{halfway + 2}", f"{halfway // 2}.5", f"{halfway // 2 + 1}.5",  # between two floats
        "1e9999999999999999999", f"1e-{2**63}", f"1e{2**64 + 5}", "1e", "1e+", ".e5", "1e5e",
        ".", "-", "", "NA", "1NA", "inf", "nan",
    ):  # fmt: skip
        assert convert(cell) is None, cell
        assert convert("1", cell) is None, cell


def test_words_for_nothing_are_known_as_they_are_written() -> None:
    words = plain_cells.USUAL_WORDS
    got = convert("1", *words, "2", words=words)
    assert got is not None
    assert np.isnan(got).tolist() == [False, *[True] * len(words), False]
    for cell in (
        "-NA",
        "NA-",
        "N.A",
        "+NA",
        "NA5",
        "5NA",
        "NAN",
        "nA",
        "A",
        "NNA",
        "e",
        "\x01NA",
        "null" * 3,
    ):
        assert convert(cell, words=words) is None, cell
    assert convert("", words=("NA",)) is None
    data, points, nothing = np.frombuffer(b"1,\r\n,2\n,", np.uint8), np.zeros((3, 2)), np.zeros(1, np.uint64)
    assert cells.read_numbers(data, ord(","), ord("."), np.arange(2), nothing, points) == 4
    assert np.isnan(points).tolist() == [[False, True], [True, False], [True, True]]


def test_blocks_end_at_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 7, 50, 1000):
        monkeypatch.setattr(plain_cells, "STEP", step)
        for text in (LATE, LATE + "z,1,3.250\n", "x\n1\n", "x\n1"):
            (tmp_path / "a.csv").write_text(text)
            agree(tmp_path / "a.csv", exclude=["p"] if "p" in text else [])


def test_codes_are_noted_and_the_note_goes_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip,x\n00501,1\n90210,2\n")
    with pytest.warns(Caution, match="column 'zip': some cells begin with a 0"):
        Federation.from_files(tmp_path / "a.csv")
    Federation.from_files(tmp_path / "a.csv", exclude=["zip"])
    Federation.from_files(tmp_path / "a.csv", categorical={"zip": ["00501", "90210"]})
