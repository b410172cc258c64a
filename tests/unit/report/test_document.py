import pytest

from spectune.report.document import Table


def test_a_row_of_another_length_is_our_own_bug() -> None:
    with pytest.raises(AssertionError, match="a cell per column"):
        Table(head=("a", "b"), rows=(("1",),))
