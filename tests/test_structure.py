"""The habits a reader relies on, enforced: tests mirror the source, sizes are bounded, imports flow."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "spectune"
UNIT = ROOT / "tests" / "unit"
MAX_FUNCTION_LINES = 60
MAX_CLASS_LINES = 200
LARGER_CLASSES = {  # each an exception to be taken back, with its own limit
    "testing/simulated_front.py: SimulatedServer": 240,
}
MAX_FILE_LINES = 400

WITHOUT_UNIT_TEST = {
    # Protocols and plain values: nothing to run.
    "planning/planner.py": "protocol",
    "perfmodel/arrays.py": "names of types",
    "storage/store.py": "protocol",
    "engines/adapter.py": "protocol; tests/contract runs it over every dialect",
    "launch/launcher.py": "protocol; tests/contract runs it over every launcher",
    "launch/host.py": "protocol and a value",
    # Kept servers: only a real systemd proves them.
    "launch/host_scripts.py": "tests/service",
    "launch/systemd_service.py": "tests/service",
    "launch/systemd_launcher.py": "tests/service, tests/contract",
    "launch/unit_lease.py": "tests/service",
    "launch/give_back.py": "tests/service",
    "launch/service_session.py": "tests/service",
    "launch/ssh_host.py": "tests/service",
    "launch/adoption.py": "tests/service/test_tune_unit.py, tests/unit/launch/test_docker_session.py",
    "launch/docker_scripts.py": "tests/unit/launch/test_docker_session.py",
    "launch/docker_service.py": "tests/unit/launch/test_docker_session.py",
    "launch/docker_launcher.py": "tests/unit/launch/test_docker_session.py, tests/contract",
    "testing/fake_docker.py": "used by tests/unit/launch/test_docker_session.py",
    "testing/docker_rig.py": "used by tests/unit/launch/test_docker_session.py",
    "tuning/progress.py": "protocol",
    "domain/environment.py": "a value without rules",
    "domain/shortlist.py": "a value without rules",
    "domain/trial.py": "values without rules",
    # Parts of a whole that is tested as one.
    "storage/rows.py": "tests/unit/storage/test_sqlite_store.py",
    "storage/connection.py": "tests/unit/storage/test_sqlite_store.py",
    "storage/sqlite_writer.py": "tests/unit/storage/test_sqlite_store.py",
    # The embedded engine's parts that only make sense together.
    "cpu_engine/api_server.py": "tests/e2e/test_serve.py, as a real process",
    "cpu_engine/front.py": "tests/e2e/test_serve.py, as a real process",
    "cpu_engine/worker.py": "tests/e2e/test_serve.py, as a real process",
    "cpu_engine/messages.py": "values; tests/e2e/test_serve.py",
    "cpu_engine/options.py": "values; tests/unit/cpu_engine/test_command.py",
    "cpu_engine/batch.py": "tests/unit/cpu_engine/test_engine.py",
    "cpu_engine/decoder.py": "tests/unit/cpu_engine/test_engine.py",
    "cpu_engine/slots.py": "tests/unit/cpu_engine/test_engine.py",
    "cpu_engine/model_config.py": "tests/unit/cpu_engine/test_weights.py",
    "cpu_engine/graph_builder.py": "tests/unit/cpu_engine/test_target.py",
    "cpu_engine/layers.py": "tests/unit/cpu_engine/test_target.py",
    "cpu_engine/target_graph.py": "tests/unit/cpu_engine/test_target.py",
    "cpu_engine/draft_graph.py": "tests/unit/cpu_engine/test_drafter.py",
    # The command line: tests/e2e runs it as a user does.
    "cli/main.py": "tests/e2e",
    "cli/tune.py": "tests/e2e",
    "cli/show.py": "tests/e2e",
    "cli/serve.py": "tests/e2e",
    "cli/wiring.py": "tests/e2e",
    "cli/output.py": "tests/e2e",
    "cli/interruption.py": "tests/e2e",
    "cli/apply.py": "tests/service",
    "cli/restore.py": "tests/service",
    "cli/kept_server.py": "tests/service",
    "launch/persistent.py": "tests/service",
    "cli/machine.py": "tests/e2e",
    "cli/streams.py": "tests/e2e/test_streams.py",
    # Fakes and values for tests.
    "testing/recording.py": "used all over the tests",
    "testing/study_values.py": "used all over the tests",
    "testing/simulation.py": "used all over the tests",
    "testing/proved_study.py": "used by tests/unit/report",
    "testing/records.py": "used all over the tests",
    "testing/simulated_front.py": "tests/unit/testing/test_simulated_server.py",
    "testing/result_schema.py": "tests/unit/report/test_study_json.py",
    "testing/store_dump.py": "a tool for tests/stores",
    "testing/systemd_box.py": "used by tests/service",
    "testing/ssh_box.py": "used by tests/service",
    "testing/user_box.py": "used by tests/service",
    "testing/standin_server.py": "used by tests/service",
    "testing/service_rig.py": "used by tests/service",
    "testing/kill_driver.py": "used by tests/service",
}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if not path.name.startswith("__"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_every_module_has_a_unit_test_or_a_reason_to_have_none() -> None:
    tested = {
        f"{path.parent.relative_to(UNIT).as_posix()}/{path.name.removeprefix('test_')}".removeprefix("./")
        for path in UNIT.rglob("test_*.py")
    }
    missing = [name_of(path) for path in modules() if name_of(path) not in tested | set(WITHOUT_UNIT_TEST)]
    assert missing == []


def test_no_reason_outlives_its_module() -> None:
    names = {name_of(path) for path in modules()}
    assert sorted(set(WITHOUT_UNIT_TEST) - names) == []


def test_every_module_says_what_it_is_in_its_first_line() -> None:
    silent = [
        name_of(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert silent == []


def oversized() -> Iterator[str]:
    for path in modules():
        text = path.read_text("utf-8")
        if text.count("\n") > MAX_FILE_LINES:
            yield f"{name_of(path)}: {text.count(chr(10))} lines"
        for node in ast.walk(ast.parse(text)):
            length = (getattr(node, "end_lineno", 0) or 0) - getattr(node, "lineno", 0) + 1
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length > MAX_FUNCTION_LINES:
                yield f"{name_of(path)}: {node.name}: {length} lines"
            if isinstance(node, ast.ClassDef) and length > _class_limit(path, node.name):
                yield f"{name_of(path)}: class {node.name}: {length} lines"


def _class_limit(path: Path, name: str) -> int:
    return LARGER_CLASSES.get(f"{name_of(path)}: {name}", MAX_CLASS_LINES)


def test_files_classes_and_functions_stay_small() -> None:
    assert list(oversized()) == []


def test_imports_flow_one_way() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import spectune", ["numpy", "scipy", "onnx", "onnxruntime", "tokenizers", "aiohttp", "rich"]),
        (
            "import spectune.cli.main",
            ["numpy", "scipy", "onnx", "onnxruntime", "tokenizers", "aiohttp", "rich"],
        ),
        ("import spectune.cli.tune, spectune.cli.show", ["onnx", "onnxruntime", "tokenizers", "torch"]),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(statement: str, heavy: list[str]) -> None:
    script = f"{statement}\nimport sys\nprint([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
