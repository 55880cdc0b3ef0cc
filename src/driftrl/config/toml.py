"""Configurations as dictionaries and TOML: strict in, complete out.

Reading refuses unknown keys, wrong types and unknown kinds, and says what is known.
A table that may be one of several dataclasses (a schedule, a forgetting rule) names
which by its key ``kind``.
"""

import copy
import json
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from driftrl.errors import InputError, require, unknown_name

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """Return a dataclass as nested dictionaries, with ``kind`` where it has one."""
    row = {"kind": config.kind} if hasattr(config, "kind") else {}
    for item in fields(config):
        row[item.name] = _plain(getattr(config, item.name))
    return row


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def from_dict(cls: type[T], table: Mapping[str, Any], place: str = "") -> T:
    """Build a dataclass from nested dictionaries; every key must be a field."""
    hints = typing.get_type_hints(cls)
    names = [item.name for item in fields(cls)]  # pyright: ignore[reportArgumentType]
    values = {}
    for key, value in table.items():
        if key == "kind" and hasattr(cls, "kind"):
            continue
        where = f"{place}.{key}" if place else key
        if key not in names:
            raise unknown_name("configuration key", where, _paths(place, names))
        values[key] = _convert(hints[key], value, where)
    missing = [name for name in _required(cls) if name not in values]
    table_name = f"The table {place!r}" if place else "The configuration"
    require(not missing, f"{table_name} is incomplete: it needs {', '.join(missing)}.")
    return cls(**values)


def _required(cls: type) -> list[str]:
    """Return the fields that have no default."""
    return [
        item.name
        for item in fields(cls)
        if item.init and item.default is MISSING and item.default_factory is MISSING
    ]


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


def _paths(place: str, names: list[str]) -> list[str]:
    return [f"{place}.{name}" if place else name for name in names]


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Return ``value`` as the type ``hint``, or say why it is not one."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(hint), value, where)
    if origin is Literal:
        if value not in get_args(hint):
            raise unknown_name(f"value of {where}:", str(value), get_args(hint))
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong_type(where, "a list", value)
        return tuple(_convert(get_args(hint)[0], item, where) for item in value)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _wrong_type(where, "a table", value)
        return dict(value)
    if is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise _wrong_type(where, "a table", value)
        return from_dict(hint, value, where)  # pyright: ignore[reportArgumentType]
    return _scalar(hint, value, where)


def _one_of(options: tuple[Any, ...], value: Any, where: str) -> Any:
    kinds = {option.kind: option for option in options if hasattr(option, "kind")}
    if not kinds:
        if value is None:
            return None
        return _convert(next(o for o in options if o is not type(None)), value, where)
    if not isinstance(value, Mapping) or "kind" not in value:
        raise InputError(
            f"{where} must be a table with the key 'kind', one of "
            f"{', '.join(kinds)}; received {value!r}."
        )
    if value["kind"] not in kinds:
        raise unknown_name(f"kind of {where}", str(value["kind"]), kinds)
    return from_dict(kinds[value["kind"]], value, where)


def _scalar(hint: type, value: Any, where: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and is_number:
        return float(value)
    if hint is int and is_number and value == int(value):
        return int(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    wanted = {float: "a number", int: "a whole number", bool: "true or false"}
    raise _wrong_type(where, wanted.get(hint, "a text"), value)


def _wrong_type(where: str, wanted: str, value: Any) -> InputError:
    return InputError(f"{where} must be {wanted}, received {value!r}.")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a missing or malformed one is an ``InputError``."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from None


def toml_text(table: Mapping[str, Any]) -> str:
    """Return nested dictionaries as TOML: plain keys first, then one table each."""
    return "\n".join(_toml_lines(table, "")) + "\n"


def _toml_lines(table: Mapping[str, Any], prefix: str) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping)}
    lines = [f"{key} = {_toml_value(v)}" for key, v in plain.items() if v is not None]
    for key, value in table.items():
        if isinstance(value, Mapping):
            name = f"{prefix}{key}"
            lines += ["", f"[{name}]", *_toml_lines(value, f"{name}.")]
    return lines


def _toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{k} = {_toml_value(v)}" for k, v in value.items())
        return "{ " + inside + " }"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for one control character it leaves alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


# Keys of version 0.1.0 and what they are called since: (table, old) -> new.
_RENAMED = {
    ((), "also"): "extra_drifts",
    (("environment",), "steps"): "sim_steps",
    (("environment",), "machine"): "specimen",
    (("agent", "imagination"), "steps"): "horizon",
    (("agent", "learning"), "least_transitions"): "learning_starts",
    (("agent", "sac"), "batch"): "batch_size",
    (("agent", "sac"), "target_rate"): "tau",
}


def upgraded(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's settings with the keys of version 0.1.0 renamed."""
    config = copy.deepcopy(dict(table))
    for (path, old), new in _RENAMED.items():
        section: Any = config
        for name in path:
            section = section.get(name, {}) if isinstance(section, dict) else {}
        if isinstance(section, dict) and old in section:
            section[new] = section.pop(old)
    if config.get("clock") == "decisions":
        config["clock"] = "steps"
    return config
