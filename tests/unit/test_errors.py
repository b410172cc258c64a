import inspect

import pytest

from spectune import errors


@pytest.mark.parametrize(
    "kind",
    [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind is not errors.SpectuneError],
)
def test_every_error_is_in_the_tree_of_the_docstring(kind: type[errors.SpectuneError]) -> None:
    assert issubclass(kind, errors.SpectuneError)
    assert kind.__name__ in (errors.__doc__ or "")


def test_bad_input_exits_with_2_and_failed_work_with_1() -> None:
    assert (
        errors.ConfigError.exit_status,
        errors.StoreError.exit_status,
        errors.LaunchError.exit_status,
    ) == (2, 1, 1)
