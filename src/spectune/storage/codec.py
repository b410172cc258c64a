"""Rows to domain values and back. The only place of storage that knows shapes of JSON and blobs."""

import dataclasses
import json
import struct
import types
import typing
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from spectune.domain.measurement import ToolCall
from spectune.errors import StoreError

V = TypeVar("V")


def to_json(value: object) -> str:
    """JSON text of a domain dataclass, fields by name."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"not a dataclass: {value!r}")
    return json.dumps(dataclasses.asdict(value), ensure_ascii=False, separators=(",", ":"))


def from_json(kind: type[V], text: str) -> V:
    """The domain value of class `kind` written by `to_json`.

    Fields the text lacks take their defaults (older rows); unknown fields are an error.

    Raises:
        StoreError: the text does not describe a `kind`.
    """
    try:
        value: V = _decode(kind, json.loads(text))
    except (ValueError, TypeError, KeyError) as exc:
        raise StoreError(
            f"stored {kind.__name__}: `a row must decode to its value`, got {exc}; the store is damaged "
            "or was written by another version."
        ) from exc
    return value


def pack_floats(values: tuple[float, ...]) -> bytes:
    """Eight little-endian bytes a value; exact.

    >>> unpack_floats(pack_floats((0.1, 2.5)))
    (0.1, 2.5)
    """
    return struct.pack(f"<{len(values)}d", *values)


def unpack_floats(blob: bytes) -> tuple[float, ...]:
    """The values of `pack_floats`."""
    return struct.unpack(f"<{len(blob) // 8}d", blob)


def pack_ints(values: tuple[int, ...]) -> bytes:
    """Four little-endian bytes a value, 0 to 2³² − 1."""
    return struct.pack(f"<{len(values)}I", *values)


def unpack_ints(blob: bytes) -> tuple[int, ...]:
    """The values of `pack_ints`."""
    return struct.unpack(f"<{len(blob) // 4}I", blob)


def pack_calls(calls: tuple[ToolCall, ...]) -> str:
    """JSON text of tool calls, each [name, arguments].

    >>> unpack_calls(pack_calls((ToolCall(name="add", arguments='{"a": 1}'),)))
    (ToolCall(name='add', arguments='{"a": 1}'),)
    """
    return json.dumps([[call.name, call.arguments] for call in calls], ensure_ascii=False)


def unpack_calls(text: str) -> tuple[ToolCall, ...]:
    """The calls of `pack_calls`; raises StoreError."""
    try:
        pairs = _decode(tuple[tuple[str, str], ...], json.loads(text))
    except (ValueError, TypeError) as exc:
        raise StoreError(
            f"stored tool calls: `a row must decode to its value`, got {exc}; the store is damaged."
        ) from exc
    return tuple(ToolCall(name=name, arguments=arguments) for name, arguments in pairs)


def _decode(hint: Any, raw: Any) -> Any:
    if isinstance(hint, typing.NewType):
        return _decode(hint.__supertype__, raw)
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(hint, raw)
    origin = get_origin(hint)
    if origin is tuple:
        return _decode_tuple(get_args(hint), raw)
    if origin in (Union, types.UnionType):
        return _decode_optional(get_args(hint), raw)
    if origin is Literal:
        if raw not in get_args(hint):
            raise ValueError(f"{raw!r} is not one of {get_args(hint)}")
        return raw
    return _decode_plain(hint, raw)


def _decode_dataclass(kind: Any, raw: Any) -> Any:
    if not isinstance(raw, dict):
        raise TypeError(f"{kind.__name__} from {type(raw).__name__}")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(raw) - set(hints))
    if unknown:
        raise ValueError(f"unknown fields {unknown} of {kind.__name__}")
    return kind(**{name: _decode(hints[name], part) for name, part in raw.items()})


def _decode_tuple(args: tuple[Any, ...], raw: Any) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise TypeError(f"a list was expected, got {type(raw).__name__}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], part) for part in raw)
    if len(args) != len(raw):
        raise ValueError(f"{len(args)} parts were expected, got {len(raw)}")
    return tuple(_decode(arg, part) for arg, part in zip(args, raw, strict=True))


def _decode_optional(args: tuple[Any, ...], raw: Any) -> Any:
    if raw is None and types.NoneType in args:
        return None
    inner = [arg for arg in args if arg is not types.NoneType]
    if len(inner) != 1:
        raise TypeError(f"cannot choose among {inner}")
    return _decode(inner[0], raw)


def _decode_plain(hint: Any, raw: Any) -> Any:
    if hint is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if not isinstance(raw, hint) or (hint is int and isinstance(raw, bool)):
        raise TypeError(f"{hint.__name__} from {raw!r}")
    return raw
