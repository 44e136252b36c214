"""`secfc deploy init`: the run file that all hold, and the file of each site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import click

from secfc.cli.methods import methods
from secfc.cli.shell.errors import bad_input, cautions_noted
from secfc.cli.shell.options import Whole, argument, command, option, parse_names
from secfc.cli.shell.outputs import check_output, explaining_writes, write_all
from secfc.cli.shell.settings import Overwriting, TextFiles
from secfc.data.dialects import changed_words
from secfc.data.linkage import read_linkage
from secfc.deploy.floors import Floors
from secfc.deploy.keys import identity_fingerprint
from secfc.deploy.runfile import SESSION, RunFile, new_session
from secfc.errors import InputError
from secfc.roles.exchange import SERVER

SITE = """\
# The file of one site. It is this site's alone: nobody else reads it, and nobody can weaken it.

[site]
party = {party}
run = {run}                # the run file, the same at all sites
key = {key}                # `secfc deploy key` made it; after a change of keys ["next.key", "site.key"]
journal = "journal"             # what this site must not forget if it dies; secret, removed at the end
results = "results"             # where labels and the report go
# threads = 2                   # cores that this party may use
# scratch = "/fast/disc"        # a folder where shares lie instead of in memory
# hub = "wss://..."             # if the hub is to be reached elsewhere than the run file says
# derived_bound = true          # only if the run file has no bound: may the others learn the power of two
                                # that no value here exceeds?
{data}
# What this site takes part in at all. A run that asks for more is refused before any data are opened.
[floors]
policies = {policies}   # of: assignments, own-labels, final-labels, distances, noise,
                                # noisy-sums, dbscan, feddp, federated-lloyd, k-fed, ...
smallest_t = 1                  # so many colluding clients must learn nothing
open_centers = {centers}            # may centers be opened at all,
smallest_center = 10            # and of clusters of how many points at least?
open_dendrogram = false         # may the server learn how far all are apart (linkage)?
show_sizes = true               # may sizes of clusters be shown?
changed_rows = 0                # rows here that must differ between two opened outputs, if any: 0, or 10 up
# deviating = 1                 # clients of a committee that may deviate and learn nothing more
# fewest_clients = 3            # data owners, with this site, that must take part,
# fewest_rows = 500             # with so many rows together
# runs_per_month = 4            # in any 30 days
# features = ["age", "..."]     # columns that may be clustered,
# largest_k = 12                # into how many clusters at most
# max_explained = 0.9           # of one column here labels may explain, where sites hold other columns
# largest_epsilon = 1.0         # of one run; then a run without noise is refused
# largest_delta = 1e-6
# total_epsilon = 4.0           # over all runs of this site
# total_quota = 100000          # guesses of IDs that a client may test, over all runs (quota in [options])
# coordinators = ["..."]        # public identities of the servers that this site works with
# [floors.partners]             # with nobody else: a name and a public identity a line, the server's too, as
# north = "..."                 # [parties] of a run file has them
"""
DATA = """
[data]
path = {path}
{ids}
{dialect}
# drop_unfit = true             # of a run file with a linkage schema: leave out rows that do not fit it
"""
DIALECT = """\
# delimiter = ";"               # CSV that is written otherwise than it shows: what separates cells,
# decimal = ","                 # the decimal sign,
# thousands = "."               # what groups digits,
# header = true                 # whether the first row has names,
# skip = "1-3"                  # lines that are no part of the table,
# absent = ["?", "crp=-9"]      # words for nothing, of all columns or of one,
# encoding = "cp1252"           # and letters; of a workbook: sheet = "data", visible_only = true\
"""


def parse_identities(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, bytes]:
    """NAME=HEX of every party."""
    found: dict[str, bytes] = {}
    for value in values:
        name, _, text = value.rpartition("=")
        try:
            key = bytes.fromhex(text)
        except ValueError:
            key = b""
        if not name or len(key) != SESSION:
            raise click.BadParameter(
                f"{value!r}: NAME=PUBLIC is needed, with the 64 digits that `secfc deploy key` shows"
            )
        if name == SERVER:
            raise click.BadParameter(f"{name} is who serves: use --server, or rename the client")
        if name in found:
            raise click.BadParameter(f"{name} is given twice")
        found[name] = key
    return found


def parse_options(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, object]:
    """NAME=VALUE of options, as TOML has them, or else as text."""
    import tomllib

    found: dict[str, object] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals:
            text = "true"
        try:
            found[name.strip().replace("-", "_")] = tomllib.loads(f"x = {text}")["x"]
        except tomllib.TOMLDecodeError:
            found[name.strip().replace("-", "_")] = text
    return found


def parse_features(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Names of columns, of several options one after another."""
    return tuple(name for value in values for name in parse_names(context, parameter, value) or ())


def divide_features(
    names: Iterable[str], clients: Iterable[str]
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The columns of all, and by client where they are told as CLIENT:COLUMN,COLUMN; {} where they are not.

    >>> divide_features(["a:age", "bmi", "b:income"], ["a", "b", "c"])
    (('age', 'bmi', 'income'), {'a': ('age', 'bmi'), 'b': ('income',), 'c': ()})
    """
    owned: dict[str, tuple[str, ...]] = dict.fromkeys(clients, ())
    found, owner = list[str](), ""
    for name in names:
        client, colon, column = name.partition(":")
        owner, column = (client, column) if colon and client in owned else (owner, name)
        found.append(column)
        if column in owned.get(owner, ()):
            twice = f"--features {owner}:{column} is named twice"
            raise click.UsageError(f"{twice}. Name a client's columns once.")
        if owner:
            owned[owner] += (column,)
    if owner and sum(map(len, owned.values())) < len(found):
        raise click.UsageError(f"--features {found[0]}: of which client is it? Write CLIENT:{found[0]}.")
    return (tuple(dict.fromkeys(found)), owned) if owner else (tuple(found), {})


@dataclass(frozen=True)
class InitOptions(TextFiles, Overwriting):
    """What `secfc deploy init` takes."""

    # fmt: off
    file: Path | None = argument(required=False)
    name: str = option("a run", help="What people call the run.")
    clients: Mapping[str, bytes] = option({}, None, "--client", many=True, parse=parse_identities,
        metavar="NAME=PUBLIC", help="A data owner and its public identity; once for each, in their order.")
    server: str | None = option(metavar="PUBLIC", help="The public identity of whoever serves.")
    hub: str | None = option(metavar="URL", help="Where the hub is, as wss://hub.example.org.")
    served_by: str | None = option(metavar="NAME", help=
        "Whose organization serves: a client's name, or another's; `check` warns of what that lets it read.")
    authority: Path | None = option(metavar="PEM", help=
        "By which the hub's certificate is known, if the systems do not trust it.")
    features: tuple[str, ...] = option((), many=True, parse=parse_features, metavar="[CLIENT:]A,B,...", help=
        "The columns that are clustered. CLIENT:A,B for each client's own: columns of the same people, whom "
        "IDs name; a client of whom none is told has no data, and computes.")
    k: str | None = option(None, None, "-k", metavar="K", help=
        "Clusters, or among how many, as 2..12. Default: 4, or as many as the algorithm finds.")
    algorithm: str = option("secfc", help="As for `secfc run`.")
    options: Mapping[str, object] = option({}, None, "--set", many=True, parse=parse_options,
        metavar="OPTION=VALUE", help="An option of `secfc run`, as disclosure=own-labels; repeatable.")
    preparing: Mapping[str, object] = option({}, None, "--prepare", many=True, parse=parse_options,
        metavar="OPTION=VALUE", help="How features are prepared, as standardize or limit=8; repeatable.")
    seed: int | None = option(None, Whole(0), help="Of the start. Default: coins that clients toss.")
    schema: Path | None = option(metavar="SCHEMA.toml", help=
        "A linkage schema, which becomes part of the run file: rows are linked by its columns (see `secfc "
        "check-ids`).")
    site: Path | None = option(metavar="SITE.toml", help=
        "Write the file of a site instead: with --party, --run, --key and --data.")
    party: str | None = option(metavar="NAME", help="The site's name in the run file, or server.")
    run_path: str = option("run.toml", None, "--run", metavar="RUN.toml")
    key_path: str = option("site.key", None, "--key", metavar="KEY")
    data: str | None = option(metavar="FILE", help="The rows of a site, as for `secfc run`.")
    id_column: str | None = option(metavar="NAME", help="Its column of IDs.")
    # fmt: on
    HELP: ClassVar = {"force": "Overwrite."}


@command(InitOptions)
def init(given: InitOptions) -> None:
    """Write the run file FILE, or with --site the file of a site.

    \b
    Examples:
      secfc deploy init run.toml --client a=12ab... --client b=34cd... --client c=56ef... --server 78aa... \\
          --hub wss://hub.example.org --features age,weight,pressure -k 4 --set bound=300
      secfc deploy init --site site.toml --party a --data patients.csv --id-column patient
    """
    if (given.file is None) == (given.site is None):
        raise click.UsageError("name the run file to write, or the file of a site with --site: one of both.")
    if given.site is not None:
        write_text_file(given.site, _site(given), "--site", force=given.force)
        click.echo(f"{given.site} written: read its [floors], then run `secfc deploy check {given.site}`.")
        return
    needed = {"--client": given.clients, "--server": given.server, "--hub": given.hub,
              "--features": given.features}  # fmt: skip
    if lacking := [flag for flag, value in needed.items() if not value]:
        raise click.UsageError(f"a run file needs {', '.join(lacking)}: see the example in --help.")
    path = Path(str(given.file))
    check_output(path, "FILE", (), force=given.force)
    write_text_file(path, _run(given), "FILE", force=given.force)


@cautions_noted()
def _run(given: InitOptions) -> str:
    from secfc.cli.deploy.run_file import build_run, carried_sentences, serving_sentences, spare_sentence

    with bad_input(OSError, UnicodeDecodeError):
        pem = None if given.authority is None else given.authority.read_text(encoding="ascii")
        linkage = None if given.schema is None else read_linkage(given.schema)
    try:
        public = bytes.fromhex(str(given.server))
    except ValueError:
        public = b""
    algorithm, given_options = given.algorithm, dict(given.options)
    if algorithm == "secfc" and given_options.get("disclosure") == "centers":
        algorithm = "federated-lloyd"
        del given_options["disclosure"]
    if (
        algorithm == "federated-lloyd" and "start" not in given_options
    ):  # what sites demand of centers, unless they say less
        given_options.setdefault("floor", Floors().smallest_center)
    features, columns = divide_features(given.features, given.clients)
    made = RunFile(
        given.name, new_session(), str(given.hub), {**given.clients, SERVER: public}, features,
        algorithm, _asked_k(given.k, algorithm), given_options, given.preparing,
        columns, "columns" if columns and algorithm == "secfc" else "people", given.seed, given.served_by,
        linkage, authority=pem,
    )  # fmt: skip
    work = build_run(made)
    with bad_input(OverflowError):  # a plan that cannot be fails here, not at every site
        work.algorithm.plan(replace(work.public, counts=(100,) * len(work.public.clients)))
    for note in (
        *work.notes,
        spare_sentence(made, work),
        *carried_sentences(work),
        *(more for _, more in serving_sentences(made, work)),
    ):
        click.echo(f"Note: {note}.")
    if work.derived:
        click.echo(
            "Note: no bound is set, so every site must consent to show the power of two that no value of its "
            "rows exceeds (derived_bound); --set bound=... sets one that everybody may know."
        )
    for party, key in made.identities.items():
        click.echo(f"{party:12}  {identity_fingerprint(key)}")
    click.echo(
        f"digest        {identity_fingerprint(made.digest)}\nSend the file to all sites, and compare the "
        f"digest."
    )
    return HEAD + made.toml()


def _asked_k(k: str | None, algorithm: str) -> int | str:
    """How many clusters, as a run file says it."""
    if k is None:
        method = methods().get(algorithm)
        return "auto" if method is not None and method.finds else 4
    return int(k) if k.isdecimal() else k


HEAD = """\
# The run file: all sites hold the same one. Nothing in it is secret. `secfc deploy check` shows its digest,
# which all should compare, and the fingerprints of the parties.

"""


def _has_no_rows(given: InitOptions) -> bool:
    """Whether this party is the server, or a client that has no column by the run file, if that is here."""
    if given.site is None or given.party is None or given.party == SERVER:
        return given.party == SERVER
    with suppress(OSError, InputError):
        return RunFile.read(given.site.parent / given.run_path).columns.get(given.party) == ()
    return False


def _site(given: InitOptions) -> str:
    party, data, ids = given.party, given.data, given.id_column
    written = changed_words(given.dialect())
    if party is None:
        raise click.UsageError("--site needs --party: the site's name in the run file, or server.")
    if (rowless := _has_no_rows(given)) == (data is not None):
        who = "the server" if party == SERVER else f"{party} only computes, and"
        raise click.UsageError(
            f"{who} has no --data: leave it out." if rowless else "--site needs --data: this site's rows."
        )
    head, mark, floors = SITE.partition("# What this site takes part in")
    text = head.rstrip() + "\n" if party == SERVER else head + mark + floors
    column = f"id_column = {toml_string(ids)}" if ids else '# id_column = "patient"        # if rows have IDs'
    said = [f"{name} = {toml_string(value)}" for name, value in written.items()]
    dialect = "\n".join(said) or DIALECT
    return text.format(
        party=toml_string(party), run=toml_string(given.run_path), key=toml_string(given.key_path),
        data="" if data is None else DATA.format(path=toml_string(data), ids=column, dialect=dialect),
        policies='["own-labels", "assignments", "final-labels"]', centers="false",
    )  # fmt: skip


def toml_string(value: Any) -> str:
    """A value as TOML has it."""
    import tomli_w

    return tomli_w.dumps({"x": value}).partition("= ")[2].strip()


def write_text_file(path: Path, text: str, option: str, *, force: bool) -> None:
    """Write what an option names.  Raises Refused; InputError for a word that the system could not decode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{option}: {error.object[error.start : error.end]!a} would stand in {path}, bytes that are no "
            "text in this system's encoding: set PYTHONUTF8=1 or LC_ALL=C.UTF-8, and give the command again"
        ) from error
    check_output(path, option, (), force=force)
    with explaining_writes(option):
        write_all({path: lambda out: out.write(text)}, overwrite=force)
