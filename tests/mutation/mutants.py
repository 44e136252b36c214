"""Every small change of a Python file: what is tried, and how it is written down."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.MatMult: ast.Mult,
}  # fmt: skip
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "ceil": "floor"}


@dataclass(frozen=True)
class Mutant:
    """One change: the text from byte `begin` to `end` becomes `text`; old and new name it for people.

    line: its number; where: that line of the file as it is.
    """

    line: int
    where: str
    old: str
    new: str
    begin: int
    end: int
    text: bytes

    def apply(self, source: bytes) -> bytes:
        """The changed file."""
        return source[: self.begin] + self.text + source[self.end :]

    def __str__(self) -> str:
        return f"{self.line}: {self.old}  ->  {self.new}"


def mutants(path: Path) -> list[Mutant]:
    """All mutants of a file, in order."""
    source = path.read_bytes()
    starts, lines = [0], source.splitlines(keepends=True)
    for line in lines:
        starts.append(starts[-1] + len(line))
    found = []
    for node, new in _changes(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        written = ast.unparse(new)
        text = written if isinstance(node, ast.stmt) else f"({written})"
        where = lines[node.lineno - 1].decode().strip()
        found.append(Mutant(node.lineno, where, ast.unparse(node), written, begin, end, text.encode()))
    return found


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Pairs of a node and what it becomes; not in annotations, decorators, docstrings and texts of errors."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr | ast.stmt):
            for new in _changed(node):
                yield node, new
        for part in _parts(node):
            yield from _changes(part)


def _parts(node: ast.AST) -> list[ast.AST]:
    """The node with the children that may change, as nodes whose children all may."""
    out = copy.copy(node)
    match out:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.arg():
            return []
        case ast.FunctionDef(name="__repr__") | ast.AsyncFunctionDef(name="__repr__"):
            return []
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            out.decorator_list = []
            if not isinstance(out, ast.ClassDef):
                out.returns = None
        case ast.AnnAssign():
            return [ast.Expression(out.value)] if out.value else []
        case ast.Call(func=ast.Name(id="refuse" | "isinstance" | "cast" | "TypeVar")):
            # What is refused may change, its text not.
            out.args = out.args[:1]
        case ast.Call(func=ast.Attribute(attr="reshape")):
            # Of a shape, -1 is whatever is left, and so is any negative number.
            out.args = [arg for arg in out.args if not isinstance(arg, ast.UnaryOp)]
    return [out]


def _changed(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    """What one node may become, itself alone."""
    new = copy.copy(node)
    match new:
        case ast.Compare():
            for at, op in enumerate(new.ops):
                once = copy.copy(new)
                once.ops = [*new.ops[:at], COMPARED[type(op)](), *new.ops[at + 1 :]]
                yield once
        case ast.BinOp() if not isinstance(new.left, ast.Constant) or not isinstance(new.left.value, str):
            new.op = COMPUTED[type(new.op)]()
            yield new
        case ast.AugAssign():
            new.op = COMPUTED[type(new.op)]()
            yield new
            yield ast.Pass()
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield new.operand
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
            yield new
        case ast.Constant(value=bool()):
            yield ast.Constant(not new.value)
        case ast.Constant(value=int()):
            yield ast.Constant(new.value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in CALLED:
            new.func = ast.Name(CALLED[name])
            yield new
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.IfExp():
            yield new.body
            yield new.orelse
