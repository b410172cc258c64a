import json
from dataclasses import replace

from spectune.cli.kept_container import KeptContainer
from spectune.cli.service_options import ContainerPlace
from spectune.cli.tune_options import parse_tune_options
from spectune.cli.wiring import begin_study
from spectune.engines.sglang import SglangAdapter
from spectune.launch.container_text import read_container
from spectune.launch.docker_service import DockerService
from spectune.launch.local_host import LocalHost
from spectune.testing.fake_docker import inspected

SERVE = ("python3", "-m", "sglang.launch_server", "--model-path", "m", "--speculative-algorithm", "NEXTN")


def test_every_arm_of_a_container_has_what_must_not_differ_and_its_secrets() -> None:
    options = parse_tune_options(["--docker", "llm", "--num-steps", "0,1", "--concurrency", "1,64"])
    terms = options.service
    assert terms is not None
    assert isinstance(terms.place, ContainerPlace)
    container = read_container(json.dumps([inspected("llm", SERVE, env=("HF_TOKEN=hf_abc", "A=1"))]))
    kept = KeptContainer(
        terms=terms,
        place=terms.place,
        service=DockerService(LocalHost(), "llm"),
        container=container,
        adapter=SglangAdapter(),
        before="",
    )
    prepared = kept.fit(begin_study(replace(options, command=kept.command.argv), {}))
    assert prepared.study.command.argv == SERVE
    assert prepared.command.argv == (*SERVE, "--enable-metrics", "--max-running-requests", "64")
    assert prepared.command.env == (("HF_TOKEN", "hf_abc"),)
    assert any("--max-running-requests 64" in note for note in prepared.notes)
