"""Options come from fields of frozen dataclasses, one definition each; help shows common ones in groups."""

from __future__ import annotations

import ast
import dataclasses

import click
import pytest
from click.testing import CliRunner

from secfc.cli import main
from secfc.cli.methods.secfc import PRESETS, Presets, SecFCOptions
from secfc.cli.shell.options import GROUPS, KEY, Option, command, fields_of, option, select_fields
from secfc.cli.shell.settings import Settings
from tests.test_architecture import SOURCES

# Of the shell itself: what every command takes, and what a long one has.
EVERYWHERE = {"quiet", "verbose", "help_all"}
# Fields that are options. `secfc run --help-all` alone lists 95.
DEFINITIONS = 211


def commands(group=main, path=("secfc",)):
    """Every command that is no group, by its words."""
    for name in group.entries:
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield " ".join((*path, name)), found


COMMANDS = dict(commands())
OPTIONS = {
    name: [p for p in found.params if isinstance(p, click.Option) and p.name not in EVERYWHERE]
    for name, found in COMMANDS.items()
}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "secfc warmup"])
def test_every_option_of_a_command_is_one_field(name):
    flags = [flag for p in COMMANDS[name].params for flag in (*p.opts, *p.secondary_opts)]
    assert len(flags) == len(set(flags))
    for one in OPTIONS[name]:
        assert isinstance(one, Option), one.name
        field = one.origin
        assert field.name == one.name
        if field.default not in (None, False, (), dataclasses.MISSING):
            default = one.get_default(click.Context(COMMANDS[name]))
            moved = one.words and field.default not in one.words  # to another command
            assert default == (one.words[0] if moved else field.default), one.name
        assert one.help or name == "secfc deploy init", one.name


def test_an_option_is_defined_once_for_all_commands_that_take_it():
    every = [one for options in OPTIONS.values() for one in options]
    origins = {id(one.origin): one for one in every}
    assert len(every) > 380
    assert len(origins) <= DEFINITIONS
    # What another definition says already in the same words is taken from there.
    said = {}
    for one in origins.values():
        key = (one.name, one.origin.metadata[KEY].help, str(one.origin.default), type(one.type))
        assert said.setdefault(key, one) is one, (one.name, one.help)


def other_definitions(sources):
    """Calls of click's own decorators, but for what stands outside of commands."""
    for path, source in sources.items():
        if path.startswith("secfc/cli/") and path not in (
            "secfc/cli/shell/options.py",
            "secfc/cli/shell/verbosity.py",
        ):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                    "click.option", "click.argument", "click.Option", "click.Argument",
                ):  # fmt: skip
                    yield path, node.lineno


def test_no_option_is_defined_otherwise():
    assert not list(other_definitions(SOURCES))
    assert list(other_definitions({"secfc/cli/toy.py": "x = click.option('--x')"}))


def test_settings_are_what_an_empty_command_line_gives():
    context = click.Command("x", params=fields_of(Settings)).make_context("x", [])
    assert select_fields(Settings, context.params) == Settings()


def test_a_class_may_have_other_words_for_what_it_inherits():
    @dataclasses.dataclass(frozen=True)
    class First:
        depth: int = option(3, None, "-d", help="How deep.")

    @dataclasses.dataclass(frozen=True)
    class Second(First):
        HELP = {"depth": "How deep at most."}  # noqa: RUF012
        wide: bool = option(False, help="Whether wide.")

    (own, inherited), (first,) = fields_of(Second), fields_of(First)
    assert (own.name, inherited.help, first.help) == ("wide", "How deep at most.", "How deep.")
    assert inherited.origin is first.origin

    @command(Second)
    def dig(given):
        click.echo(repr(given).rpartition(".")[2])

    assert CliRunner().invoke(dig, ["-d", "5", "--wide"]).output == "Second(depth=5, wide=True)\n"


def shown(*words):
    done = CliRunner().invoke(main, list(words), terminal_width=80, max_content_width=80)
    assert done.exit_code == 0, done.output
    return done.output


def test_help_of_a_run_is_two_screens_and_help_all_has_every_option():
    short, whole = shown("run", "--help"), shown("run", "--help-all")
    assert shown("run", "--help") == short  # whatever was shown before
    assert len(short.splitlines()) <= 60
    heads = [line[:-1] for line in short.splitlines() if line[:1].isalpha() and line.endswith(":")]
    assert heads == ["Options", *GROUPS[:5]]
    common = [one for one in OPTIONS["secfc run"] if one.common]
    assert 12 <= len(common) <= 20
    assert all(one.opts[0] in short for one in common)
    for name in ("secfc run", "secfc plan", "secfc attack membership"):
        text = shown(*name.split()[1:], "--help-all")
        flags = {flag for one in OPTIONS[name] for flag in (*one.opts, *one.secondary_opts)}
        assert not {flag for flag in flags if flag not in text}
    assert len(whole.splitlines()) > 3 * len(short.splitlines())
    assert "--field" not in short


@pytest.mark.parametrize(("words", "said"), [
    ("--n-clusters 3", "it is called -k here"), ("--normalize", "called --standardize"),
    ("--init kmeans++", "did you mean 'k-means++'"), ("--random-state 3", "called --seed"),
    ("--disclosure own_labels", "did you mean 'own-labels'"), ("--stadardize", "'--standardize'"),
    ("--zzz", "No such option"), ("--init zzz", "'zzz' is not one of"),
])  # fmt: skip
def test_words_of_other_software_are_answered_with_ours(words, said):
    done = CliRunner().invoke(main, ["run", "a.csv", *words.split()])
    assert done.exit_code == 2
    assert said in done.output


def test_each_way_to_name_a_number_is_answered_with_that_of_the_command():
    assert "it is called --k here" in CliRunner().invoke(main, ["grid", "-k", "3"]).output
    assert "it is called -n here" not in CliRunner().invoke(main, ["run", "a.csv", "-n", "3"]).output


def test_an_option_of_a_preset_is_refused_by_the_words_that_were_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x,y\n1,2\n3,4.5\n")
    line = ["run", "a.csv", "b.csv", "c.csv", "-k", "2", "--disclosure", "centers"]
    for words in (
        ["--preset", "private"],
        ["--membership", "private"],
        ["--preset=private", "--membership=private"],
    ):
        said = CliRunner().invoke(main, [*line, *words]).output
        assert ("Error: --preset private: rows are" in said) == (words == ["--preset", "private"])
        assert "Error: --" in said


def test_help_for_all_options_is_understood_at_the_top():
    assert CliRunner().invoke(main, ["--help-all"]).output == CliRunner().invoke(main, ["--help"]).output


def test_a_preset_is_its_options_and_those_that_are_given_win():
    every = {}

    @command(Presets, more=fields_of(SecFCOptions))
    @click.pass_context
    def ask(context, given):
        every.update(context.params)

    def asked(*words):
        done = CliRunner().invoke(ask, list(words))
        assert done.exit_code == 0, done.output
        return {name: value for name, value in every.items() if name != "preset"}

    plain = asked()
    for word, flags in PRESETS.items():
        assert asked("--preset", word) == asked(f"--preset={word}") == asked(*flags)
        assert (asked(*flags) == plain) == (word == "default")
    assert asked("--preset", "own-labels", "--disclosure", "distances")["disclosure"] == "distances"
    assert asked("--preset", "centers")["disclosure"] == "centers"
    assert "'slow' is not one of" in CliRunner().invoke(ask, ["--preset", "slow"]).output
