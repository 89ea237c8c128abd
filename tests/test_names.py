"""One name, one thing: no public class or type alias of the package is defined in two modules."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "kokoro_server"
CAP_WORDS = re.compile(r"[A-Z][A-Z0-9]*[a-z][A-Za-z0-9]*")
TYPE_PARAMETERS = ("TypeVar", "ParamSpec", "TypeVarTuple", "NewType")


def public_types(module: ast.Module) -> Iterator[str]:
    """The classes and CapWords aliases at the top of a module, without type parameters."""
    for statement in module.body:
        match statement:
            case ast.ClassDef(name=name) if not name.startswith("_"):
                yield name
            case ast.Assign(value=ast.Call(func=ast.Name(id=made))) if made in TYPE_PARAMETERS:
                continue
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if (
                CAP_WORDS.fullmatch(name)
            ):
                yield name


def test_every_public_type_has_one_meaning() -> None:
    modules = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in public_types(ast.parse(path.read_text(encoding="utf-8"))):
            modules[name].append(str(path.relative_to(PACKAGE)))
    assert len(modules) > 500
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def test_what_counts_as_a_public_type() -> None:
    source = (
        "class A: ...\nclass _B: ...\nT = TypeVar('T')\nPair = tuple[int, int]\nMAX = 1\nOne: Alias = int\nRate = x()"
    )
    assert list(public_types(ast.parse(source))) == ["A", "Pair", "One", "Rate"]
