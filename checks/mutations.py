"""Small changes of a source text, one at a time, made at the positions that `ast` gives.

What is changed
---------------
- an arithmetic operator: + and -, * and /, ** to *, // to *; the same in += and *=; & and |;
- a comparison turned round (< to >=, == to !=, in to not in), and < to <= where one side is a whole number;
- a constant: n to n + 1, x to 1.1 x, 0.0 to 1.0, True to False;
- a sign or a ``not`` dropped; ``and`` and ``or``; a condition that is no comparison negated;
- min and max, any and all, sin and cos, argmin and argmax, and the like; a sqrt, log, exp or abs left out;
- the first two arguments of a call exchanged; the first two members of a returned or assigned tuple exchanged;
- a statement left out: an assignment to an entry or attribute, an ``x += ...``, a call, a ``raise``, a ``break``, a
  ``continue``.

What is left alone, because a change there says nothing about the theory
-------------------------------------------------------------------------
- *words*: docstrings, string constants, f-strings, the arguments of ``raise`` (error texts), ``__repr__``;
- *types*: annotations, ``assert x is not None`` and other assertions (they speak to the type checker), type variables and
  numba signatures;
- *bookkeeping*: imports, ``__all__``, decorators (caching, compilation flags, frozen classes);
- *tolerances*: a float constant of size 1e-4 or less, never zero, changed by a tenth: it is a stopping tolerance, a step
  of a difference or a guard against rounding, and no true statement about a result depends on its second digit;
- *commuting arguments*: min(a, b), hypot(a, b) and the like are not exchanged, nor arguments with the same text;
- nothing else: starting guesses, iteration limits and step lengths are changed like everything.
"""

import ast
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "apply", "is_python", "mutants_of"]

ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
ARITHMETIC |= {ast.Pow: ("**", "*"), ast.FloorDiv: ("//", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&")}
TURNED = {ast.Lt: ("<", ">="), ast.LtE: ("<=", ">"), ast.Gt: (">", "<="), ast.GtE: (">=", "<")}
TURNED |= {ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is")}
TURNED |= {ast.In: ("in", "not in"), ast.NotIn: ("not in", "in")}
SHIFTED = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
EXCHANGED = {"min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all", "sin": "cos", "floor": "ceil"}
EXCHANGED |= {"nanmin": "nanmax", "sinh": "cosh", "ones": "zeros", "logical_and": "logical_or"}
EXCHANGED |= {other: name for name, other in EXCHANGED.items()}
DROPPED = ("sqrt", "log", "exp", "abs", "square", "log1p", "expm1", "cbrt")
COMMUTING = ("min", "max", "minimum", "maximum", "hypot", "isinstance", "zip", "getattr", "replace")
SMALL = 1e-4
TEXT_FUNCTIONS = ("__repr__", "__str__", "_repr_html_")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: bytes ``start`` to ``end`` of ``path`` become ``new``; ``key`` does not depend on line numbers."""

    key: str
    path: str
    line: int
    function: str
    start: int
    end: int
    old: str
    new: str
    kind: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line} {self.kind}: {old or '(nothing)'} -> {new or '(nothing)'}"


def apply(mutant: Mutant, text: bytes) -> bytes:
    """The text with the change made."""
    return text[: mutant.start] + mutant.new.encode() + text[mutant.end :]


def mutants_of(path: Path, name: str) -> list[Mutant]:
    """Every mutant of a file, called ``name`` in reports."""
    source = path.read_bytes()
    maker = _Maker(source)
    maker.visit(ast.parse(source))
    found: dict[tuple[int, int, str], Mutant] = {}
    seen: dict[str, int] = {}
    for start, end, new, kind, line, function, body in maker.found:
        old = source[start:end].decode()
        if (start, end, new) in found:
            continue
        name_of_change = "\0".join((name, function, body, old, new, kind))
        nth = seen[name_of_change] = seen.get(name_of_change, -1) + 1
        key = hashlib.sha256(f"{name_of_change}\0{nth}".encode()).hexdigest()[:16]
        found[start, end, new] = Mutant(
            key=key, path=name, line=line, function=function, start=start, end=end, old=old, new=new, kind=kind
        )
    return list(found.values())


def is_python(mutant: Mutant, folder: Path) -> bool:
    """Whether the changed text is still Python: an exchange may break a line that stood inside brackets."""
    try:
        ast.parse(apply(mutant, (folder / mutant.path).read_bytes()))
    except SyntaxError:
        return False
    return True


class _Maker(ast.NodeVisitor):
    """Walks a module and notes changes as (start, end, new, kind, line, function, text of that function)."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.functions: list[str] = []
        self.bodies: list[str] = [""]
        self.found: list[tuple[int, int, str, str, int, str, str]] = []

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self.lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def note(self, start: int, end: int, new: str, kind: str) -> None:
        line = self.source.count(b"\n", 0, start) + 1
        self.found.append((start, end, new, kind, line, ".".join(self.functions), self.bodies[-1]))

    def put(self, node: ast.expr | ast.stmt, new: str, kind: str) -> None:
        """Put a text in the place of a node."""
        self.note(self.start(node), self.end(node), new, kind)

    def between(self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str) -> None:
        """Exchange the operator that stands between two nodes."""
        start, gap = self.end(left), self.source[self.end(left) : self.start(right)].decode()
        word = old.isalpha() or " " in old
        pattern = r"\b" + re.escape(old).replace(r"\ ", r"\s+") + r"\b" if word else re.escape(old)
        found = re.search(pattern, gap)
        if found:
            before = start + len(gap[: found.start()].encode())
            self.note(before, before + len(found[0].encode()), new, kind)

    # what is left alone

    def visit_Import(self, node: ast.AST) -> None:
        """Nothing inside."""

    visit_ImportFrom = visit_JoinedStr = visit_Assert = visit_Import  # noqa: N815  (texts; what speaks to the type checker)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in (*node.defaults, *node.kw_defaults):
            if default is not None:
                self.visit(default)

    # scopes

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.functions.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.functions.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in TEXT_FUNCTIONS:
            return
        self.functions.append(node.name)
        self.bodies.append(self.bodies[-1] if len(self.bodies) > 1 else self.text(node))
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)
        self.bodies.pop()
        self.functions.pop()

    # statements

    def visit_Assign(self, node: ast.Assign) -> None:
        text = self.text(node)
        if text.startswith("__all__") or re.search(r"= *(\w+: )?(types\.|float64\(|NDArray|TypeVar|ClassVar)", text):
            return
        if isinstance(node.targets[0], (ast.Subscript, ast.Attribute)):
            self.put(node, "pass", "left out")
        if isinstance(node.value, ast.Tuple):
            self.exchange(node.value.elts, "exchanged")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.put(node, "pass", "left out")
        if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            self.between(node.target, node.value, old + "=", new + "=", "operator")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.put(node, "pass", "left out")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise | ast.Break | ast.Continue) -> None:
        self.put(node, "pass", "left out")

    visit_Break = visit_Continue = visit_Raise  # noqa: N815

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Tuple):
            self.exchange(node.value.elts, "exchanged")
        if isinstance(node.value, ast.BinOp):
            self.put(node.value, self.text(node.value.left), "half returned")
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        # a condition that is a comparison has changes of its own
        if not isinstance(node.test, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            self.put(node.test, f"not ({self.text(node.test)})", "logic")
        self.generic_visit(node)

    visit_IfExp = visit_If  # noqa: N815

    # expressions

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not any(map(_is_text, (node.left, node.right))):
            self.between(node.left, node.right, *ARITHMETIC[type(node.op)], "operator")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, right, op in zip(sides, sides[1:], node.ops, strict=False):
            self.between(left, right, *TURNED[type(op)], "comparison")
            if type(op) in SHIFTED and any(map(_is_whole, (left, right))):
                self.between(left, right, *SHIFTED[type(op)], "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, old, new, "logic")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.USub, ast.Not)):
            kind = "sign" if isinstance(node.op, ast.USub) else "logic"
            self.put(node, f"({self.text(node.operand)})", kind)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value, new = node.value, ""
        if isinstance(value, bool):
            new = str(not value)
        elif isinstance(value, int):
            new = str(value + 1)
        elif isinstance(value, float) and value == 0.0:
            new = "1.0"
        elif isinstance(value, float) and abs(value) > SMALL:
            new = repr(float(f"{1.1 * value:.12g}"))
        if new:
            self.put(node, new, "constant")

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in EXCHANGED:
            self.note(self.end(node.func) - len(name), self.end(node.func), EXCHANGED[name], "function")
        if name in DROPPED and len(node.args) == 1 and not node.keywords:
            self.put(node, f"({self.text(node.args[0])})", "function")
        if name not in COMMUTING and not any(isinstance(value, ast.Starred) for value in node.args):
            self.exchange(node.args, "arguments")
        self.generic_visit(node)

    def exchange(self, parts: list[ast.expr], kind: str) -> None:
        """Exchange the first two of several parts."""
        if len(parts) > 1 and self.text(parts[0]) != self.text(parts[1]):
            first, gap, second = self.text(parts[0]), (self.end(parts[0]), self.start(parts[1])), self.text(parts[1])
            new = second + self.source[gap[0] : gap[1]].decode() + first
            self.note(self.start(parts[0]), self.end(parts[1]), new, kind)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_whole(node: ast.expr) -> bool:
    """A whole number, a length or a size."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") == "len"
    return isinstance(node, ast.Attribute) and node.attr in {"size", "ndim"}
