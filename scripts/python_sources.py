"""The package's sources as syntax trees, for scripts that describe it without importing it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jobforge"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_methods(body: ast.ClassDef) -> dict[str, Function]:
    """Return the methods by name; of overloads, the implementation."""
    return {each.name: each for each in body.body if isinstance(each, Function)}


@cache
def exports(package: str) -> set[str]:
    """Return `__all__` of a package."""
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    for each in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__":
            return set(ast.literal_eval(each.value))
    raise ValueError(path)


@cache
def read_source(module: str) -> str:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")


@cache
def parse_module(module: str) -> ast.Module:
    return ast.parse(read_source(module))


def find_classes(module: str) -> dict[str, ast.ClassDef]:
    return {each.name: each for each in parse_module(module).body if isinstance(each, ast.ClassDef)}


def find_functions(module: str) -> dict[str, Function]:
    return {each.name: each for each in parse_module(module).body if isinstance(each, Function)}
