"""The table of all attacks: what a row holds, and that the page is written between its marks."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import attacks


@pytest.mark.nightly
def test_rows_the_page_and_the_picture(tmp_path, monkeypatch):
    names = ("Lloyd over secure sums", "k-FED, its server", "FedDP-KMeans, epsilon 4")
    monkeypatch.setattr(attacks, "WAYS", {name: attacks.WAYS[name] for name in names})
    monkeypatch.setattr(attacks, "SIZES", {10: 15})
    monkeypatch.setattr(attacks, "SIZE", 20)
    page = tmp_path / "README.md"
    page.write_text("before\n" + "old\n".join(attacks.MARKS) + "after\n")
    monkeypatch.setattr(attacks, "PAGE", page)
    out, plot = tmp_path / "rows.jsonl", tmp_path / "x.png"
    done = CliRunner().invoke(
        attacks.main, ["--quick", "--out", str(out), "--plot", str(plot), "--readme"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    sums, server, private, law = rows
    assert sums["rebuilt"] >= 0
    assert server["auc"][1] > 0.8
    assert private["auc"][1] < 0.55
    assert private["rebuilt"] == 0
    # What questions that were not asked would have cost is not spent.
    assert 3.6 < private["audited"] <= 4
    assert law["auc"][0] == pytest.approx(law["law_auc"], abs=0.03)
    text = page.read_text()
    assert text.startswith("before\n<!-- from code: attacks -->\n| algorithm |")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert plot.stat().st_size > 10_000


def test_members_and_others_are_of_the_clients_law():
    points, inside, truth, means = attacks.drawn(20, 0)
    assert points.shape == (400, 100)
    assert np.split(inside, 10)[3].sum() == 20
    for own in (inside, ~inside):
        assert set(truth[own][:20]) <= {0, 1, 2}
    assert means.shape == (10, 100)
