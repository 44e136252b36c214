"""Figures of a checkout: lines, names, functions, files.

    python -m tests.house                                   # of this checkout
    python -m tests.house --tree ../before --tree .         # a column each

All but two are read from syntax trees and pages; the files that a run enters and SecFC's parameters come
from a process that imports the checkout.
"""

from __future__ import annotations

import argparse
import ast
import collections
import functools
import io
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("field", "psu", "secfc")
KERNELS = ("field/kernels/", "psu/kernels.py")
ONE_WORD = re.compile(r"[a-z]+$")
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
MADE = re.compile(r"^ *```.*?^ *```\s*?$|<!-- from code.*?<!-- end -->", re.DOTALL | re.MULTILINE)
Function = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)

# The first run compiles and fills caches; the second is the one that is watched.
ENTERED = """
import inspect, sys
import numpy as np
import secfc
parts = np.array_split(np.random.default_rng(0).normal(size=(84, 3)), 7)
federation, entered = secfc.Federation.from_arrays(parts), set()
secfc.fit(secfc.SecFC(k=3), federation, seed=0)
sys.setprofile(lambda frame, event, _: entered.add(frame.f_code.co_filename) if event == "call" else None)
secfc.fit(secfc.SecFC(k=3), federation, seed=0)
sys.setprofile(None)
print(len(inspect.signature(secfc.SecFC).parameters), *sorted(entered), sep="\\n")
"""


def product(root: Path) -> dict[str, str]:
    """Source text by path, of every file that is installed."""
    files = sorted(file for package in PACKAGES for file in (root / package).rglob("*.py"))
    return {file.relative_to(root).as_posix(): file.read_text() for file in files}


@functools.cache
def parse(source: str) -> ast.Module:
    """A file's tree, which all that is counted reads."""
    return ast.parse(source)


@functools.cache
def nodes(source: str) -> list[ast.AST]:
    """Every node of a file's tree, in the order of `ast.walk`."""
    return list(ast.walk(parse(source)))


def code_lines(source: str) -> int:
    """Lines that hold code: no docstrings, comments or blanks."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in nodes(source):
        if isinstance(node, (ast.Module, ast.ClassDef, *Function)) and ast.get_docstring(node, clean=False):
            held.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(held)


@functools.cache
def functions(source: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file, nested ones too."""
    return [node for node in nodes(source) if isinstance(node, Function)]


@functools.cache
def public_functions(source: str) -> list[str]:
    """Names of the functions of a module that do not begin with an underscore."""
    return [n.name for n in parse(source).body if isinstance(n, Function) and n.name[0] != "_"]


def length(node: ast.stmt) -> int:
    """Lines from the first to the last, of a function from its `def`."""
    return (node.end_lineno or 0) - node.lineno + 1


@functools.cache
def mccabe(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Paths: branches, loops, handlers and inner functions, as mccabe counts them."""
    paths = 1
    for node in ast.walk(function):
        paths += isinstance(node, BRANCHES)
        paths += isinstance(node, Function) and node is not function
        paths += isinstance(node, ast.Try) and bool(node.orelse)
    return paths


@functools.cache
def decisions(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Paths, with those within a line too: comprehensions, conditional expressions, `and` and `or`."""
    paths = mccabe(function)
    for node in ast.walk(function):
        paths += isinstance(node, (ast.IfExp, ast.Assert, ast.Lambda))
        paths += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        paths += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
    return paths


def classes(sources: dict[str, str]) -> dict[str, list[str]]:
    """Paths by name of class."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    for path, source in sources.items():
        for name in public_classes(source):
            found[name].append(path)
    return found


@functools.cache
def public_classes(source: str) -> list[str]:
    """Names of a module's classes."""
    return [node.name for node in parse(source).body if isinstance(node, ast.ClassDef)]


def importers(sources: dict[str, str]) -> dict[str, set[str]]:
    """Which files import a file, by path."""
    modules = {path[:-3].replace("/", ".").removesuffix(".__init__"): path for path in sources}
    found: dict[str, set[str]] = {path: set() for path in sources}
    for path, source in sources.items():
        for module, names in imports(source):
            named = [full for name in names if (full := f"{module}.{name}") in modules] or [module]
            for one in named:
                if one in modules and modules[one] != path:
                    found[modules[one]].add(path)
    return found


@functools.cache
def imports(source: str) -> list[tuple[str, tuple[str, ...]]]:
    """What a file imports: modules, each with the names that are taken from it."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found += [(alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, tuple(alias.name for alias in node.names)))
    return found


def crumbs(sources: dict[str, str]) -> set[str]:
    """Files under 60 lines that are no package's `__init__` or `__main__`."""
    return {
        path
        for path, source in sources.items()
        if len(source.splitlines()) < 60 and not path.endswith(("__init__.py", "__main__.py"))
    }


@functools.cache
def getattr_defaults(source: str) -> int:
    """Calls of `getattr` that name a default."""
    calls = [node for node in nodes(source) if isinstance(node, ast.Call)]
    return sum(isinstance(c.func, ast.Name) and c.func.id == "getattr" and len(c.args) == 3 for c in calls)


@functools.cache
def protocols(source: str) -> int:
    """Classes that are typing.Protocol's."""
    found = [node for node in nodes(source) if isinstance(node, ast.ClassDef)]
    return sum(
        re.match(r"(typing\.)?Protocol\b", ast.unparse(base)) is not None for c in found for base in c.bases
    )


def written(root: Path) -> list[str]:
    """What people wrote in each page: no code, no tables from code, no pages that a program writes."""
    made = {root / "docs" / f"{name}.md" for name in ("papers", "nightly", "dp_matrix")}
    folders = ("*.md", "docs/**/*.md", *(f"{package}/**/*.md" for package in (*PACKAGES, "benchmarks")))
    files = {file for pattern in folders for file in root.glob(pattern)} - made
    return [MADE.sub("", file.read_text()) for file in sorted(files)]


def sentences(page: str) -> list[int]:
    """Words of each sentence of a page; a cell, a title and an item of a list begin a new one."""
    plain = re.sub(r"\]\([^)]*\)|<!--.*?-->", "]", page, flags=re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*#>|]|\d+\.) ?)|\|", plain)
    split = [sentence for part in parts for sentence in re.split(r"(?<=[.!?])\s+", part)]
    return [count for count in map(words, split) if count]


def words(text: str) -> int:
    """Words with a letter between blanks."""
    return sum(bool(re.search("[A-Za-z]", word)) for word in text.split())


def of(part: int, whole: int) -> str:
    """`part of whole, with its share`."""
    return f"{part} of {whole} ({part / whole:.1%})"


def longest(sources: dict[str, str], name: str) -> str:
    """The longest functions of the file with the longest function of this name, and their lines."""
    found = {
        path: sorted(((length(f), f.name) for f in functions(source)), reverse=True)
        for path, source in sources.items()
        if path.startswith("secfc/") and name in public_functions(source)
    }
    if not found:
        return "none"
    path = max(found, key=lambda path: max(lines for lines, called in found[path] if called == name))
    (named,) = (f for f in functions(sources[path]) if f.name == name)
    body = length(named) - length(named.body[0]) * bool(ast.get_docstring(named))
    lines = ", ".join(f"{called} {lines}" for lines, called in found[path][:3])
    return f"{Path(path).name}: {lines}; {name} {body} but for its docstring"


def entered(root: Path, sources: dict[str, str]) -> tuple[int, int]:
    """SecFC's parameters, and the files whose functions a default run of 7 clients and 84 points calls."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-W", "ignore", "-c", ENTERED]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    parameters, *files = done.stdout.splitlines()
    return int(parameters), len({str(root / path) for path in sources} & set(files))


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """What is counted and the count, in the order in which it is printed."""
    sources = product(root)
    parameters, run = entered(root, sources)
    every = [function for source in sources.values() for function in functions(source)]
    plain = [f for path, source in sources.items() if not path.startswith(KERNELS) for f in functions(source)]
    public = [name for source in sources.values() for name in public_functions(source)]
    largest = max((len(s.splitlines()), path) for path, s in sources.items() if not path.startswith(KERNELS))
    tests = [file.read_text() for file in sorted((root / "tests").rglob("*.py"))]
    yield "lines of code", str(sum(map(code_lines, sources.values())))
    yield "files", str(len(sources))
    yield "files under 60 lines", str(len(crumbs(sources)))
    yield "largest file, kernels apart", f"{largest[1]} ({largest[0]})"
    yield "files that a default run enters", str(run)
    yield "public functions of one word", of(sum(bool(ONE_WORD.match(n)) for n in public), len(public))
    yield (
        "functions and methods of one word",
        of(sum(bool(ONE_WORD.match(f.name)) for f in every), len(every)),
    )
    yield "class names of several classes", str(sum(len(p) > 1 for p in classes(sources).values()))
    yield "longest beside fit", longest(sources, "fit")
    yield "longest beside execute", longest(sources, "execute")
    yield "functions above 60 lines, kernels apart", str(sum(length(f) > 60 for f in plain))
    yield "functions above 15 paths (mccabe)", str(sum(mccabe(f) > 15 for f in every))
    yield "functions above 15 paths within lines too", str(sum(decisions(f) > 15 for f in every))
    yield "parameters of SecFC", str(parameters)
    yield "getattr with a default", str(sum(map(getattr_defaults, sources.values())))
    yield "protocol classes", str(sum(map(protocols, sources.values())))
    pages = written(root)
    counts = [count for page in pages for count in sentences(page)]
    yield "words of pages, written by hand", str(sum(map(words, pages)))
    yield "words a sentence of pages", f"{sum(counts) / len(counts):.1f}"
    yield "sentences of more than 30 words", of(sum(count > 30 for count in counts), len(counts))
    yield "lines of tests", str(sum(len(text.splitlines()) for text in tests))
    yield "lines of code of tests", str(sum(map(code_lines, tests)))


def main() -> None:
    """Print the figures of one or several checkouts side by side."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__.splitlines()[0])
    parser.add_argument("--tree", action="append", type=Path, help="a checkout; again for another column")
    trees = [tree.resolve() for tree in parser.parse_args().tree or [ROOT]]
    columns = [dict(figures(tree)) for tree in trees]
    widths = [max(map(len, column.values())) for column in columns]
    for name in columns[0]:
        cells = (column[name].ljust(width) for column, width in zip(columns, widths, strict=True))
        print("  ".join([f"{name:<42}", *cells]).rstrip())


if __name__ == "__main__":
    main()
