import pytest

from spectune.domain.command import Command
from spectune.launch.visible_gpus import Visible, is_visible, visible_gpus


@pytest.mark.parametrize(
    ("argv", "env", "visible"),
    [
        (("vllm", "serve", "m"), (), None),
        (("env", "CUDA_VISIBLE_DEVICES=1", "vllm", "serve", "m"), (), ("1",)),
        (("env", "CUDA_VISIBLE_DEVICES=1", "env", "CUDA_VISIBLE_DEVICES=2,3", "vllm"), (), ("2", "3")),
        (
            ("bash", "-c", "cd /; CUDA_VISIBLE_DEVICES='0, 1' x; CUDA_VISIBLE_DEVICES=\"3\" exec vllm"),
            (),
            ("3",),
        ),
        (("docker", "run", "-e", "CUDA_VISIBLE_DEVICES=GPU-0a,GPU-1b", "i"), (), ("GPU-0a", "GPU-1b")),
        (("vllm",), (("CUDA_VISIBLE_DEVICES", "5"),), ("5",)),
        (("env", "CUDA_VISIBLE_DEVICES=", "vllm"), (), ()),
        (("env", "CUDA_VISIBLE_DEVICES=-1", "vllm"), (), ()),
        (("env", "CUDA_VISIBLE_DEVICES=MIG-0a0a", "vllm"), (), None),
        (("env", "NOT_CUDA_VISIBLE_DEVICES=4", "vllm"), (), None),
        (("bash", "-c", "CUDA_VISIBLE_DEVICES=$GPU exec vllm serve m"), (), None),
        (("bash", "-c", 'CUDA_VISIBLE_DEVICES="${GPU:-0}" exec vllm serve m'), (), None),
        (("bash", "-c", "CUDA_VISIBLE_DEVICES=$(free_one 2) exec vllm"), (), None),
        (("bash", "-c", "CUDA_VISIBLE_DEVICES=0$MORE exec vllm"), (), None),
        (("bash", "-c", "CUDA_VISIBLE_DEVICES='0, 1' exec vllm"), (), ("0", "1")),
        (("bash", "-c", "CUDA_VISIBLE_DEVICES=2 exec vllm"), (), ("2",)),
        (("bash", "-c", "export CUDA_VISIBLE_DEVICES=2;exec vllm"), (), ("2",)),
        (("bash", "-c", "CUDA_VISIBLE_DEVICES= exec vllm"), (), ()),
        (("bash", "-c", "CUDA_VISIBLE_DEVICES='' exec vllm"), (), ()),
        (("bash", "-c", "docker run -e 'CUDA_VISIBLE_DEVICES=0, 1' --name 'x' i"), (), ("0", "1")),
        (("env", "CUDA_VISIBLE_DEVICES=0, 1", "vllm"), (), ("0", "1")),
        (("env", "CUDA_VISIBLE_DEVICES=all", "vllm"), (), None),
        (("env", "CUDA_VISIBLE_DEVICES=\u0661", "vllm"), (), None),
        (("env", "CUDA_VISIBLE_DEVICES=0,,1", "vllm"), (), None),
    ],
)
def test_the_commands_own_variable_decides(
    argv: tuple[str, ...], env: tuple[tuple[str, str], ...], visible: Visible
) -> None:
    command = Command(argv=argv, env=env)
    assert visible_gpus(command, {}) == visible
    assert visible_gpus(command, {"CUDA_VISIBLE_DEVICES": "7"}) == (
        visible if "CUDA_VISIBLE_DEVICES" in str((argv, env)) and "NOT_" not in str(argv) else ("7",)
    )


def test_a_gpu_is_named_by_index_or_the_beginning_of_its_uuid() -> None:
    assert is_visible(None, 3, "")
    assert not is_visible((), 0, "GPU-0a")
    assert is_visible(("1", "2"), 2, "GPU-0a")
    assert not is_visible(("1", "2"), 0, "GPU-1")
    assert is_visible(("GPU-0A1",), 0, "GPU-0a1b")
    assert not is_visible(("GPU-0a1",), 0, "")
