"""Configurations as dictionaries and TOML: strict in, complete out.

Reading refuses unknown keys, wrong types and unknown kinds, and says what is known.  A
table that may be one of several dataclasses names which by its key ``kind``.  The kind
of a schedule or forgetting rule may also be the import path of a user's class,
"module:Name", whose settings are the rest of the table; and that of a schedule the
path of a function.
"""

import copy
import functools
import inspect
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np

from driftrl.drift.schedules import SCHEDULES, Schedule
from driftrl.errors import DriftrlError, InputError, require, shown, unknown_name
from driftrl.memory.forgetting import FORGETTING, ForgettingRule
from driftrl.plugins import load_object, path_of

T = TypeVar("T")
_LARGEST = 2**63  # TOML's integers, and numpy's
_DEEPEST = 50  # tables and lists within each other


class _Open(NamedTuple):
    """A field that also holds users' objects."""

    known: Mapping[str, type]
    """What comes with driftrl, by kind."""
    method: str
    """What a user's class must have."""


_OPEN: dict[Any, _Open] = {
    ForgettingRule: _Open(FORGETTING, "first_retained"),
    Schedule: _Open(SCHEDULES, "__call__"),
}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields; Any where a user's is not defined."""
    try:
        hints = typing.get_type_hints(cls)
    except NameError:
        hints = {}
    return {item.name: hints.get(item.name, Any) for item in fields(cls) if item.init}


def to_dict(config: Any) -> dict[str, Any]:
    """Return a dataclass as nested dictionaries, with ``kind`` where it has one."""
    row = {"kind": config.kind} if hasattr(config, "kind") else {}
    for name, hint in _hints(type(config)).items():
        row[name] = _plain(hint, getattr(config, name))
    return row


def _plain(hint: Any, value: Any) -> Any:
    if hint in _OPEN:
        return _open_table(_OPEN[hint], value)
    if is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple):
        inner = (get_args(hint) or (Any,))[0]
        return [_plain(inner, item) for item in value]
    return value


def _open_table(field: _Open, value: Any) -> dict[str, Any]:
    """Return the table of a rule or schedule, which may be a user's."""
    cls = type(value)
    if field.known.get(getattr(value, "kind", "")) is cls:
        return to_dict(value)
    if hasattr(value, "__qualname__"):  # a function
        return {"kind": path_of(value)}
    path = path_of(cls)
    if is_dataclass(value):
        settings = to_dict(value)
    else:
        public = {k: v for k, v in vars(value).items() if not k.startswith("_")}
        settings = {name: _plain(Any, item) for name, item in public.items()}
        try:
            inspect.signature(cls).bind(**settings)
        except TypeError as error:
            raise InputError(
                f"{path} can't be saved with a run: it would be made again as "
                f"{cls.__name__}({', '.join(f'{name}=…' for name in settings)}), and "
                f"{error}. Make it a dataclass, or name the arguments of __init__ like "
                "its attributes; other attributes start with an underscore."
            ) from None
    settings.pop("kind", None)
    return {"kind": path, **{k: _storable(path, k, v) for k, v in settings.items()}}


def _storable(path: str, name: str, value: Any) -> Any:
    """Return a user's setting as TOML can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple) and None not in value:
        return [_storable(path, name, item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _storable(path, name, item) for key, item in value.items()}
    require(
        value is None or isinstance(value, bool | int | float | str),
        f"{path} can't be saved with a run: its setting {name} is {shown(value)}. Use "
        "numbers, texts, and lists or dicts of them; attributes that are not settings "
        "start with an underscore.",
    )
    return value


def from_dict(cls: type[T], table: Mapping[str, Any], place: str = "") -> T:
    """Build a dataclass from nested dictionaries; every key must be a field."""
    hints = _hints(cls)
    values = {}
    for key, value in table.items():
        if key == "kind" and hasattr(cls, "kind"):
            continue
        where = f"{place}.{key}" if place else key
        if key not in hints:
            known = [f"{place}.{name}" if place else name for name in hints]
            raise unknown_name("configuration key", where, known)
        values[key] = _convert(hints[key], value, where)
    missing = [
        name
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.default is parameter.empty and name not in values
    ]
    table_name = f"The table {place!r}" if place else "The configuration"
    require(not missing, f"{table_name} is incomplete: it needs {', '.join(missing)}.")
    return cls(**values)


def overridden(config: T, changes: Mapping[str, Any]) -> T:
    """Return ``config`` with ``changes``; a new ``kind`` starts from its defaults."""
    return from_dict(type(config), merged(to_dict(config), changes))


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` laid over it, table by table."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            same_kind = value.get("kind", old.get("kind")) == old.get("kind")
            result[key] = merged(old, value) if same_kind else dict(value)
        else:
            result[key] = value
    return result


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Return ``value`` as the type ``hint``, or say why it is not one."""
    origin = get_origin(hint)
    if hint in _OPEN:
        return _open_member(_OPEN[hint], value, where)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(hint), value, where)
    if origin is Literal:
        if value not in get_args(hint):
            raise unknown_name(f"value of {where}:", value, get_args(hint))
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong_type(where, "a list", value)
        return tuple(_convert(get_args(hint)[0], item, where) for item in value)
    if origin is dict or is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise _wrong_type(where, "a table", value)
        table: Any = hint
        return dict(value) if origin is dict else from_dict(table, value, where)
    return _scalar(hint, value, where)


def _one_of(options: tuple[Any, ...], value: Any, where: str) -> Any:
    kinds = {option.kind: option for option in options if hasattr(option, "kind")}
    if not kinds:
        if value is None:
            return None
        return _convert(next(o for o in options if o is not type(None)), value, where)
    kind = _kind(value, kinds, where)
    if kind not in kinds:
        raise unknown_name(f"kind of {where}", kind, kinds)
    return from_dict(kinds[kind], value, where)


def _kind(value: Any, known: Mapping[str, Any], where: str) -> str:
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(kind, str):
        raise InputError(
            f"{where} must be a table with the key 'kind', one of {', '.join(known)}; "
            f"received {shown(value)}."
        )
    return kind


def _open_member(field: _Open, value: Any, where: str) -> Any:
    """Build a rule or schedule that comes with driftrl or is a user's."""
    if not isinstance(value, str | Mapping) and callable(
        getattr(value, field.method, None)
    ):
        return value  # the object itself, from Python
    table = {"kind": value} if isinstance(value, str) else value
    kind = _kind(table, field.known, where)
    if kind in field.known:
        return from_dict(field.known[kind], table, where)
    if ":" not in kind:
        raise unknown_name(f"kind of {where}", kind, [*field.known, "module:Name"])
    settings = {key: item for key, item in table.items() if key != "kind"}
    cls = load_object(kind)
    if not isinstance(cls, type):
        require(
            callable(cls) and field.method == "__call__" and not settings,
            f"{where} = {kind!r} is {shown(cls)}. It must be a class with a method "
            f"{field.method}; a schedule may also be a function, without settings.",
        )
        return cls
    require(
        any(field.method in vars(base) for base in cls.__mro__),
        f"{where} = {kind!r} is a class without a method {field.method}.",
    )
    try:
        return from_dict(cls, settings, where) if is_dataclass(cls) else cls(**settings)
    except DriftrlError:
        raise
    except Exception as error:
        raise InputError(
            f"{where} = {kind!r} can't be made with {shown(settings)}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _scalar(hint: Any, value: Any, where: str) -> Any:
    wanted = {float: "a number", int: "a whole number", bool: "true or false"}
    if hint not in (float, int, bool, str):
        return value  # of a user's class, which checks it
    if hint is str and inspect.isfunction(value):  # such as a bonus
        return path_of(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        fits = not isinstance(value, int) or abs(value) < _LARGEST
        require(fits, f"{where} must be less than 2^63, received {shown(value)}.")
        if hint is float:
            return float(value)
        if hint is int and math.isfinite(value) and value == int(value):
            return int(value)
    raise _wrong_type(where, wanted.get(hint, "a text"), value)


def _wrong_type(where: str, wanted: str, value: Any) -> InputError:
    return InputError(f"{where} must be {wanted}, received {shown(value)}.")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a missing or malformed one is an ``InputError``."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        require(_depth(table) <= _DEEPEST, f"{path} is nested too deeply.")
        return table
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:  # also a number too long to read, a NUL in the path
        raise InputError(f"{path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply.") from None


def _depth(value: Any) -> int:
    """Return how many tables and lists are within each other."""
    inner = value.values() if isinstance(value, dict) else value
    nested = (_depth(item) for item in inner if isinstance(item, dict | list))
    return 1 + max(nested, default=0)


def toml_text(table: Mapping[str, Any]) -> str:
    """Return nested dictionaries as TOML: plain keys first, then one table each."""
    return "\n".join(_toml_lines(table, "")) + "\n"


def _toml_lines(table: Mapping[str, Any], prefix: str) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping | None)}
    lines = [_toml_pair(key, value) for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, Mapping):
            name = f"{prefix}{_toml_key(key)}"
            lines += ["", f"[{name}]", *_toml_lines(value, f"{name}.")]
    return lines


def _toml_pair(key: str, value: Any) -> str:
    return f"{_toml_key(key)} = {_toml_value(value)}"


def _toml_key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        pairs = (_toml_pair(k, v) for k, v in value.items() if v is not None)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for one control character it leaves alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


# Keys of older versions: their new names, and options that there are no more, with the
# value that was used.
_RENAMED = {
    "also": "extra_drifts",
    "environment.steps": "sim_steps",
    "agent.imagination.steps": "horizon",
    "agent.learning.least_transitions": "learning_starts",
    "agent.sac.batch": "batch_size",
    "agent.sac.target_rate": "tau",
}
_REMOVED = {
    "environment.machine": 0,
    "environment.specimen": 0,
    "agent.imagination.placement": "reward",
    "forgetting.index": "algorithm",
    "forgetting.rule.index": "algorithm",
    "forgetting.first_epoch": 1,
    "forgetting.rule.first_epoch": 1,
}


def upgraded(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's settings with the keys of older versions renamed or left out."""
    config = copy.deepcopy(dict(table))
    for path in (*_RENAMED, *_REMOVED):
        *tables, key = path.split(".")
        section: Any = config
        for name in tables:
            section = section.get(name) if isinstance(section, dict) else None
        if not isinstance(section, dict) or key not in section:
            continue
        if path in _RENAMED:
            section[_RENAMED[path]] = section.pop(key)
        elif section[key] == _REMOVED[path]:
            del section[key]
    match config:  # of a Gaussian process it stays
        case {"agent": {"kind": "ensemble", "optimism": {"theory": _} as optimism}}:
            del optimism["theory"]
    if config.get("clock") == "decisions":
        config["clock"] = "steps"
    return config
