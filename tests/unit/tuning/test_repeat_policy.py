from spectune.tuning.repeat_policy import RepeatPolicy


def test_repeats_are_given_up_after_two_in_a_row_that_did_not_help() -> None:
    policy = RepeatPolicy()
    policy.note(helped=False)
    assert policy.is_worthwhile
    policy.note(helped=False)
    assert not policy.is_worthwhile


def test_quiet_again_means_worthwhile_again() -> None:
    policy = RepeatPolicy()
    for helped in (False, False, True):
        policy.note(helped=helped)
    assert policy.is_worthwhile
