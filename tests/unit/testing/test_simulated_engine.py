from spectune.testing.simulated_engine import SimulatedEngine


def test_the_best_setting_changes_with_concurrency() -> None:
    engine = SimulatedEngine()
    assert engine.best_num_steps("eagle", 1) > engine.best_num_steps("eagle", 32)
