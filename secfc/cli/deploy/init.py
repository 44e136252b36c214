"""`secfc deploy init`: the run file that all hold, and the file of each site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from secfc.cli.errors import bad_input
from secfc.cli.outputs import ANY_PATH, check_output, explaining_writes, write_all
from secfc.cli.settings import Whole, of_text_files, parse_names
from secfc.data.dialects import Dialect
from secfc.data.linkage import Linkage, read_linkage
from secfc.deploy.runfile import SESSION, RunFile, new_session
from secfc.deploy.site import create_key_file, identity_fingerprint, load_key_file
from secfc.roles.exchange import SERVER

SITE = """\
# The file of one site. It is this site's alone: nobody else reads it, and nobody can weaken it.

[site]
party = {party}
run = {run}                # the run file, the same at all sites
key = {key}                # `secfc deploy key` made it
journal = "journal"             # what this site must not forget if it dies; secret, removed at the end
results = "results"             # where labels and the report go
# hub = "wss://..."             # if the hub is to be reached elsewhere than the run file says
# derived_bound = true          # only if the run file has no bound: may the others learn the power of two
                                # that no value here exceeds?
{data}
# What this site takes part in at all. A run that asks for more is refused before any data are opened.
[floors]
policies = {policies}   # of: assignments, own-labels, final-labels, distances, noise, feddp, k-fed, ...
smallest_t = 1                  # so many colluding clients must learn nothing
open_centers = {centers}            # may centers be opened at all,
smallest_center = 10            # and of clusters of how many points at least?
show_sizes = true               # may sizes of clusters be shown?
changed_rows = 0                # rows here that must differ between two opened outputs, if any: 0, or 10 up
# largest_epsilon = 1.0         # of one run; then a run without noise is refused
# largest_delta = 1e-6
# total_epsilon = 4.0           # over all runs of this site
# total_quota = 100000          # guesses of IDs that a client may test, over all runs (quota in [options])
# coordinators = ["..."]        # public identities of the servers that this site works with
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
# encoding = "cp1252"           # and letters\
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


@click.command(short_help="Write the run file, and each site's own.")
@click.argument("file", required=False, type=ANY_PATH)
@click.option("--name", default="a run", show_default=True, help="What people call the run.")
@click.option("--client", "clients", multiple=True, callback=parse_identities, metavar="NAME=PUBLIC",
              help="A data owner and its public identity; once for each, in their order.")  # fmt: skip
@click.option("--server", metavar="PUBLIC", help="The public identity of whoever serves.")
@click.option("--hub", metavar="URL", help="Where the hub is, as wss://hub.example.org.")
@click.option("--authority", type=ANY_PATH, metavar="PEM", help="By which the hub's certificate is known, if "
              "the systems do not trust it.")  # fmt: skip
@click.option("--features", callback=parse_names, metavar="A,B,...", help="The columns that are clustered.")
@click.option("-k", default="4", metavar="K", help="Clusters, or among how many, as 2..12.")
@click.option("--algorithm", default="secfc", show_default=True, help="As for `secfc run`.")
@click.option("--set", "options", multiple=True, callback=parse_options, metavar="OPTION=VALUE",
              help="An option of `secfc run`, as disclosure=own-labels; repeatable.")  # fmt: skip
@click.option("--prepare", "preparing", multiple=True, callback=parse_options, metavar="OPTION=VALUE",
              help="How features are prepared, as standardize or limit=8; repeatable.")  # fmt: skip
@click.option("--seed", type=Whole(0), help="Of the start. Default: coins that clients toss.")
@click.option("--schema", type=ANY_PATH, metavar="SCHEMA.toml", help="A linkage schema, which becomes "
              "part of the run file: rows are linked by its columns (see `secfc check-ids`).")  # fmt: skip
@click.option("--site", type=ANY_PATH, metavar="SITE.toml", help="Write the file of a site instead: with "
              "--party, --run, --key and --data.")  # fmt: skip
@click.option("--party", metavar="NAME", help="The site's name in the run file, or server.")
@click.option("--run", "run_path", default="run.toml", show_default=True, metavar="RUN.toml")
@click.option("--key", "key_path", default="site.key", show_default=True, metavar="KEY")
@click.option("--data", metavar="FILE", help="The rows of a site, as for `secfc run`.")
@click.option("--id-column", metavar="NAME", help="Its column of IDs.")
@of_text_files
@click.option("--force", is_flag=True, help="Overwrite.")
def init(
    file: Path | None, name: str, clients: dict[str, bytes], server: str | None, hub: str | None,
    authority: Path | None, features: tuple[str, ...] | None, k: str, algorithm: str,
    options: dict[str, object], preparing: dict[str, object], seed: int | None, schema: Path | None,
    site: Path | None, party: str | None, run_path: str, key_path: str, data: str | None,
    id_column: str | None, encoding: str | None, delimiter: str | None, decimal: str | None, force: bool,
) -> None:  # fmt: skip
    """Write the run file FILE, or with --site the file of a site.

    \b
    Examples:
      secfc deploy init run.toml --client a=12ab... --client b=34cd... --client c=56ef... --server 78aa... \\
          --hub wss://hub.example.org --features age,weight,pressure -k 4 --set bound=300
      secfc deploy init --site site.toml --party a --data patients.csv --id-column patient
    """
    if (file is None) == (site is None):
        raise click.UsageError("name the run file to write, or the file of a site with --site: one of both.")
    if site is not None:
        written = {"encoding": encoding, "delimiter": delimiter, "decimal": decimal}
        text = _site(party, run_path, key_path, data, id_column, written)
        _write(site, text, "--site", force=force)
        click.echo(f"{site} written: read its [floors], then run `secfc deploy check {site}`.")
        return
    lacking = [flag for flag, value in (("--client", clients), ("--server", server), ("--hub", hub),
                                        ("--features", features)) if not value]  # fmt: skip
    if lacking:
        raise click.UsageError(f"a run file needs {', '.join(lacking)}: see the example in --help.")
    check_output(Path(str(file)), "FILE", (), force=force)
    with bad_input(OSError, UnicodeDecodeError):
        pem = None if authority is None else authority.read_text(encoding="ascii")
        linkage = None if schema is None else read_linkage(schema)
    text = _run(
        name, clients, str(server), str(hub), pem, features or (), k, algorithm, options, preparing, seed,
        linkage,
    )  # fmt: skip
    _write(Path(str(file)), text, "FILE", force=force)


def _run(
    name: str, clients: dict[str, bytes], server: str, hub: str, authority: str | None,
    features: tuple[str, ...], k: str, algorithm: str, options: dict[str, object],
    preparing: dict[str, object], seed: int | None, linkage: Linkage | None,
) -> str:  # fmt: skip
    from secfc.cli.deploy.run_file import build_run
    from secfc.deploy.site import identity_fingerprint

    try:
        public = bytes.fromhex(server)
    except ValueError:
        public = b""
    made = RunFile(
        name, new_session(), hub, {**clients, SERVER: public}, features, algorithm,
        int(k) if k.isdecimal() else k, options, preparing, seed=seed,
        schema=linkage, authority=authority,
    )  # fmt: skip
    work = build_run(made)
    with bad_input(OverflowError):  # a plan that cannot be fails here, not at every site
        work.algorithm.plan(replace(work.public, counts=(100,) * len(work.public.clients)))
    for note in work.notes:
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


HEAD = """\
# The run file: all sites hold the same one. Nothing in it is secret. `secfc deploy check` shows its digest,
# which all should compare, and the fingerprints of the parties.

"""


def _site(
    party: str | None, run: str, key: str, data: str | None, ids: str | None, written: dict[str, str | None]
) -> str:
    Dialect(**written)  # refuses what cannot be
    if party is None:
        raise click.UsageError("--site needs --party: the site's name in the run file, or server.")
    if (party == SERVER) == (data is not None):
        raise click.UsageError(
            "the server has no --data: leave it out." if data else "--site needs --data: this site's rows."
        )
    head, mark, floors = SITE.partition("# What this site takes part in")
    text = head.rstrip() + "\n" if party == SERVER else head + mark + floors
    column = f"id_column = {toml_string(ids)}" if ids else '# id_column = "patient"        # if rows have IDs'
    said = [f"{name} = {toml_string(value)}" for name, value in written.items() if value is not None]
    dialect = "\n".join(said) or DIALECT
    return text.format(
        party=toml_string(party), run=toml_string(run), key=toml_string(key),
        data="" if data is None else DATA.format(path=toml_string(data), ids=column, dialect=dialect),
        policies='["own-labels", "assignments", "final-labels"]', centers="false",
    )  # fmt: skip


def toml_string(text: str) -> str:
    """A string as TOML has it."""
    import tomli_w

    return tomli_w.dumps({"x": text}).partition("= ")[2].strip()


def _write(path: Path, text: str, option: str, *, force: bool) -> None:
    check_output(path, option, (), force=force)
    with explaining_writes(option):
        write_all({path: lambda out: out.write(text)}, overwrite=force)


# --------------------------------------------------------------------------------------------------
# `secfc deploy key`: a site's identity.


@click.command(short_help="Make a site's key, or show the public part of one.")
@click.argument("file", type=ANY_PATH)
def key(file: Path) -> None:
    """Make a site's key in FILE, if it is not there; show what the others need of it.

    The file is secret and never leaves the site. The others need the public line, in the run file; read the
    fingerprint out to each other over the telephone.

    \b
    Example:
      secfc deploy key hospital-a.key
    """
    with bad_input(OSError):
        identity = load_key_file(file) if file.exists() else create_key_file(file)
    click.echo(f"public       {identity.public.hex()}\nfingerprint  {identity_fingerprint(identity.public)}")
