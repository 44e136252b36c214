"""The pages are executed: every Python block runs, every option and link exists, and the README is short."""

import json
import re
from pathlib import Path

import click
import pytest

from tests.nightly import by_night

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("", "docs/", "secfc/", "psu/", "field/", "benchmarks/")
    for path in ROOT.glob(f"{folder}**/*.md" if folder else "*.md")
)


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


SLOW = [
    *(f"docs/gallery/{page}.md" for page in ("bytes", "elbow", "epsilon", "leak", "sizes")),
    *(f"docs/tutorials/{page}.md" for page in ("07_be_the_attacker", "12_columns_of_several_parties")),
    *(f"secfc/{package}/README.md" for package in ("attacks", "feddp", "grids", "kmeans", "overlap")),
]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in ("CONTRIBUTING.md", *SLOW)] + by_night(*SLOW)
)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where pages write files
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for block in blocks((ROOT / page).read_text(), "python"):
        exec(compile(block, page, "exec"), {})


def test_the_readme_shows_what_the_server_learns(capsys):
    (block,) = blocks(README, "python")
    exec(compile(block, "README.md", "exec"), {})
    assert "no distance" in capsys.readouterr().out


def test_the_notebook_prints_what_it_shows(capsys, monkeypatch):
    """If this fails: run docs/first_run.ipynb from the top, and save it."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names = {}
    for cell in json.loads((ROOT / "docs/first_run.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "docs/first_run.ipynb", "exec"), names)
            shown = [line for out in cell["outputs"] for line in out.get("text", ())]
            assert capsys.readouterr().out == "".join(shown)


def test_the_readme_shows_two_commands():
    part = README.split("<!-- commands -->")[1].split("<!-- end of commands -->")[0]
    commands = [line for line in part.splitlines() if line.startswith("python3 ")]
    assert len(commands) == 2
    assert "secfc run" in commands[0]
    assert "pytest" in commands[1]


def test_the_readme_is_a_page_and_a_half():
    assert len(README.splitlines()) <= 110
    (block,) = blocks(README, "python")
    assert len(block.splitlines()) <= 12


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in heads}, target


def test_the_readme_leads_to_every_page():
    for page in PAGES:
        beyond = page.startswith("docs/") and page != "docs/README.md"  # the site's, in mkdocs.yml
        assert page == "README.md" or beyond or f"]({page})" in README, page


@pytest.mark.parametrize("page", PAGES)
def test_files_and_modules_that_a_page_names_exist(page):
    text = (ROOT / page).read_text()
    for name in re.findall(r"`((?:secfc|field|psu|tests|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name
    for command in re.findall(r"python -m ((?:tests|benchmarks)[\w.]*)", text):
        path = ROOT / command.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), command


@pytest.mark.parametrize("page", PAGES)
def test_shell_examples_use_options_that_exist(page):
    from secfc.cli import main

    for block in blocks((ROOT / page).read_text(), "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            name = line.split()[1] if line.startswith("secfc ") else None
            found = main.get_command(click.Context(main), name) if name else None
            if found is not None and not isinstance(found, click.Group):
                flags = {flag for one in found.params for flag in (*one.opts, *one.secondary_opts)}
                given = re.findall(r"(?<=\s)--?[a-z][a-z-]*", line.split("  ")[0].split("#")[0])
                assert {*given} <= flags | {"--help"}, line
