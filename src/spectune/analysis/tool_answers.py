"""Whether the calls of tools that an answer made are ones its request allowed. Pure.

A call is valid where its function is one of those offered, its arguments are a JSON object, and every name
the function's schema requires is among them. Types of values are not checked.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from spectune.domain.measurement import RequestRecord, ToolCall

Offered = Mapping[str, frozenset[str]]
"""Names that a function's arguments must have, by function."""


def offered_tools(body: Mapping[str, object]) -> Offered:
    """The functions that a request's body offers, in the form of `tools` or the older one of `functions`."""
    tools, older = body.get("tools"), body.get("functions")
    functions = [tool.get("function") for tool in _objects(tools)] + list(_objects(older))
    return {
        name: _required(function)
        for function in _objects(functions)
        if isinstance(name := function.get("name"), str)
    }


def count_calls(records: Iterable[RequestRecord], offered: Mapping[int, Offered]) -> tuple[int, int]:
    """Valid calls, and calls in all, of whole answers to requests that offer tools.

    Args:
        records: answers.
        offered: what each request offers, by index.
    """
    checks = [
        is_valid_call(call, offered[record.index])
        for record in records
        if record.is_ok and record.finish_reason != "length" and record.index in offered
        for call in record.tool_calls or ()
    ]
    return sum(checks), len(checks)


def alike_kept(
    ours: Sequence[RequestRecord], offs: Sequence[RequestRecord], offered: Mapping[int, Offered]
) -> tuple[list[RequestRecord], list[RequestRecord]]:
    """Both sides without the answers to offered tools whose calls were kept on one side only.

    Studies of older versions kept no calls; one that was resumed has both kinds.
    """
    is_kept = [{record.index: record.tool_calls is not None for record in side} for side in (ours, offs)]
    unlike = {index for index in offered if is_kept[0].get(index) is not is_kept[1].get(index)}
    both = unlike & set(is_kept[0]) & set(is_kept[1])
    return [one for one in ours if one.index not in both], [one for one in offs if one.index not in both]


def ends_in_calls(record: RequestRecord, offered: Offered) -> bool:
    """Whether the answer is calls, all of them valid; where none were kept, whether it says it ended so."""
    if record.tool_calls is None:
        return record.finish_reason == "tool_calls"
    return bool(record.tool_calls) and all(is_valid_call(call, offered) for call in record.tool_calls)


def is_valid_call(call: ToolCall, offered: Offered) -> bool:
    """Whether a request that offers these functions allows the call.

    >>> is_valid_call(ToolCall(name="add", arguments='{"a": 1}'), {"add": frozenset({"a", "b"})})
    False
    """
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(arguments, dict) and call.name in offered and offered[call.name] <= set(arguments)


def _required(function: Mapping[str, object]) -> frozenset[str]:
    schema = function.get("parameters")
    names = schema.get("required") if isinstance(schema, dict) else None
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
    )


def _objects(found: object) -> Iterable[Mapping[str, object]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
