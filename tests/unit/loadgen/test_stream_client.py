import json

from spectune.domain.endpoint import Endpoint
from spectune.domain.workload import PlannedRequest
from spectune.loadgen.stream_client import LoadTarget, streamed_body

ENDPOINT = Endpoint(host="127.0.0.1", port=1)


def sent(target: LoadTarget, body: dict[str, object]) -> dict[str, object]:
    request = PlannedRequest(index=0, path="/v1/completions", body=json.dumps(body), max_tokens=1)
    parsed = json.loads(streamed_body(request, target))
    assert isinstance(parsed, dict)
    return parsed


def test_streaming_usage_and_the_served_model_are_added() -> None:
    body = sent(LoadTarget(endpoint=ENDPOINT, model="m"), {"prompt": "ä", "model": "other"})
    assert body == {
        "prompt": "ä",
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def test_a_server_that_refuses_continuous_usage_is_not_asked_for_it() -> None:
    body = sent(LoadTarget(endpoint=ENDPOINT, model="", has_continuous_usage=False), {"prompt": "x"})
    assert body["stream_options"] == {"include_usage": True}
    assert "model" not in body
