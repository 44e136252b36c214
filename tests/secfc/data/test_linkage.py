"""Linkage schemas: IDs as hospitals have them become the keys that persons have, and no report shows one."""

from __future__ import annotations

import csv
import json
import time
import tomllib
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

from secfc import SecFC
from secfc.algorithm import PublicFacts
from secfc.coded.membership import Private
from secfc.data.linkage import (
    CHECKS,
    Linkage,
    LinkageField,
    linkage_keys,
    linkage_of,
    mod11,
    passes_luhn,
    passes_verhoeff,
    read_linkage,
)
from secfc.data.party import Party
from secfc.errors import InputError
from secfc.roles.description import describe_differences
from tests.small import invoke

SCHEMA = """
[[field]]
column = "number"
drop = " -"
whole = true
width = 6
pattern = "[0-9]{6}"
missing = ["NA", "unknown"]

[[field]]
column = "name"
form = "NFKC"
case = "upper"
"""


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    """The same people as four programs write them.  c has rows that cannot take part."""
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SCHEMA)
    Path("a.csv").write_bytes("number;name\r\n001234;Müller\r\n001235;Groß\r\n".encode("utf-8-sig"))
    Path("b.csv").write_bytes("number;name\r\n1234;müller\r\n00-12-36; Zoë\u00a0\r\n".encode("cp1252"))
    Path("c.csv").write_text(
        "number,name\n1234.0,Mu\u0308ller\nunknown,Secret\n,Hidden\n00123x,Odd\n001235,GROSS\n001235,GROSS\n"
    )
    pq.write_table(pa.table({"number": [1234, 1236], "name": ["MÜLLER", "ZO\u200bË"]}), "d.parquet")


def unions(*files):
    result = invoke(
        "psu", *files, "--schema", "s.toml", "--force", "--mode", "server", "--json", "--drop-unfit"
    )
    assert result.exit_code == 0, result.output
    with open("secfc-psu.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["client"], int(row["row"])): int(row["union_row"]) for row in rows}, json.loads(
        result.stdout
    )


def test_one_person_is_one_row_however_four_programs_write_her(hospitals):
    Path("b.csv").write_bytes(Path("b.csv").read_bytes().decode("cp1252").encode())
    number, report = unions("a.csv", "b.csv", "c.csv", "d.parquet")
    assert len({number[site, 0] for site in "abcd"}) == 1  # Müller
    assert number["a", 1] == number["c", 4] == number["c", 5]  # Groß, twice at c
    assert number["b", 1] == number["d", 1]
    assert report["m"] == 3
    assert sorted(row for site, row in number if site == "c") == [0, 4, 5]


def test_without_a_schema_the_same_files_link_nobody(hospitals):
    """What the schema is for: text as it stands makes four people of one."""
    for name in "ab":
        raw = Path(f"{name}.csv").read_bytes()
        Path(f"{name}.csv").write_bytes(raw if name == "a" else raw.decode("cp1252").encode())
    result = invoke(
        "psu", "a.csv", "b.csv", "d.parquet", "--id-column", "number", "--mode", "server", "--json"
    )
    found = json.loads(result.stdout)
    assert found["m"] == 5
    assert not any("no ID has two holders" in note for note in found["notes"])  # 1234 has
    alone = invoke(
        "psu", "a.csv", "d.parquet", "--id-column", "number", "--mode", "server", "--json", "--force"
    )
    assert any("no ID has two holders: if some" in note for note in json.loads(alone.stdout)["notes"])


def test_another_encoding_is_refused_until_it_is_named(hospitals):
    assert "cp1252" in invoke("check-ids", "b.csv", "--schema", "s.toml").stderr
    assert invoke("check-ids", "b.csv", "--schema", "s.toml", "--encoding", "cp1252").exit_code == 0


def test_a_report_counts_and_shows_no_value(hospitals):
    result = invoke("check-ids", "c.csv", "--schema", "s.toml")
    assert result.exit_code == 1
    assert "c.csv: 6 rows, 3 cannot take part; 2 different keys, 1 row repeats one" in result.stdout
    assert "number: 4 present, 2 missing, 1 of another form" in result.stdout
    told = result.output + invoke("check-ids", "c.csv", "--schema", "s.toml", "--json").output
    refused = invoke("psu", "a.csv", "c.csv", "--schema", "s.toml", "--mode", "server")
    assert refused.exit_code == 2
    assert "3 of 6 rows cannot take part" in " ".join(refused.stderr.split())
    for value in ("Secret", "Hidden", "Odd", "GROSS", "001235", "123x", "1234.0"):
        assert value.casefold() not in (told + refused.output).casefold()


def test_placeholders_and_lost_zeros_are_counted():
    field = LinkageField("n", missing=("na",))
    cells = (
        ["0123456780"] * 2
        + [f"98765432{i}1" for i in range(10, 20)]
        + ["123456781", "9999999999", " N/A", "nA"]
    )
    _, quality = linkage_keys(Linkage((field,)), [(cell,) for cell in cells])
    (told,) = quality.fields
    assert (told.placeholders, told.missing, told.most, quality.repeated) == (1, 1, 2, 1)
    assert told.lengths == {9: 1, 10: 3, 11: 10}
    assert told.hint == "4 have fewer than 11 digits, 10 have 11: leading zeros lost?"
    dates = ["01.01.1900", "1900-01-01", "1.1.1900", "1984-03-02"]
    _, quality = linkage_keys(Linkage((LinkageField("born"),)), [(cell,) for cell in dates])
    assert quality.fields[0].placeholders == 3


FIELDS = st.builds(
    LinkageField, st.just("x"), st.sampled_from(["NFC", "NFKC"]), st.sampled_from(["keep", "upper", "lower"]),
    st.text("- ./0a\u0308", max_size=3), st.booleans(), st.sampled_from(["keep", "strip"]), st.integers(0, 8),
)  # fmt: skip


@given(FIELDS, st.text(max_size=12) | st.text("0719. -aAüß\u0131\u0308\u200b\ufeff\u00a0", max_size=12))
@example(LinkageField("x", drop="-"), "u-\u0308")
def test_normalizing_is_done_once_and_for_every_spelling(field, cell):
    text = field.normalize(cell)
    assert field.normalize(text) == text
    assert field.normalize(f"\ufeff {unicodedata.normalize('NFD', cell)}\u00a0") == text


@given(st.lists(st.lists(st.text("1:ab2", max_size=4), min_size=2, max_size=2), min_size=2, max_size=2))
def test_lists_of_texts_have_the_same_key_only_if_they_are_the_same(pair):
    linkage = Linkage((LinkageField("x", required=False), LinkageField("y")))
    one, other = (linkage.key(texts) for texts in pair)
    assert (one is None) == (not pair[0][1])
    if one is not None and other is not None:
        assert (one == other) == (pair[0] == pair[1])


@pytest.mark.parametrize(
    ("check", "good"),
    [(passes_luhn, "79927398713"), (mod11, "9434765919"), (mod11, "080442957X"), (passes_verhoeff, "2363")],
)
def test_check_digits_find_every_single_error(check, good):
    assert check(good)
    for at, digit in enumerate(good):
        for wrong in set("0123456789") - {digit}:
            assert not check(good[:at] + wrong + good[at + 1 :])
    assert not any(check(word) for check in CHECKS.values() for word in ("", "٣", "x", "12a4"))


def test_a_schema_has_one_digest_however_it_is_written(tmp_path):
    path = tmp_path / "s.toml"
    digests = []
    for text in (
        SCHEMA,
        "# ours\n" + SCHEMA.replace('form = "NFKC"\ncase = "upper"', 'case="upper"\nform="NFKC"'),
    ):
        path.write_text(text)
        digests.append(read_linkage(path).digest)
    path.write_text(SCHEMA.replace("width = 6", "width = 7"))
    assert digests[0] == digests[1] != read_linkage(path).digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = [", "is no TOML file"),
        ("", "must hold tables"),
        ("[[field]]\ncolumn='a'\nforms='NFC'", "there is no 'forms'"),
        ("[[field]]\ncolumn='a'\nwidth='3'", "width is a str, and must be int"),
        ("[[field]]\ncolumn='a'\nwidth=true", "width is a bool, and must be int"),
        ("[[field]]\ncolumn='a'\nmissing='NA'", "must be a list of texts"),
        ("[[field]]\ncolumn='a'\ncase='title'", "none of keep, upper, lower"),
        ("[[field]]\ncolumn='a'\npattern='('", "no regular expression"),
        ("[[field]]\ncolumn='a'\ncheck='mod97'", "none of luhn, mod11, verhoeff"),
        ("[[field]]\ncolumn='a'\nrequired=false", "no required field"),
        ("[[field]]\ncolumn='a'\n[[field]]\ncolumn='a'", "'a' twice"),
        ("[[field]]\ncolumn='a'\n[[field]]\ncase='upper'", r"s\.toml, field 2 has no column"),
        ("[[field]]\ncolumn='a'\npattern='(a)\\1'", "no regular expression"),
        ("[[field]]\ncolumn='a'\npattern='(?=a)'", "no regular expression"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(tmp_path, text, words):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_linkage(path)


@pytest.mark.parametrize(
    ("field", "cells", "spoiled"),
    [
        (LinkageField("id"), ["7.0", "1.2E+15", "7", "A7"], 2),
        (LinkageField("id", drop="."), ["7.0", "70", "1.2.3"], 1),  # which would be somebody else's 70
        (LinkageField("id", whole=True), ["7.0", "1.2E+15", "7"], 1),
        (LinkageField("version", pattern="[0-9][.][0-9]"), ["7.0", "1.1"], 0),
        (LinkageField("id", missing=("0.0",)), ["0.0", "7"], 0),
    ],
)
def test_numbers_that_a_program_took_for_floats_have_another_form(field, cells, spoiled):
    keys, quality = linkage_keys(Linkage((field,)), [(cell,) for cell in cells])
    assert quality.fields[0].spoiled == quality.fields[0].misformed == spoiled
    assert ("written as a float" in quality.fields[0].hint) == bool(spoiled)
    assert (
        sum(key is None and field.normalize(cell) != "" for key, cell in zip(keys, cells, strict=True))
        == spoiled
    )


def test_no_pattern_takes_longer_than_reading_the_text():
    texts = ["a" * 10**5 + "b", "a" * 127 + "b", "b" * 10**5]
    for pattern in (
        ".*a.*c",
        "(a|b)?[0-9]{6,10}",
        "(?i:[A-Z]{2}-?)?[0-9]+",
        "a*a*a*a*",
        "(aa|a){0,3}a*",
        "(a+)+",
    ):
        linkage = Linkage((LinkageField("x", pattern=pattern),))
        begun = time.process_time()
        _, quality = linkage_keys(linkage, [(text,) for text in texts])
        assert time.process_time() - begun < 1
        assert quality.fields[0].misformed == 3


@given(st.lists(st.text("1:ab2ü", min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_key_gives_back_its_texts(texts):
    linkage = Linkage(tuple(LinkageField(f"f{i}") for i in range(len(texts))))
    assert linkage.texts(linkage.key(texts)) == tuple(texts)
    assert linkage_of(tomllib.loads(tomli_w.dumps(linkage.tables())), "x") == linkage


@pytest.fixture
def wards(hospitals):
    """The hospitals' rows with two features each: those of one person are the same everywhere."""
    Path("a.csv").write_bytes(
        "number;name;age;weight\r\n001234;Müller;30;70\r\n001235;Groß;60;90\r\n".encode("utf-8-sig")
    )
    Path("b.csv").write_bytes(
        "number;name;age;weight\r\n1234;müller;30;70\r\n00-12-36; Zoë\u00a0;31;69\r\n".encode()
    )
    Path("c.csv").write_text(
        "number,name,age,weight\nunknown,Secret,1,1\n1234.0,Mu\u0308ller,30,70\n,Hidden,2,2\n"
        "001235,GROSS,60,90\n"
    )
    people = {"number": [1236, 1299], "name": ["ZO\u200bË", "Li"]}
    pq.write_table(pa.table({**people, "age": [31.0, 61], "weight": [69.0, 91]}), "d.parquet")
    return ("a.csv", "b.csv", "c.csv", "d.parquet", "-k", "2", "--membership", "private", "-t", "1")


def test_a_run_links_by_the_schema_and_each_site_has_its_own_people_only(wards):
    refused = invoke("run", *wards, "--schema", "s.toml")
    assert refused.exit_code == 2
    assert "2 of 4 rows cannot take part" in " ".join(refused.stderr.split())
    assert "--drop-unfit" in refused.stderr
    done = invoke("run", *wards, "--schema", "s.toml", "--drop-unfit", "--site-labels", "out", "--json")
    assert done.exit_code == 0, done.output
    assert "client 'c': 2 of 4 rows do not fit" in " ".join(done.stderr.split())
    found = json.loads(done.stdout)
    assert (found["m"], found["points_held"], found["verified"]) == (4, 8, True)
    assert found["parameters"]["schema"] == read_linkage(Path("s.toml")).digest
    assert not Path("secfc-labels.csv").exists()
    sites = {}
    for name in "abcd":
        file = Path("out") / f"{name}.csv"
        assert file.stat().st_mode & 0o777 == 0o600
        with file.open(newline="", encoding="utf-8") as lines:
            sites[name] = list(csv.DictReader(lines))
    assert [(row["row"], row["number"], row["name"]) for row in sites["c"]] == [
        ("1", "001234", "MÜLLER"),
        ("3", "001235", "GROSS"),
    ]
    who = {(row["number"], row["label"]) for rows in sites.values() for row in rows}
    assert len(who) == 4  # one label a person
    assert "Secret" not in done.output


def test_a_run_refuses_a_schema_where_nothing_is_linked_and_two_rows_of_one_key(wards):
    opened = invoke("run", "a.csv", "b.csv", "c.csv", "-k", "2", "--schema", "s.toml")
    assert (opened.exit_code, "--membership private" in opened.stderr) == (2, True)
    twice = invoke("run", *wards, "--schema", "s.toml", "--id-column", "number")
    assert "--id-column has no meaning with --schema" in twice.stderr
    with open("c.csv", "a") as file:
        file.write("1235,groß,5,5\n")
    again = invoke("run", *wards, "--schema", "s.toml", "--drop-unfit")
    assert again.exit_code == 2
    assert "rows 3 and 4 (counted from 0) have the same key" in " ".join(again.stderr.split())
    assert "1235" not in again.output


def test_seven_as_a_number_is_seven_as_text_in_a_run_too(hospitals):
    for name, cells in (("a", "7,0"), ("b", " 7,0")):
        Path(f"{name}.csv").write_text(f"id,x\n{cells}\n8{name},9\n")
    pq.write_table(pa.table({"id": [7, 9], "x": [0.0, 9]}), "c.parquet")
    files = ("a.csv", "b.csv", "c.parquet")
    done = invoke("run", *files, "-k", "2", "--membership", "private", "--id-column", "id", "--json")
    assert done.exit_code == 0, done.output
    union = invoke("psu", *files, "--id-column", "id", "--json")
    assert json.loads(done.stdout)["m"] == json.loads(union.stdout)["m"] == 4
    assert "no ID has two holders" not in done.stdout
    Path("a.csv").write_text("id,x\n07,0\n8a,9\n")
    Path("b.csv").write_text("id,x\n007,0\n8b,9\n")
    asked = ("-k", "2", "--membership", "private", "--id-column", "id", "--json", "--force")
    assert "no ID has two holders" in invoke("run", *files, *asked).stdout
    assert "no ID has two holders" not in invoke("run", *files, *asked, "--counts", "hidden").stdout
    pq.write_table(pa.table({"id": [7.0, 9], "x": [0.0, 9]}), "c.parquet")
    for command in (("run", *files, "-k", "2"), ("psu", *files)):
        refused = invoke(*command, "--id-column", "id", "--force")
        assert (refused.exit_code, "no one spelling" in " ".join(refused.stderr.split())) == (2, True)


def test_sites_with_other_schemas_are_told_the_field_before_anything_moves():
    one = Linkage((LinkageField("number", width=10), LinkageField("name")))
    other = Linkage((LinkageField("number", width=9), LinkageField("name")))
    public = PublicFacts(("a", "b", "c"), (4, 4, 4), 2, 9.0, session=bytes(32))
    drafts = [SecFC(2, 1, membership=Private(schema=schema)).plan(public) for schema in (one, other, None)]
    first, second, bare = (draft.description for draft in drafts)
    (difference,) = describe_differences(first, second)
    assert str(difference) == "membership.schema.fields.0.width is 10 here and 9 there"
    assert any("membership.schema" in str(found) for found in describe_differences(first, bare))


@pytest.mark.parametrize("rows", [[0], [0, -1], [0.0, 1.0], "ab"])
def test_places_in_a_file_are_checked(rows):
    with pytest.raises(InputError, match="counted from 0"):
        Party("a", np.array([[1.0], [2.0]]), rows=rows)
    assert Party("a", np.array([[1.0], [2.0]]), rows=[4, 9]).places.tolist() == [4, 9]
    assert Party("a", np.array([[1.0], [2.0]])).places.tolist() == [0, 1]
