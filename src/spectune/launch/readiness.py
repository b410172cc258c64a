"""Waits until a server gives a real generation, or says why it does not.

An HTTP 200 of some endpoint is not readiness: servers answer `/health` while they load or hang.
"""

from collections.abc import Callable
from dataclasses import dataclass

from spectune.clock import Clock
from spectune.domain.command import HttpRequest
from spectune.errors import EngineExited, EngineNotReady, ProtocolError, ServerUnreachable
from spectune.launch.http_probe import HttpAnswer, fetch
from spectune.launch.launcher import RunningServer

_POLL_S = 0.1
_LEAST_PROBE_S = 1.0  # a last probe cut short would say nothing of the server
_MAX_GARBAGE = 3
_REFUSED = (400, 401, 403, 404, 405, 422)  # will not change by waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationProbe:
    """How to ask for a real generation, handed in by whoever knows the dialect.

    Attributes:
        models: asks for the served models.
        read_model: its answer → the model's name; raises ProtocolError.
        generation: the model's name → a tiny generation.
        read_generation: its answer → output tokens; raises ProtocolError.
    """

    models: HttpRequest
    read_model: Callable[[str], str]
    generation: Callable[[str], HttpRequest]
    read_generation: Callable[[str], int]


def wait_until_ready(
    server: RunningServer, probe: GenerationProbe, *, deadline_s: float, clock: Clock
) -> str:
    """Polls until a generation succeeds; the served model's name.

    Args:
        server: just started.
        probe: how to ask.
        deadline_s: seconds from now.
        clock: source of time.

    Raises:
        EngineExited: the process ended.
        EngineNotReady: no generation in time, or the server refuses it.
        ProtocolError: its answers cannot be read, several times in a row.
    """
    give_up_s = clock.monotonic_s() + deadline_s
    garbage = 0
    last = "nothing listens yet"
    while (left_s := give_up_s - clock.monotonic_s()) > 0:
        status = server.exit_status()
        if status is not None:
            raise EngineExited(f"the server ended with status {status} before its first generation.")
        try:
            return _generate(server, probe, max(left_s, _LEAST_PROBE_S))
        except ServerUnreachable as error:
            last = str(error)
        except _NotYet as error:
            last = str(error)
        except ProtocolError as error:
            last, garbage = str(error), garbage + 1
            if garbage >= _MAX_GARBAGE:
                raise
        clock.sleep(_POLL_S)
    raise EngineNotReady(f"`a real generation within {deadline_s:g} s` must come, got none; last: {last}")


class _NotYet(Exception):
    """An answer that may become better by waiting."""


def _generate(server: RunningServer, probe: GenerationProbe, timeout_s: float) -> str:
    model = probe.read_model(_ask(server, probe.models, timeout_s))
    probe.read_generation(_ask(server, probe.generation(model), timeout_s))
    return model


def _ask(server: RunningServer, request: HttpRequest, timeout_s: float) -> str:
    answer: HttpAnswer = fetch(server.endpoint, request, timeout_s=timeout_s)
    if answer.status == 200:
        return answer.body
    said = f"{request.method} {request.path}: HTTP {answer.status}: {answer.body.strip()[:200]}"
    if answer.status in _REFUSED:
        raise EngineNotReady(f"the server refuses the probe: {said}")
    raise _NotYet(said)
