"""From the words of a run file to what runs: the algorithm, what is public, and what is at stake."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.clustering.preprocessing import check_preprocessing as check_preparing
from secfc.cli.clustering.preprocessing import way_for
from secfc.cli.methods import methods, options
from secfc.cli.methods.secfc import PROFILE
from secfc.cli.shell.errors import FLAGS, bad_input
from secfc.cli.shell.method import AskedOptions, Method, check_schema
from secfc.cli.shell.options import Option, fields_of, select_fields, was_given
from secfc.cli.shell.settings import Preparing, Settings, check_choice, check_split
from secfc.coded_kmeans.secfc import AIMED
from secfc.data.files import category_names
from secfc.data.inputs import get_parameter, seeded_generator, with_parameters
from secfc.deploy.floors import Stakes
from secfc.deploy.runfile import RunFile, new_session
from secfc.errors import InputError
from secfc.kmeans.elbow import parse_k
from secfc.remedies import OLD_OPTIONS, old_name_sentence, word_of
from secfc.roles.exchange import SERVER

if TYPE_CHECKING:
    from secfc.algorithm import Algorithm, PublicFacts

# Options that only mean something where one process sees all data, or that are each site's own.
ELSEWHERE = ("verify", "verify_reference", "attack", "threads", "scratch", "seed")
# Clusters that are told of where nobody has said how many there are at most.
MOST_CLUSTERS = 20
# Rows of a client of which nothing is known yet.
FEW = 100
# Rows of all clients: nobody asks how many more a plan carries.
MOST = 100_000_000


class RunFileInterface:
    """Words of a run file: those of the shell's options, without their lines."""

    def name(self, parameter: str) -> str | None:
        """The key, None for what is none."""
        known = {option.name for option in options().values()} - set(ELSEWHERE)
        key = FLAGS.get(parameter, parameter).lstrip("-")
        return key if key in known else None

    def setting(self, parameter: str, value: Any) -> str | None:
        """As `init = "random"`."""
        key = self.name(parameter)
        if key is None or value is ...:
            return key
        word = word_of(parameter, value) or value
        return f"{key} = {json.dumps(word if isinstance(word, str | int | float | None) else str(word))}"


RUN_FILE = RunFileInterface()


@dataclass(frozen=True)
class Built:
    """What a run file asks for.

    algorithm: that runs, on scaled features if they are.  public: what is known of the data before the sites
    talk; counts of rows are 1 each until they have (`with_counts`).  derived: whether the bound is read off
    the data, so that each site must consent to show its power of two.  stakes: for floors.  notes: what was
    chosen for the user.
    """

    algorithm: Algorithm
    public: PublicFacts
    derived: bool
    stakes: Stakes
    notes: tuple[str, ...]
    method: Method
    asked: AskedOptions

    def draft(self, public: PublicFacts) -> Any:
        """The plan for these facts, without that of the scale.  Raises InputError."""
        try:
            with bad_input(OverflowError):
                plan: Any = self.algorithm.plan(public)
        except InputError as error:
            raise InputError(error.text(RUN_FILE)) from error
        return plan.inner if self.algorithm.capabilities.inner is not None else plan

    def guessed(self, rows: int, others: int = FEW) -> PublicFacts:
        """What is public, as if one client had so many rows, and each other one so many.

        Before introductions nobody knows the others' rows: a plan for few of them refuses what no others
        would make possible, and nothing else.
        """
        rest = (max(others, FEW),) * (len(self.public.clients) - 1)
        return replace(self.public, counts=(max(rows, FEW), *rest))


def build_run(run: RunFile) -> Built:
    """What a run file asks for.  Raises InputError for words that `secfc run` would refuse as well."""
    from secfc.algorithm import PublicFacts
    from secfc.scaling.algorithm import Scaled

    method = {**methods(), PROFILE.name: PROFILE}.get(run.algorithm)
    if method is None:
        raise InputError(f"algorithm = {run.algorithm!r}: one of {', '.join(methods())} is needed")
    try:
        asked = _asked(run, method)
    except click.ClickException as error:
        option = getattr(error, "param", None)
        said = error.format_message() if option is None else f"{option.name}: {error.message}"
        raise InputError(f"the run file's [options] or [preparing]: {said}") from error
    except InputError as error:
        raise InputError(f"the run file's [options]: {error.text(RUN_FILE)}") from error
    numbers, texts = clustered_columns(run, asked.settings)
    names = (*numbers, *category_names(texts))
    way = way_for(asked, names)
    bound = asked.get("bound") if way is None else float(way.limit)
    derived = bound is None and "bound" in method.names
    public = PublicFacts(
        run.clients,
        (1,) * len(run.clients),
        len(names),
        1.0 if bound is None else float(bound),
        derived,
        session=run.session,
        features=names,
        observed=_observed(run),
        seed=None
        if run.seed is None
        else int(seeded_generator(run.seed).integers(2**63)),  # as `secfc run` has it
    )
    if way is not None and "bound" in method.names:
        asked = asked.with_values(bound=bound)
    if file := asked.get("server_file"):
        from secfc.data.files import load_points

        public = replace(public, server_points=load_points(file, names))
    try:
        choice = method.choose(asked, public)
    except InputError as error:
        raise InputError(error.text(RUN_FILE)) from error
    together = way is not None and not choice.algorithm.capabilities.joins  # else each owner does it alone
    algorithm = Scaled(choice.algorithm, way) if together else choice.algorithm
    return Built(
        algorithm,
        public,
        derived,
        _stakes(run, choice.algorithm, asked),
        (*_old_names(run), *choice.notes),
        method,
        asked,
    )


def _asked(run: RunFile, method: Method) -> AskedOptions:
    """What the words ask for, looked at as a command line is.  Raises UsageError, BadParameter."""
    words = _parsed(_current_options(run), method.options, f"[options] for {method.name}")
    prepare = _parsed(run.preparing, fields_of(Preparing), "[preparing]")
    clusters = _parsed({"k": run.k}, fields_of(Settings, "k"), "[run]")
    settings = select_fields(
        Settings, {**prepare[0], **clusters[0]}, files=(run.folder,), seed=run.seed or 0, sealed=True,
        features="union" if run.columns and run.split == "people" else "same", linkage=run.schema,
        split=run.split, id_column="each site's own",
    )  # fmt: skip
    if file := words[0].get("server_file"):
        words[0]["server_file"] = run.folder / file
    if str(words[0].get("init")).endswith(".npz"):
        # Whoever wrote the run file would have every site read a file, and tell others centers in it.
        raise InputError("init: a model is a file of one machine, which no run file names. Leave init out")
    check_choice(settings, method)
    check_split(settings, method.name, tuple(words[1]))
    asked = method.settle(AskedOptions(settings, words[0], words[1]))
    check_preparing(asked)
    check_schema(asked)
    return asked


def _old_names(run: RunFile) -> Iterator[str]:
    """What to write for each option that has another name now."""
    return (old_name_sentence(*names) for names in OLD_OPTIONS.items() if names[0] in run.options)


def _current_options(run: RunFile) -> dict[str, Any]:
    """Options by the names that they have now.  Raises InputError where one is there by both."""
    for old, new in OLD_OPTIONS.items():
        if {old, new} <= run.options.keys():
            raise InputError(f"{old_name_sentence(old, new)}, and leave {old} out")
    return {OLD_OPTIONS.get(name, name): value for name, value in run.options.items()}


def clustered_columns(run: RunFile, settings: Settings) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The columns of a run that hold numbers, and those of text with the categories that its file lists.

    Raises InputError for categories that it does not list, or of a column that is not clustered.
    """
    texts = dict[str, tuple[str, ...]]()
    for name, listed in settings.categorical:
        if name not in run.features:
            raise InputError(
                f"[preparing]: categorical names {name!r}, which is none of features: add it there, or leave "
                "it out"
            )
        if listed is None:
            raise InputError(
                f"[preparing]: categorical = {name!r} lists no categories, on which sites must agree before "
                f"they meet: write {name}=north|south, or {name}=low<high in their order"
            )
        texts[name] = listed
    return tuple(name for name in run.features if name not in texts), texts


def _parsed(words: Mapping[str, Any], options: Any, where: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by name, as click has them, and how those that were given are spelled there."""
    known = {option.name: option for option in options}
    line: list[str] = []
    for name, value in words.items():
        option = known.get(name)
        if option is None or name in ELSEWHERE:
            rule = "is each site's own" if name in ELSEWHERE else "is no word here"
            raise InputError(
                f"{where}: {name} {rule}. Known are {', '.join(sorted(set(known) - set(ELSEWHERE)))}"
            )
        line += _typed(option, value, f"{where}: {name}")
    context = click.Command(where, params=list(options)).make_context(where, line)
    given = {name: known[name].opts[0] for name in words if was_given(context, name)}
    return dict(context.params), given


def _typed(option: Option, value: Any, where: str) -> list[str]:
    """An option with its value as on a command line.  Raises InputError for a flag that is no bool."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise InputError(f"{where} = {value!r}: true or false is needed")
        return (option.opts if value else option.secondary_opts)[:1]
    if option.bare is not None and isinstance(value, bool):
        return [option.opts[0], option.bare] if value else []
    return [option.opts[0], ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]


def _observed(run: RunFile) -> tuple[tuple[int, ...], ...] | None:
    """Numbers of the features of each client, None if all have all."""
    if not run.columns:
        return None
    places = {name: i for i, name in enumerate(run.features)}
    return tuple(tuple(places[c] for c in run.columns.get(client, run.features)) for client in run.clients)


def _stakes(run: RunFile, algorithm: Any, asked: AskedOptions) -> Stakes:
    """What the run would show.  Algorithms without secret centers open them, of clusters of any size."""
    secret = run.algorithm in ("secfc", "dbscan")
    policy = _policy_word(run, asked)
    sums = policy == "noisy-sums"
    k, promise = parse_k(run.k), algorithm.capabilities.promise()
    hidden = asked.get("sizes") == "hidden" and asked["disclosure"] == "own-labels"
    return Stakes(
        policy=policy,
        t=algorithm.capabilities.threshold(run.clients),
        epsilon=None if promise is None else promise.budget.epsilon,
        delta=None if promise is None else promise.budget.delta,
        centers=bool(asked.get("reveal_centers")) if secret and not sums else True,
        smallest=_smallest_opened(asked),
        sizes=not hidden and not sums and run.algorithm != "feddp",
        dendrogram=asked.get("linkage") is not None,
        coordinator=run.identities[SERVER],
        clients=sum(bool(run.columns.get(client, run.features)) for client in run.clients),
        deviating=_withstood(run, algorithm) if secret else 0,
        explained=_most_explained(run, asked),
        guesses=(asked.get("quota") or math.inf) if finds_union(asked) else None,
        largest_k=k if isinstance(k, int) else k.most or math.inf,
        counted=algorithm.capabilities.counted,
    )


def _policy_word(run: RunFile, asked: AskedOptions) -> str:
    """A policy's name in floors, or an algorithm's."""
    if run.algorithm != "secfc":
        return run.algorithm
    disclosure: str = asked["disclosure"]
    return "noise" if asked.noisy and disclosure != "noisy-sums" else disclosure


def finds_union(asked: AskedOptions) -> bool:
    """Whether parties find a union of IDs."""
    return asked.settings.split == "columns" or asked.get("membership") == "private"


def _smallest_opened(asked: AskedOptions) -> int:
    """Points that a difference of what is opened is of, at least."""
    return int(asked.get("smallest_center") or asked.get("floor") or 1)


def _most_explained(run: RunFile, asked: AskedOptions) -> float:
    """Part of a column's variance that labels may explain which owners of other columns are told."""
    return float(asked["max_explained"] or 1) if run.split == "columns" else 0.0


def _withstood(run: RunFile, algorithm: Any) -> int:
    """Clients of a committee that may deviate, as the plan has them.  Raises InputError."""
    from secfc.coded.parameters import select_workers
    from secfc.coded_kmeans.parameters import choose_deviating

    workers = select_workers(algorithm.runtime.workers, run.clients)
    with bad_input():
        return choose_deviating(algorithm, workers, algorithm.threshold.t)


def spared_clients(asked: Built) -> int:
    """How many clients the run can do without, once all have greeted and told their rows."""
    plan = asked.draft(asked.guessed(FEW))
    return max(0, int((asked.algorithm.capabilities.inner or asked.algorithm).capabilities.losses(plan)))


def carried_rows(asked: Built) -> int:
    """Rows of all sites together that the plan carries, if each has about as many; MOST at most."""
    n = len(asked.public.clients)
    low, high = FEW, MOST // n
    while low < high:
        middle = (low + high + 1) // 2
        try:
            asked.draft(asked.guessed(middle, middle))
        except InputError:
            high = middle - 1
        else:
            low = middle
    return n * low


def carried_sentences(asked: Built) -> Iterator[str]:
    """How many rows the run carries, if that may be too few for somebody, and what carries more."""
    rows = carried_rows(asked)
    if rows >= MOST - len(asked.public.clients):
        return
    try:
        way = with_parameters(asked.algorithm.capabilities.inner or asked.algorithm, centers="rounded")
        more = carried_rows(replace(asked, algorithm=way))
    except (InputError, TypeError):
        more = rows
    said = f"about {rows:,} rows of all sites together are the most that can be clustered so"
    if more > rows:
        said += (
            "; --set centers=rounded carries more in about half the time and traffic, on a grid of 1/16 "
            "step, and labels may end elsewhere than with exact centers"
        )
    yield said


def spare_sentence(run: RunFile, asked: Built) -> str:
    """How many clients the run can do without, and what would spare one, as plans of it tell."""
    spare, n, t = spared_clients(asked), len(asked.public.clients), asked.stakes.t
    of = f"n={n} clients" + ("" if t is None else f" with t={t}")
    if spare:
        return f"of {of} the run can do without {spare}"
    alone = f"of {of} nobody can be done without, so while one is away all wait"
    if (asked.asked.get("floor") or 1) > 1:
        return f"{alone}: sums that lack its rows would tell these, below the floor"
    if t is None:
        return alone
    ways = [way for way in (_spared_by_less(run, asked, t), _spared_by_more(run, t)) if way]
    return f"{alone}: {'; '.join(ways)}" if ways else alone


def _spared_by_less(run: RunFile, asked: Built, t: int) -> str | None:
    """The largest smaller t that spares somebody, and what it weakens."""
    deviating = asked.asked.get("deviating") or 0
    for less in range(t - 1, 0, -1):
        lower = {"deviating": less} if deviating > less else {}
        if spared := _spared_with(run, t=less, **lower):
            words = ", ".join(f"{name}={value}" for name, value in {"t": less, **lower}.items())
            weaker = f"let any {less + 1} clients together read what others share"
            return f"{words} would spare {spared}, and {weaker}"
    return None


def _spared_by_more(run: RunFile, t: int) -> str | None:
    """How many clients more would spare somebody, if one or two do."""
    for more, words in enumerate(("a client more", "two clients more"), 1):
        others = {f"another {i}": new_session() for i in range(more)}
        helping = dict.fromkeys(others, ()) if run.split == "columns" else {}
        made = replace(run, identities={**others, **run.identities}, columns={**helping, **run.columns})
        if spared := _spared_with(made, t=t):
            return f"{words} at t={t} would spare {spared}"
    return None


def _spared_with(run: RunFile, **options: Any) -> int:
    """How many clients a run file can do without with these options, none if it is none."""
    try:
        return spared_clients(build_run(replace(run, options={**run.options, **options})))
    except InputError:
        return 0


def serving_sentences(run: RunFile, asked: Built) -> Iterator[tuple[bool, str]]:
    """Who serves, where the server and one client of the committee together would learn every distance.

    First whether it is harmless, then the sentence; nothing where the server deals for no committee.
    """
    from secfc.coded.parameters import select_workers

    inner = unscaled_algorithm(asked)
    policy = get_parameter(inner, "disclosure", None)
    if policy is None or policy.capabilities.dealer != SERVER:
        return
    may = select_workers(inner.runtime.workers, run.clients)
    rule = "the server and one client of the committee together learn every distance"
    if run.served_by in may:
        rest = tuple(name for name in may if name != run.served_by)
        ways = ["let another organization serve"]
        if is_possible(run, workers=rest):
            listed = ", ".join(f'"{name}"' for name in rest)
            ways.append(f"keep it out of the committee (workers = [{listed}])")
        if is_possible(run, dealer="none"):
            ways.append('do without a dealer (dealer = "none")')
        yield (
            False,
            f"{run.served_by} serves, and may sit in the committee too: {rule}. To change it, "
            + (", or ".join(ways)),
        )
    elif run.served_by is not None:
        yield True, f"{run.served_by} serves, and owns no client of the committee; {rule}"
    else:
        yield False, (
            f"the run file does not say whose organization serves (served_by), and {rule}: ask "
            f"whether it is one of {', '.join(may)}"
        )  # fmt: skip


def is_possible(run: RunFile, **options: Any) -> bool:
    """Whether a run file with these options in place of its own could be run."""
    try:
        made = build_run(replace(run, options={**run.options, **options}))
        made.draft(made.guessed(FEW))
    except InputError:
        return False
    return True


def unscaled_algorithm(asked: Built) -> Any:
    """The algorithm, without the scale that its features are brought to first."""
    return asked.algorithm.capabilities.inner or asked.algorithm


def labels_rows(asked: Built) -> bool:
    """Whether owners of rows have their labels, which noisy sums of joined columns give nobody."""
    return asked.asked.settings.split != "columns" or asked.stakes.policy != "noisy-sums"


def shown_by(policy: str, sizes: bool = True) -> str:
    """What a policy, by its name in floors, shows to whom."""
    return {
        "assignments": "everybody: the labels of all rows, by number, and sizes of clusters, in every step",
        "own-labels": "each site: the labels of its own rows; everybody: "
        + ("sizes of clusters, in every step" if sizes else "how many steps were taken"),
        "final-labels": "everybody: the final labels of all rows, by number",
        "distances": "the server: the distance of every row to every center in every step, which fix the "
        "shape of the data; everybody: all labels",
        "noise": "the server: noisy distances; everybody: labels made of them",
        "federated-lloyd": "every client: sums and numbers of the rows of each cluster in every step, on the "
        "columns that it has; each site: the labels of its own rows",
        "noisy-sums": "everybody: noisy sums of clusters, in every step; each site: the labels of its own "
        "rows, but of joined columns nobody any",
        "feddp": "everybody: noisy sums over all sites, in every step; each site: the labels of its own rows",
        "dbscan": "the server: of every two rows whether they are near, and whose they are; each site: the "
        "labels of its own rows; everybody: sizes of clusters",
    }.get(policy, "what the page of this algorithm says; `secfc run` tells it at the end")


def leakage_sentences(asked: Built) -> Iterator[str]:
    """What the run shows to whom, in sentences, as the algorithm says it of itself."""
    stakes = asked.stakes
    yield shown_by(stakes.policy, stakes.sizes)
    if stakes.t is not None:
        yield f"any t={stakes.t} clients together: nothing beyond that, if they follow the protocol"
    if stakes.epsilon is not None:
        promise = asked.algorithm.capabilities.promise()
        whom = "" if promise is None else f", if neighbors {promise.neighbors}"
        yield f"a budget of epsilon={stakes.epsilon:g}, delta={stakes.delta:g} covers what is released{whom}"
    if (labels := get_parameter(unscaled_algorithm(asked), "labels", None)) is not None:
        yield f"everybody: {labels.sentence(int(min(stakes.largest_k, MOST_CLUSTERS)))}"
    if asked.asked.settings.split == "columns":
        told = f"; each owner, of the columns of others, what labels tell: {AIMED}"
        yield "every client: which IDs of the union all owners of columns hold" + told * labels_rows(asked)
    if stakes.guesses == math.inf:
        yield "any client: whether an ID that it guesses is in the union, for as many as it likes"
    elif stakes.guesses:
        yield f"any client: whether an ID that it guesses is in the union, for at most {stakes.guesses:,} IDs"
    blind = stakes.policy == "federated-lloyd" and unscaled_algorithm(asked).blind
    if stakes.centers:
        who = "every client, and not the server" if blind else "everybody"
        least = f" of clusters of at least {stakes.smallest} points" if stakes.smallest > 1 else ""
        yield f"{who}: the noisy centers" if stakes.epsilon is not None else f"{who}: the centers{least}"
    if stakes.dendrogram:
        yield (
            "the server: what merging each two of the final clusters would cost, and so how far their "
            "centers are apart, of clusters of any size"
        )
        if (count := asked.asked["cut"]) is not None:
            yield f"every client: which clusters make each of the {count} groups that rows are labeled by"
    if asked.derived:
        yield "everybody: the power of two that no value of a site exceeds, as the run file has no bound"
