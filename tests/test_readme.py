"""The README is executed: its Python block runs, and its commands are the two that CI runs."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_block_runs(capsys):
    assert blocks("python")
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    assert "no distance" in capsys.readouterr().out


def test_the_readme_shows_two_commands():
    part = README.split("<!-- commands -->")[1].split("<!-- end of commands -->")[0]
    commands = [line for line in part.splitlines() if line.startswith("python3 ")]
    assert len(commands) == 2
    assert "secfc run" in commands[0]
    assert "pytest" in commands[1]


def test_shell_examples_use_options_that_exist():
    from click.testing import CliRunner

    from secfc.cli import main

    text = CliRunner().invoke(main, ["run", "--help"]).output
    for block in blocks("sh"):
        for line in block.splitlines():
            if line.startswith("secfc run"):
                for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", line.split("#")[0]):
                    assert option in text, option
