"""Faults of the field: what servers write when they refuse is understood, and the wait they ask for is kept."""

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.wires import MemoryTransport, outcome
from treadle import Failure
from treadle.loop.retry import delay_of
from treadle.models import RetryPolicy
from treadle_adapters.http.failures import failure_of_error, read_response
from treadle_adapters.http.refusal_table import GENERAL, TABLE
from treadle_adapters.http.waits import seconds_of, wait_of_headers
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.models.openai_responses import OpenAIResponses
from treadle_cli import main

FIELD = Path(__file__).parent / "field"
MODELS: dict[str, type[HTTPModel]] = {
    "openai-chat": OpenAIChat,
    "openai-responses": OpenAIResponses,
    "anthropic": Anthropic,
}


def cases(name: str) -> list[dict[str, Any]]:
    return json.loads((FIELD / name).read_text())


def now_filled_in(value: Any) -> Any:
    """The moments that a recorded body leaves open, counted from now."""
    if isinstance(value, dict):
        return {key: now_filled_in(inner) for key, inner in value.items()}
    moments = {
        "<epoch ms, 2 s from now>": str(int((time.time() + 2) * 1000)),
        "<epoch ms, 15 h from now>": str(int((time.time() + 54_000) * 1000)),
        "<RFC 3339, 3 s from now>": (datetime.now(UTC) + timedelta(seconds=3)).isoformat(),
    }
    return moments.get(value, value) if isinstance(value, str) else value


async def refused(case: dict[str, Any]) -> Failure:
    content = json.dumps(now_filled_in(case["body"])).encode()
    headers = {"Content-Type": "application/json", **now_filled_in(case.get("headers", {}))}
    transport = MemoryTransport([content], case["status"], headers)
    async with MODELS[case["protocol"]]("http://a.test", transport=transport) as model:
        got = await outcome(model)
    assert got.failure is not None
    return got.failure


def read(status: int, body: Any, headers: dict[str, str] | None = None) -> Failure:
    return read_response(status, headers or {}, json.dumps(body).encode(), body).failure


def delay(failure: Failure) -> float | None:
    return delay_of(RetryPolicy(), 0, failure, 0.5)


# --- too long ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q7", "Q14")
@pytest.mark.parametrize("case", cases("overflow.json"), ids=lambda case: case["server"])
async def test_c3_a_prompt_that_is_too_long_is_recognised_and_not_tried_again(case: dict[str, Any]) -> None:
    failure = await refused(case)
    assert failure.code == "CONTEXT_WINDOW_EXCEEDED"
    assert delay(failure) is None


@pytest.mark.rule("Q7", "Q14")
@pytest.mark.parametrize("case", cases("sentences.json"))
def test_c3_c4_a_sentence_means_the_same_in_every_shape_of_body(case: dict[str, Any]) -> None:
    text, status = case["message"], case["status"]
    quoted = {"raw": json.dumps({"error": {"message": text}}), "provider_name": "p"}
    for body in (
        {"error": {"message": text, "type": "invalid_request_error"}},
        {"error": text},
        {"code": "Client specified an invalid argument", "error": text},
        {"detail": text},
        {"type": "error", "error": {"type": "invalid_request_error", "message": text}},
        [{"error": {"code": status, "message": text, "status": "X"}}],
        {"error": {"message": "Provider returned error", "code": status, "metadata": quoted}},
    ):
        assert read(status, body).code == case["code"], body


@pytest.mark.rule("Q7", "Q14")
@pytest.mark.parametrize(
    ("limit", "used", "requested", "code"),
    [("6000", "0", "9000", "CONTEXT_WINDOW_EXCEEDED"), ("30,000", "28939", "1,281", "RATE_LIMIT"),
     ("6000", "5000", "6000", "RATE_LIMIT")],
)  # fmt: skip
@pytest.mark.parametrize("status", [413, 429])
def test_c3_a_request_beyond_its_limit_per_minute_is_not_waited_for(
    limit: str, used: str, requested: str, code: str, status: int
) -> None:
    text = f"Rate limit on tokens per minute (TPM): Limit {limit}, Used {used}, Requested {requested}. Try again in 2s."
    assert read(status, {"error": {"message": text, "type": "tokens", "code": "rate_limit_exceeded"}}).code == code


# --- come back later, never today -------------------------------------------------------------------------------------


@pytest.mark.rule("Q6", "Q14")
@pytest.mark.parametrize("case", cases("reset-hints.json"), ids=lambda case: case["server"])
async def test_c4_the_wait_is_read_wherever_it_is_told(case: dict[str, Any]) -> None:
    failure = await refused(case)
    if case["wait"].startswith("terminal"):
        assert delay(failure) is None
        assert failure.retry_after == pytest.approx(54_000, abs=60)
        assert "come back in 15 h, at 20" in failure.message
    else:
        asked = {"a gateway that tells in the body": 2.0, "OpenAI": 1.5, "Anthropic": 3.0}[case["server"]]
        assert failure.retry_after == pytest.approx(asked, abs=1.5)
        assert delay(failure) is not None


GEMINI = "You exceeded your current quota, please check your plan and billing details. Please retry in 4.07s."


def gemini(period: str) -> list[dict[str, Any]]:
    violation = {"quotaMetric": "m", "quotaId": f"GenerateRequestsPer{period}PerProjectPerModel-FreeTier"}
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "4s"},
    ]
    return [{"error": {"code": 429, "message": GEMINI, "status": "RESOURCE_EXHAUSTED", "details": details}}]


@pytest.mark.rule("Q6", "Q14")
@pytest.mark.parametrize(
    ("status", "body", "headers", "code", "seconds"),
    [
        (429, gemini("Minute"), {}, "RATE_LIMIT", 4.0), (429, gemini("Day"), {}, "QUOTA", None),
        (429, {"error": {"message": "Rate limit reached. Please try again in 1m2.5s."}}, {}, "RATE_LIMIT", 62.5),
        (429, {"error": {"message": "Please wait 3 seconds before retrying."}}, {}, "RATE_LIMIT", 3.0),
        (429, {"error": {"message": "Please retry after 6 seconds."}}, {"retry-after-ms": "20"}, "RATE_LIMIT", 0.02),
        (429, {"error": {"message": "m", "retry_after": 2.5}}, {}, "RATE_LIMIT", 2.5),
        (429, {"error": {"type": "usage_limit_reached", "message": "m", "resets_in_seconds": 7200}}, {}, "QUOTA", 7200.0),
        (429, {}, {"x-ratelimit-reset-requests-day": "33011.5", "x-ratelimit-remaining-requests-day": "0",
                   "x-ratelimit-reset-tokens-minute": "11.5", "x-ratelimit-remaining-tokens-minute": "5"}, "RATE_LIMIT",
         33011.5),
        (429, {}, {"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-reset-requests": "120ms"}, "RATE_LIMIT", 0.12),
        (429, {}, {"x-ratelimit-reset": "7"}, "RATE_LIMIT", 7.0), (429, {}, {"ratelimit-reset": "8"}, "RATE_LIMIT", 8.0),
        (429, {}, {"ratelimit": '"default";r=0;t=9'}, "RATE_LIMIT", 9.0),
        (429, {}, {"ratelimit": "limit=10, remaining=0, reset=5"}, "RATE_LIMIT", 5.0),
        (500, {}, {"x-ratelimit-reset-requests": "60s"}, "SERVER", None),
        (503, {"error": {"message": "overloaded", "retryDelay": "2s"}}, {}, "SERVER", 2.0),
        (200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, {}, "QUOTA", None),
        (400, {"error": {"message": "m", "code": "1302"}}, {}, "RATE_LIMIT", None),
        (429, {"error": {"message": "m", "code": "1113"}}, {}, "QUOTA", None),
    ],
)  # fmt: skip
def test_c4_what_a_server_asks_for_is_told_by_code_and_wait(
    status: int, body: Any, headers: dict[str, str], code: str, seconds: float | None
) -> None:
    failure = read(status, body, headers)
    assert (failure.code, failure.retry_after) == (code, seconds)


@pytest.mark.rule("Q14")
def test_c4_the_day_on_which_access_comes_back_is_read_from_the_sentence() -> None:
    until = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%d at %H:%M UTC")
    text = f"You have reached your specified API usage limits. You will regain access on {until}."
    failure = read(400, {"type": "error", "error": {"type": "invalid_request_error", "message": text}})
    assert (failure.code, delay(failure)) == ("QUOTA", None)
    assert failure.retry_after == pytest.approx(30 * 86_400, abs=120)
    assert "come back in 30 d" in failure.message


@pytest.mark.rule("Q14")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1.5", 1.5), ("1.5s", 1.5), ("1m30.5s", 90.5), ("2h3m4s", 7384.0), ("120ms", 0.12), ("1d", 86_400.0),
        ("PT34S", 34.0), ("5 minutes", 300.0), ("1 hour and 30 minutes", 5400.0), ("1000000003", 3.0),
        ("1000000003000", 3.0), ("1000000003000000", 3.0), ("2001-09-09T01:46:43Z", 3.0),
        ("2001-09-09T03:46:43+02:00", 3.0), ("2001-09-09T01:46:43.123456789Z", 3.123456),
        (formatdate(1_000_000_003, usegmt=True), 3.0), ("999999000", 0.0), ("soon", None), ("", None), ("s", None),
        ("-1", None), ("1x", None), ("9" * 500, None), ("2001-99-99T00:00:00Z", None),
    ],
)  # fmt: skip
def test_c4_a_wait_is_read_in_every_unit(text: str, seconds: float | None) -> None:
    if text == "999999000":
        text = "2001-09-09T01:00:00Z"  # passed
    assert seconds_of(text, 1_000_000_000.0) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.rule("Q14")
def test_c4_a_reset_of_a_limit_that_has_something_left_is_not_waited_for() -> None:
    assert wait_of_headers({"x-ratelimit-reset-tokens": "5s", "x-ratelimit-remaining-tokens": "100"}) is None


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "piece", ["exceeds the ", "context ", "limit 1 requested ", "try again in 1h", "per day limit "]
)
def test_c3_hostile_sentences_and_bodies_cost_little(piece: str) -> None:
    nested: Any = {"message": piece * 100_000}
    for _ in range(100):
        nested = {"error": nested, "details": [nested] * 3}
    before = time.process_time()
    failure_of_error({"message": piece * 100_000})
    failure_of_error(nested)
    assert time.process_time() - before < 2.0


def test_every_row_of_the_table_says_where_it_was_seen_and_has_a_name_of_its_own() -> None:
    rows = [*TABLE, *GENERAL]
    assert all([row.seen and (row.words or row.says) for row in rows])
    assert len({row.name for row in rows}) == len(rows)
    words = [word for row in rows for word in row.words]
    assert len(words) == len(set(words))


# --- treadle models --explain -----------------------------------------------------------------------------------------


@pytest.mark.rule("Q14")
def test_explain_says_what_a_body_would_be_taken_for_and_which_row_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "--explain", str(FIELD / "overflow.json")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("CONTEXT_WINDOW_EXCEEDED") == len(cases("overflow.json"))
    assert "LM Studio, openai-chat" in shown
    raw = tmp_path / "raw.json"
    raw.write_text('{"error": {"message": "Rate limit reached. Please try again in 1.5s."}}')
    assert main(["models", "--explain", str(raw), "--status", "429", "--protocol", "openai-chat"]) == 0
    shown = capsys.readouterr().out
    for line in ("code      RATE_LIMIT", "retry     yes, after 1.5 s", "wait      1.5 s, told by the message"):
        assert line in shown
    raw.write_text("<html>bad gateway</html>")
    assert main(["models", "--explain", str(raw), "--status", "502"]) == 0
    assert "code      SERVER" in capsys.readouterr().out


def test_explain_refuses_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--explain", str(tmp_path / "none.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["models", "--status", "429"]) == 2
    assert "--explain FILE" in capsys.readouterr().err
