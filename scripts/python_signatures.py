"""Signatures of functions and classes as text, from their syntax trees."""

import ast
import re
from functools import cache

from python_sources import PACKAGE, Function, find_classes, parse_module

_WIDTH = 88


def format_constructor(name: str, constructor: Function) -> str:
    return _wrap(name, list_arguments(constructor), "")


def format_signature(name: str, function: Function) -> str:
    prefix = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
    return _wrap(
        f"{prefix}{name}", list_arguments(function), f" -> {format_annotation(function.returns)}"
    )


def _wrap(name: str, arguments: list[str], end: str) -> str:
    line = f"{name}({', '.join(arguments)}){end}"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{inner}){end}"


def list_arguments(function: Function) -> list[str]:
    """Return the parameters as text, without `self`."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    shown = []
    for index, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        shown.append(_argument(argument, default))
        is_last = index == len(given.posonlyargs) - 1
        if is_last and argument.arg != "self":
            shown.append("/")
    keywords = list_keywords(function)
    if given.vararg:
        shown.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs or keywords:
        shown.append("*")
    shown += map(_argument, given.kwonlyargs, given.kw_defaults)
    if keywords:
        shown += keywords
    elif given.kwarg:
        shown.append(f"**{_argument(given.kwarg, None)}")
    return [each for each in shown if each not in {"self", "cls"}]


def list_keywords(function: Function) -> list[str]:
    """Return the members of the TypedDict in `**options: Unpack[…]`, inherited ones first."""
    keywords = function.args.kwarg
    annotation = format_annotation(keywords.annotation) if keywords else ""
    found = re.fullmatch(r"Unpack\[(\w+)\]", annotation)
    return _members(found[1]) if found else []


def _members(typed_dict: str) -> list[str]:
    if typed_dict == "TypedDict":
        return []
    body = _sdk_classes()[typed_dict]
    inherited = [each for base in body.bases for each in _members(ast.unparse(base))]
    fields = [each for each in body.body if isinstance(each, ast.AnnAssign)]
    return [*inherited, *map(_member, fields)]


def _member(field: ast.AnnAssign) -> str:
    """Return the option with its default: None if it may be None, or that of the setting."""
    text = format_annotation(field.annotation)
    name = ast.unparse(field.target)
    is_optional = text.endswith("| None") or text in {"Any", "Dedupe", "Json"}
    default = "None" if is_optional else {**_DEFAULTS, **_setting_defaults()}.get(name)
    return f"{name}: {text}" + (f" = {default}" if default else "")


# Defaults of options that are computed in code.
_DEFAULTS = {"key": "function.__name__", "open": "False"}


@cache
def _setting_defaults() -> dict[str, str]:
    """Return the defaults of definition settings by name; durations without their unit."""
    fields = _sdk_classes()["DefinitionSettings"].body
    return {
        ast.unparse(each.target).removesuffix("_s"): ast.unparse(each.value).replace("'", '"')
        for each in fields
        if isinstance(each, ast.AnnAssign) and each.value is not None
    }


@cache
def _sdk_classes() -> dict[str, ast.ClassDef]:
    modules = [f"sdk.{path.stem}" for path in (PACKAGE / "sdk").glob("*.py")]
    return {name: body for module in modules for name, body in find_classes(module).items()}


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {format_annotation(argument.annotation)}" if argument.annotation else ""
    if default is None:
        return f"{argument.arg}{kind}"
    value = _constants().get(ast.unparse(default), ast.unparse(default)).replace("'", '"')
    return f"{argument.arg}{kind}{' = ' if kind else '='}{value}"


@cache
def _constants() -> dict[str, str]:
    """Return the values of constants that are defaults of parameters."""
    modules = ["sdk.outcome_exceptions"]
    modules += [f"calls.{path.stem}" for path in (PACKAGE / "calls").glob("*.py")]
    return {
        ast.unparse(each.targets[0]): ast.unparse(each.value)
        for module in modules
        for each in parse_module(module).body
        if isinstance(each, ast.Assign)
    }


def format_annotation(annotation: ast.expr | None) -> str:
    """Return the annotation as text, with forward references out of their quotes."""
    if annotation is None:
        return "None"
    return re.sub(r"'([A-Z][\w.\[\], |]*)'", r"\1", ast.unparse(annotation)).replace("'", '"')


def format_fields(body: ast.ClassDef) -> str:
    """Return the constructor of a dataclass."""
    fields = [each for each in body.body if isinstance(each, ast.AnnAssign)]
    return _wrap(body.name, [ast.unparse(each) for each in fields], "")
