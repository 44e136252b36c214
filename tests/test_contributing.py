"""The lists of CONTRIBUTING.md are followed: each addition is one file, keeps to the walls, and works."""

import asyncio
import dataclasses
import importlib
import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from field import SeededCoins
from psu.messages import TAGS
from secfc.algorithm import PublicFacts
from secfc.attacks.views import View
from secfc.report import as_json, as_text, make_report
from secfc.roles.exchange import SERVER
from secfc.transport import wire
from secfc.transport.link import Link
from secfc.transport.network import run_party
from secfc.transport.simulate import simulate
from tests.small import federation
from tests.test_architecture import ROOMS, SOURCES, complaints, module_of

PAGE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
SECTIONS = dict(re.findall(r"^## (Add [^\n]+)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
# A new folder or file at the top of secfc/ names its room; others stand in one.
NEW_ROOMS = {
    "secfc.ping": "secfc.roles",
    "secfc.grandmean": "field.secrets secfc.roles secfc.data secfc.algorithm secfc.kmeans",
}


def files_of(section):
    """The files that a section adds: path to contents."""
    found = re.findall(r"```python\n(.*?)```", SECTIONS[section], flags=re.DOTALL)
    return {re.match(r"# (\S+\.py)\n", block)[1]: block for block in found}


@pytest.fixture
def added(request, tmp_path, monkeypatch):
    """The module of the one file that a section adds, imported from where it says that it stands."""
    ((path, source),) = files_of(request.param).items()
    assert path not in SOURCES
    name = module_of(path)
    monkeypatch.setitem(ROOMS, name, NEW_ROOMS[name]) if name in NEW_ROOMS else None
    assert not list(complaints({**SOURCES, path: source}))
    (tmp_path / Path(path).name).write_text(source)
    package = importlib.import_module(name.rpartition(".")[0])
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    yield importlib.import_module(name)
    del sys.modules[name]
    for tag in [tag for tag, message in TAGS.items() if message.__module__ == name]:
        del TAGS[tag]


def test_each_addition_has_a_numbered_list_and_one_file():
    kinds = ("a message", "an algorithm", "a policy", "an attack", "a transport", "an option")
    assert list(SECTIONS) == [f"Add {what}" for what in kinds]
    for section, text in SECTIONS.items():
        assert re.search(r"^1\. ", text, flags=re.MULTILINE), section
        assert len(files_of(section)) == 1, section


@pytest.mark.parametrize("added", ["Add a message"], indirect=True)
def test_a_message_is_one_file(added):
    message = wire.decode(wire.encode(added.Ping(3)))
    assert message.rounds == 3
    assert type(message).meaning().startswith("Client to server: that it is there")
    with pytest.raises(ValueError, match="counted from 0"):
        added.Ping(-1)


@pytest.mark.parametrize("added", ["Add an algorithm"], indirect=True)
@pytest.mark.parametrize("sealed", [False, True])
def test_an_algorithm_is_one_file(added, sealed):
    fed = federation(n=4, m=26)
    result = secfc.fit(added.GrandMean(), fed, sealed=sealed)
    np.testing.assert_allclose(result.centers, [fed.stacked().mean(axis=0)])
    assert [len(x) for x in result.labels] == list(fed.counts)
    assert [(x == 0).all() for x in result.predict(fed)] == [True] * 4
    found = make_report(result, federation=fed, algorithm=added.GrandMean())
    assert as_json(found)["parameters"] == {"algorithm": "GrandMean", "k": 1}
    assert "the sum of every client's points" in as_text(found)


@pytest.mark.parametrize("added", ["Add a policy"], indirect=True)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_policy_is_one_file(added, sealed):
    fed, policy = federation(n=4, m=26), added.Bare()
    result = secfc.fit(secfc.SecFC(k=2, threshold=1, disclosure=policy), fed, bound=8.0, sealed=sealed)
    plain = secfc.fit(secfc.Lloyd(k=2, disclosure=policy), fed, bound=8.0)
    for ours, theirs in zip(result.history, plain.history, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(result.predict(fed), result.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert policy.learned(result.plan)[0] in result.learned
    # It is a part of what parties agree on.
    other = secfc.fit(secfc.SecFC(k=2, threshold=1, disclosure=secfc.Distances(blind=False)), fed, bound=8.0)
    assert b"Bare" in result.plan.description
    assert b"Bare" not in other.plan.description


@pytest.mark.parametrize("added", ["Add an attack"], indirect=True)
def test_an_attack_is_one_file(added):
    fed = federation(n=4, m=26)
    result = secfc.fit(secfc.SecFC(k=2, threshold=1), fed, keep_bodies=True)
    view = View.of(result, result.plan, "client-1")
    others = {name: count for name, count in zip(fed.names, fed.counts, strict=True) if name != "client-1"}
    assert {name: added.row_counts(view)[name] for name in others} == others
    assert not added.row_counts(View.of(result, result.plan, SERVER))


@pytest.mark.parametrize("added", ["Add a transport"], indirect=True)
def test_a_transport_is_one_file(added):
    fed = federation(n=4, m=26)
    algorithm = secfc.SecFC(k=2, threshold=1)
    public = dataclasses.replace(PublicFacts.of(fed, 8.0), session=bytes(32), seed=0)
    plan = algorithm.plan(public)

    def roles():
        coins = {name: SeededCoins(3, name) for name in (*fed.names, SERVER)}
        made = {p.name: algorithm.client(plan, p, coins=coins[p.name]) for p in fed.parties}
        return made | {SERVER: algorithm.server(plan, rng=np.random.default_rng(0), coins=coins[SERVER])}

    async def over_queues():
        links = {name: {} for name in (*fed.names, SERVER)}
        for a, b in itertools.combinations(links, 2):
            one, other = added.Queued.pair()
            links[a][b], links[b][a] = Link(one), Link(other)
        parties = [run_party(role, links[name]) for name, role in roles().items()]
        return dict(zip(links, await asyncio.wait_for(asyncio.gather(*parties), 60), strict=True))

    expected, got = simulate(roles()).results, asyncio.run(over_queues())
    for name in fed.names:
        np.testing.assert_array_equal(got[name].labels, expected[name].labels)


@pytest.mark.parametrize("added", ["Add an option"], indirect=True)
def test_an_option_is_one_field(added, tmp_path):
    (tmp_path / "rows.csv").write_text("x\n1\n2\n")

    def tally(*words):
        return CliRunner().invoke(added.tally, [str(tmp_path / "rows.csv"), *words])

    assert tally().output == f"{tmp_path / 'rows.csv'}: 3\n"
    assert tally("--json", "--least", "3").output == '{"lines": 3}\n'
    assert tally("--least", "4").exit_code == 2
    assert "lower --least" in tally("--least", "4").output
    assert "'many' is no whole number" in tally("--least", "many").output
    shown = " ".join(CliRunner().invoke(added.tally, ["--help"]).output.split())
    assert "--least LINES Lines that every file must have. [default: 1; x>=0]" in shown
    assert "--json" in shown
