"""`secfc run --processes`: the run file it writes builds the same run, and a whole rehearsal by night."""

import csv

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("websockets")

from secfc.cli import main
from secfc.cli.clustering import processes
from secfc.cli.clustering.execute import load_federation
from secfc.cli.clustering.run import run as command
from secfc.cli.deploy.run_file import build_run
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.methods import methods
from secfc.cli.shell.method import AskedOptions
from secfc.deploy.runfile import RunFile
from secfc.errors import InputError


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(1)
    for name in "abc":
        points = rng.normal(rng.integers(0, 3, (14, 1)) * 9.0, 1.0, (14, 2))
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("id", "x", "y"))
            writer.writerows((f"{name}{i}", *row) for i, row in enumerate(points.tolist()))
    return [str(tmp_path / f"{name}.csv") for name in "abc"]


def asked_of(*words):
    from secfc.cli.clustering.run import check_options
    from secfc.cli.shell.options import select_fields
    from secfc.cli.shell.settings import Settings, load_schema

    context = command.make_context("run", list(map(str, words)))
    method = methods()[context.params["algorithm"]]
    settings = select_fields(Settings, context.params, linkage=load_schema(context, context.params["schema"]))
    return method, check_options(context, method, settings)


@pytest.mark.parametrize("words", [
    (), ("--disclosure", "own-labels", "--reveal-centers"), ("--standardize", "--limit", "8"),
    ("--ranges", "x=-9:40,y=-9:40"), ("--algorithm", "k-fed"), ("-k", "2..4"), ("-k", "auto", "-t", "1"),
    ("--epsilon", "4", "--radius", "30"), ("--membership", "private", "--init", "random", "--bound", "64"),
    ("--membership", "private", "--init", "random", "--bound", "64", "--schema", "s.toml"),
])  # fmt: skip
def test_the_run_file_of_a_rehearsal_builds_what_was_asked_for(files, tmp_path, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text("[[field]]\ncolumn = 'id'\ncase = 'upper'\n")
    words = words if "-k" in words else ("-k", "3", *words)
    named = () if "--schema" in words else ("--id-column", "id")
    method, asked = asked_of(*files, *named, *words)
    federation, _ = load_federation(method, asked)
    folder = tmp_path / "rehearsal"
    folder.mkdir()
    processes.lay_out(folder, method, asked, federation)
    made = build_run(RunFile.read(folder / "run.toml"))
    chosen = method.choose(AskedOptions(asked.settings, asked.options, asked.given), made.public).algorithm
    assert getattr(made.algorithm, "algorithm", made.algorithm) == chosen
    for party in federation.parties:
        site = LoadedSite.read(folder / party.name / "site.toml")
        read, _ = site.party(site.agreed())
        assert (read.read() == party.read()).all()  # to the last bit
        assert read.ids == party.ids
        assert (folder / party.name / "site.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("words", "why"), [
    (("--plot", "p.png", "-k", "2..4"), "--plot draws"), (("--checkpoint", "d"), "--checkpoint is what"),
    (("--report", "r.json"), "--report is for"), (("--model", "m.npz"), "--model keeps"),
    (("--categorical", "id"), "--categorical: the files of a rehearsal"),
])  # fmt: skip
def test_what_a_rehearsal_does_not_do_is_refused(files, tmp_path, words, why):
    words = words if "-k" in words else ("-k", "3", *words)
    plain = [str(tmp_path / word) if "." in word and ".." not in word else word for word in words]
    more = ["--processes", "--labels", str(tmp_path / "l.csv")]
    done = CliRunner().invoke(main, ["run", *files, *plain, *more])
    assert done.exit_code == 2
    assert why in done.stderr


def test_sites_whose_programs_write_otherwise_have_the_same_people_by_the_schema(
    files, tmp_path, monkeypatch
):
    """Each site's own file, as its hospital has it: nothing but the run file is shared."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        "[[field]]\ncolumn = 'id'\nwidth = 5\n[[field]]\ncolumn = 'name'\ncase = 'upper'\n"
    )
    for name in "abc":  # what the run file is made of
        (tmp_path / f"{name}.csv").write_text("id,name,x,y\n1,A,1,2\n2,B,3,4\n")
    asking = ("-k", "2", "--membership", "private", "--init", "random", "--bound", "64", "--schema", "s.toml")
    method, asked = asked_of(*files, *asking)
    federation, _ = load_federation(method, asked)
    folder = tmp_path / "rehearsal"
    folder.mkdir()
    processes.lay_out(folder, method, asked, federation)
    written = {
        "a": ("\ufeffid;name;x;y\r\n00042;Müller;1,5;2\r\n00007;Groß;3;4\r\n".encode(), 'decimal = ","\n'),
        "b": ("name;x;id;y\r\nMÜLLER;1,5;42;2\r\n".encode("cp1252"), 'encoding = "cp1252"\ndecimal = ","\n'),
        "c": (
            "id,name,x,y\n,x,9,9\n42,mu\u0308ller,1.5,2\n7,GROSS,3,4\n".encode(),
            "drop_unfit = true\n",
        ),
    }
    found = {}
    for name, (content, words) in written.items():
        site = folder / name / "site.toml"
        (folder / name / "rows.csv").write_bytes(content)
        site.write_text(site.read_text().replace('path = "rows.csv"\n', f'path = "rows.csv"\n{words}'))
        place = LoadedSite.read(site)
        party, _ = place.party(place.agreed())
        found[name] = dict(zip(party.ids, party.read().tolist(), strict=True))
        assert party.places.tolist() == ([1, 2] if name == "c" else list(range(len(party.ids))))
    assert found["a"] == found["c"]
    assert found["a"].items() > found["b"].items()
    with (folder / "a" / "rows.csv").open("ab") as file:
        file.write("42;MÜLLER;1;1\r\n".encode())
    place = LoadedSite.read(folder / "a" / "site.toml")
    with pytest.raises(InputError, match=r"rows 0 and 2 [(]counted from 0[)] have the same key"):
        place.party(place.agreed())


@pytest.mark.nightly
@pytest.mark.deployment
@pytest.mark.parametrize("more", [(), ("--linkage", "single", "--cut", "2")])
def test_a_whole_rehearsal_gives_the_labels_of_plaintext(files, tmp_path, more):
    out = tmp_path / "l.csv"
    words = ["-k", "3", "--id-column", "id", "--processes", "--labels", str(out)]
    done = CliRunner().invoke(main, ["run", *files, *words, *more])
    assert done.exit_code == 0, done.output
    assert "they are those of plaintext k-means" in done.output
    plain = tmp_path / "p.csv"
    words = ["-k", "3", "--id-column", "id", "--labels", str(plain), "--report", str(tmp_path / "r.json")]
    assert CliRunner().invoke(main, ["run", *files, *words, "--no-attack", *more]).exit_code == 0
    assert out.read_text() == plain.read_text()
