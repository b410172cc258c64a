"""A YAML file of arguments (`--config FILE` of SGLang and vLLM) as the words the engines make of it. Pure.

Both read a flat mapping: true becomes a switch, false nothing, a list several words, a mapping its JSON.
"""

import json

import yaml

from spectune.errors import ConfigError


def file_arguments(text: str, path: str) -> tuple[tuple[str, ...], ...]:
    r"""One flag with its values per key, in the file's order.

    Raises:
        ConfigError: not YAML, or not a mapping.

    >>> file_arguments("port: 1\nenable-metrics: true\nspeculative-config: {method: mtp}", "c.yaml")
    (('--port', '1'), ('--enable-metrics',), ('--speculative-config', '{"method": "mtp"}'))
    """
    try:
        found: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(
            f"{path}: `the file is YAML` must hold, got: {' '.join(str(error).split())}."
        ) from None
    if found is None:
        return ()
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ConfigError(f"{path}: `the file maps flags to values` must hold, got {text[:60]!r}.")
    return tuple(words for key, value in found.items() for words in _words(f"--{key}", value))


def _words(flag: str, value: object) -> tuple[tuple[str, ...], ...]:
    if isinstance(value, bool):
        return ((flag,),) if value else ()
    if isinstance(value, list):
        return ((flag, *(str(item) for item in value)),) if value else ()
    if isinstance(value, dict):
        return ((flag, json.dumps(value)),)
    return ((flag, str(value)),)
