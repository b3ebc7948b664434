"""Every way in which an endpoint refuses or fails becomes one failure with a code; no credential shows."""

import base64
import json
import logging
import traceback
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import httpx
import pytest
import trio

from tests.adapters.wires import MemoryTransport, Outcome, outcome, request
from treadle import Failure, MisuseError, ModelFailure
from treadle.models import Code, RetryPolicy
from treadle_adapters.http.credentials import Credential
from treadle_adapters.http.endpoint import Endpoint, user_agent
from treadle_adapters.http.failures import failure_of_error, map_exceptions
from treadle_adapters.http.redaction import redact
from treadle_adapters.http.refusals import code_of_status
from treadle_adapters.http.waits import LONGEST, retry_after
from treadle_adapters.models.openai_chat import OpenAIChat

URL = "http://provider.test/v1"
JSON = {"Content-Type": "application/json"}


async def refused(status: int, body: Any = None, headers: dict[str, str] | None = None, **options: Any) -> Outcome:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    transport = MemoryTransport([content] if content else [], status, JSON | (headers or {}))
    async with OpenAIChat(URL, transport=transport, **options) as model:
        got = await outcome(model)
    assert transport.closed == 1
    return got


def failure(got: Outcome) -> Failure:
    assert got.failure is not None
    return got.failure


# --- statuses and words -----------------------------------------------------------------------------------------------


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (301, "INVALID_REQUEST"), (307, "INVALID_REQUEST"), (400, "INVALID_REQUEST"), (401, "INVALID_CREDENTIAL"),
        (402, "QUOTA"), (403, "INVALID_CREDENTIAL"), (404, "INVALID_REQUEST"), (405, "INVALID_REQUEST"),
        (408, "TIMEOUT"), (409, "SERVER"), (413, "CONTEXT_WINDOW_EXCEEDED"), (415, "INVALID_REQUEST"),
        (422, "INVALID_REQUEST"), (425, "SERVER"), (429, "RATE_LIMIT"), (451, "CONTENT_FILTER"), (500, "SERVER"),
        (501, "SERVER"), (502, "SERVER"), (503, "SERVER"), (504, "TIMEOUT"), (520, "SERVER"), (522, "TIMEOUT"),
        (524, "TIMEOUT"), (529, "SERVER"), (599, "SERVER"),
    ],
)  # fmt: skip
async def test_each_http_status_has_its_code(status: int, code: str) -> None:
    got = failure(await refused(status, {"error": {"message": "no"}}))
    assert (got.code, got.status) == (code, status)
    assert got.message == f"HTTP {status}: no"


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (429, {"message": "m", "type": "insufficient_quota", "code": "insufficient_quota"}, "QUOTA"),
        (429, {"message": "m", "type": "tokens", "code": "rate_limit_exceeded"}, "RATE_LIMIT"),
        (400, {"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded"},
         "CONTEXT_WINDOW_EXCEEDED"),
        (400, {"message": "m", "type": "exceed_context_size_error", "code": 400}, "CONTEXT_WINDOW_EXCEEDED"),
        (400, {"message": "m", "code": "content_filter"}, "CONTENT_FILTER"),
        (400, {"message": "m", "type": "billing_error"}, "QUOTA"),
        (401, {"message": "m", "type": "invalid_request_error", "code": None}, "INVALID_CREDENTIAL"),
        (400, {"message": "m", "code": "invalid_api_key"}, "INVALID_CREDENTIAL"),
        (500, {"message": "m", "type": "invalid_request_error"}, "SERVER"),
        (503, {"message": "Loading model", "type": "unavailable_error", "code": 503}, "SERVER"),
        (400, {"message": "This model's maximum context length is 4096 tokens", "type": "BadRequestError", "code": 400},
         "CONTEXT_WINDOW_EXCEEDED"),
        (500, {"message": "maximum context length", "type": "server_error"}, "SERVER"),
    ],
)  # fmt: skip
async def test_what_the_provider_writes_under_code_or_type_says_more_than_the_status(
    status: int, error: dict[str, Any], code: str
) -> None:
    assert failure(await refused(status, {"error": error})).code == code


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ({"message": "upstream gone", "code": 502}, "SERVER", "upstream gone (502)"),
        ({"message": "slow down", "code": "429"}, "RATE_LIMIT", "slow down (429)"),
        ({"message": "m", "type": "server_error"}, "SERVER", "server_error"),
        ({"message": "m", "code": True}, "UNKNOWN", "reports: m"),
        ("backend exploded", "UNKNOWN", "backend exploded"),
        ({"error": "plain"}, "UNKNOWN", "plain"),
        ({"error": {"message": "inner", "type": "overloaded_error"}}, "SERVER", "inner"),
        ({"detail": [{"loc": ["body"], "msg": "field required"}]}, "UNKNOWN", "field required"),
        ({"code": 400}, "INVALID_REQUEST", "without a message"),
        ({"message": "x" * 5_000}, "UNKNOWN", "xxx"),
        ({"message": "m", "code": "y" * 5_000}, "UNKNOWN", "reports: m"),
        (None, "UNKNOWN", "without a message"),
        (5, "UNKNOWN", "5"),
    ],
)
def test_an_error_inside_a_stream_has_a_code_without_a_status(error: Any, code: str, words: str) -> None:
    got = failure_of_error(error)
    assert (got.code, got.status) == (code, None)
    assert words in got.message
    assert len(got.message) <= 2_000


@pytest.mark.rule("Q5", "N8")
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"<html>\n <h1>Bad  gateway</h1>", "<html> <h1>Bad gateway</h1>"),
        (b"", "no body"),
        (b'[{"error": {"message": "in a list"}}]', "in a list"),
        (b'"text"', '"text"'),
        (b"\xff\xfe junk", "junk"),
        (b"x" * 100_000, "xxx…"),
    ],
)
async def test_an_error_shows_the_beginning_of_a_body_that_is_no_json_object(body: bytes, shown: str) -> None:
    got = failure(await refused(502, body))
    assert shown in got.message
    assert len(got.message) < 400


async def test_a_redirect_is_not_followed_and_says_what_to_correct() -> None:
    got = failure(await refused(308, b"", {"Location": "https://elsewhere.test/"}))
    assert "correct the base URL" in got.message


@pytest.mark.rule("Q5")
@pytest.mark.parametrize("header", ["x-request-id", "request-id"])
async def test_a_failure_names_the_providers_request(header: str) -> None:
    assert failure(await refused(500, {}, {header: "req_1"})).request_id == "req_1"
    transport = MemoryTransport([b'data: {"error": "x"}\n\n'], headers={header: "req_2"})
    async with OpenAIChat(URL, transport=transport) as model:
        assert failure(await outcome(model)).request_id == "req_2"


async def test_a_request_id_that_cannot_be_shown_is_left_out() -> None:
    assert failure(await refused(500, {}, {"x-request-id": "r\x1b[31m"})).request_id is None


@pytest.mark.rule("Q8")
async def test_an_error_whose_body_never_comes_is_reported_by_its_status(
    autojump_clock: trio.testing.MockClock,
) -> None:
    transport = MemoryTransport([b"half"], 503, after="hold")
    async with OpenAIChat(URL, transport=transport) as model:
        got = failure(await outcome(model))
    assert (got.code, got.message) == ("SERVER", "HTTP 503: half")
    assert trio.current_time() == pytest.approx(10.0)


async def test_an_error_whose_body_breaks_off_is_reported_by_its_status() -> None:
    transport = MemoryTransport([b"half"], 503, after="abort")
    async with OpenAIChat(URL, transport=transport) as model:
        assert failure(await outcome(model)).code == "SERVER"


@pytest.mark.rule("X3")
async def test_no_more_of_an_errors_body_is_read_than_is_needed() -> None:
    read = 0

    pieces = [b"x" * 10_000] * 1_000

    class Pieces(list[bytes]):
        def __iter__(self):
            nonlocal read
            for piece in pieces:
                read += 1
                yield piece

    transport = MemoryTransport(Pieces(), 500)
    async with OpenAIChat(URL, transport=transport) as model:
        assert failure(await outcome(model)).code == "SERVER"
    assert read < 20


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"<html>bad gateway</html>", "MALFORMED_RESPONSE", "<html>bad gateway</html>"),
        (b'{"error": {"message": "model not loaded", "type": "server_error"}}', "SERVER", "model not loaded"),
        (b'{"message": "no such route"}', "UNKNOWN", "no such route"),
        (b'{"detail": "Not Found"}', "UNKNOWN", "Not Found"),
        (b'{"hello": 1}', "MALFORMED_RESPONSE", '{"hello": 1}'),
        (b'{"choices": []}', "MALFORMED_RESPONSE", "choices"),
        (b'{"choices": [{"message": {"content": "x"}}]}', "MALFORMED_RESPONSE", "choices"),
        (b"[1, 2]", "MALFORMED_RESPONSE", "[1, 2]"),
        (b"{broken", "MALFORMED_RESPONSE", "{broken"),
        (b"Service Unavailable", "EMPTY_RESPONSE", "Service Unavailable"),
        (b'error: {"message": "odd"}\n\n', "EMPTY_RESPONSE", "odd"),
        (b"event: error\ndata: not json\n\n", "UNKNOWN", "not json"),
        (b'data: {"object": "error", "message": "too busy", "code": 503}\n\n', "SERVER", "too busy"),
        (b'data: {"choices": [{"delta": {}, "error": {"message": "cut", "code": 502}}]}\n\n', "SERVER", "cut"),
        (b'data: {"choices": [{"delta": {}, "finish_reason": "error"}]}\n\n', "SERVER", "'error'"),
    ],
)
async def test_a_success_that_is_no_answer_is_never_an_empty_success(body: bytes, code: str, words: str) -> None:
    got = failure(await refused(200, body))
    assert got.code == code
    assert words in got.message


# --- how long to wait -------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0), ({"retry-after": " 7 "}, 7.0), ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, 0.0), ({"retry-after": "-3"}, None), ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None), ({}, None), ({"retry-after": "inf"}, None), ({"retry-after": "nan"}, None),
        ({"retry-after": "1_0"}, None), ({"retry-after": "1e3"}, None), ({"retry-after": "٣"}, None),
        ({"retry-after": "9" * 400}, LONGEST), ({"retry-after": "99999999999"}, LONGEST),
        ({"retry-after-ms": "1500"}, 1.5), ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": formatdate(5_000, usegmt=True), "date": formatdate(4_980, usegmt=True)}, 20.0),
        ({"retry-after": "Mon, 99 Foo 2020"}, None), ({"retry-after": "Mon, 01 Jan 99999 00:00:00 GMT"}, None),
        ({"retry-after": "x" * 1000}, None),
    ],
)  # fmt: skip
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=1_000_000.0) == seconds


@pytest.mark.rule("Q5")
async def test_a_failure_says_how_long_the_provider_asks_to_wait() -> None:
    assert failure(await refused(429, {}, {"Retry-After": "3.5"})).retry_after == 3.5
    later = formatdate(trio.current_time() + 4e9, usegmt=True)
    assert failure(await refused(429, {}, {"Retry-After": later})).retry_after == LONGEST


# --- exceptions -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx.ConnectError("refused"), Code.TRANSPORT), (httpx.ReadError(""), Code.TRANSPORT),
        (httpx.RemoteProtocolError("bad"), Code.TRANSPORT), (httpx.ProxyError("no"), Code.TRANSPORT),
        (httpx.ReadTimeout("slow"), Code.TIMEOUT), (httpx.PoolTimeout("slow"), Code.TIMEOUT),
        (httpx.DecodingError("gzip"), Code.MALFORMED_RESPONSE), (httpx.UnsupportedProtocol("x"), Code.INVALID_REQUEST),
        (httpx.InvalidURL("x"), Code.INVALID_REQUEST), (httpx.LocalProtocolError("x"), Code.INVALID_REQUEST),
        (httpx.StreamClosed(), Code.TRANSPORT), (trio.BrokenResourceError(), Code.TRANSPORT),
        (trio.ClosedResourceError(), Code.TRANSPORT), (ConnectionResetError(104, "reset"), Code.TRANSPORT),
    ],
)  # fmt: skip
def test_each_exception_of_the_transport_has_its_code(error: Exception, code: Code) -> None:
    with pytest.raises(ModelFailure) as caught, map_exceptions("http://a.test"):
        raise error
    assert caught.value.failure.code == code.value
    assert caught.value.failure.message.startswith("http://a.test: ")


def test_other_exceptions_pass_the_seam_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), map_exceptions("http://a.test"):
        _ = 1 / 0


@pytest.mark.rule("Q7")
async def test_an_endpoint_that_cannot_be_reached_is_a_transport_failure() -> None:
    with trio.socket.socket() as held:  # bound but not listening
        await held.bind(("127.0.0.1", 0))
        async with OpenAIChat(f"http://127.0.0.1:{held.getsockname()[1]}") as model:
            got = failure(await outcome(model))
    assert got.code == "TRANSPORT"
    assert "127.0.0.1" in got.message


@pytest.mark.parametrize(("status", "code"), [(200, Code.MALFORMED_RESPONSE), (999, Code.SERVER)])
def test_even_a_strange_status_has_a_code(status: int, code: Code) -> None:
    assert code_of_status(status) is code


def test_the_default_policy_retries_and_none_makes_failures_terminal() -> None:
    assert OpenAIChat(URL).retry_policy == RetryPolicy()
    assert OpenAIChat(URL, retry_policy=None).retry_policy is None


# --- credentials ------------------------------------------------------------------------------------------------------

KEY = "sk-very-secret-0123456789"
LOGIN = base64.b64encode(b"user:pass-word-1").decode()


@pytest.mark.rule("Q7")
async def test_a_variable_that_is_not_set_is_a_missing_credential_and_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    transport = MemoryTransport()
    async with OpenAIChat(URL, api_key_env="SOME_KEY", transport=transport) as model:
        got = failure(await outcome(model))
        assert got.code == "MISSING_CREDENTIAL"
        assert "SOME_KEY" in got.message
        assert transport.requests == []
        monkeypatch.setenv("SOME_KEY", f"{KEY}\n")
        await outcome(model)
    assert transport.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.rule("Q7", "X1")
@pytest.mark.parametrize("key", ["sk-с-кириллицей", "sk-with\nnewline-inside", "sk with space"])
async def test_a_key_that_no_header_can_carry_is_an_invalid_credential_and_is_not_shown(key: str) -> None:
    async with OpenAIChat(URL, api_key=key, transport=MemoryTransport()) as model:
        got = failure(await outcome(model))
    assert got.code == "INVALID_CREDENTIAL"
    assert key not in got.message


@pytest.mark.rule("Q7")
async def test_an_empty_key_is_a_missing_credential() -> None:
    async with OpenAIChat(URL, api_key=" ", transport=MemoryTransport()) as model:
        assert (await outcome(model)).code == "MISSING_CREDENTIAL"


async def test_no_key_means_no_authorization() -> None:
    transport = MemoryTransport()
    async with OpenAIChat(URL, transport=transport) as model:
        await outcome(model)
    assert "authorization" not in transport.requests[0].headers


def test_a_key_and_a_variable_cannot_both_be_given() -> None:
    with pytest.raises(MisuseError, match="not both"):
        OpenAIChat(URL, api_key=KEY, api_key_env="X")


def echoing(asked: httpx.Request) -> httpx.Response:
    """A server that repeats everything it was sent."""
    told = json.dumps({"error": {"message": f"Incorrect API key: {asked.headers} {asked.url}"}})
    return httpx.Response(401, text=told, headers={"x-request-id": asked.headers["authorization"][7:]})


def breaking(asked: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(f"could not send {dict(asked.headers)}")


@pytest.mark.rule("X1")
@pytest.mark.parametrize("handler", [echoing, breaking])
async def test_credentials_are_in_no_error_repr_traceback_or_log(
    handler: Callable[[httpx.Request], httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = "http://user:pass-word-1@provider.test/v1?key=query-secret"
    headers = {"X-Team-Token": "team-token-77"}
    model = OpenAIChat(url, api_key=KEY, headers=headers, transport=httpx.MockTransport(handler))
    shown = [repr(model), str(model)]
    with pytest.raises(ModelFailure) as caught:
        async for _ in model.stream(request()):
            pass
    error = caught.value
    shown += [str(error), repr(error), repr(error.failure), "".join(traceback.format_exception(error)), caplog.text]
    await model.aclose()
    for text in shown:
        for secret in (KEY, "pass-word-1", LOGIN, "team-token-77"):
            assert secret not in text


@pytest.mark.rule("X1")
def test_a_credential_hides_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    assert repr(Credential(KEY)) == "<Credential given>"
    assert repr(Credential(env="SOME_KEY")) == "<Credential from SOME_KEY>"
    assert repr(Credential()) == "<no Credential>"
    assert Credential(env="SOME_KEY").secrets() == (KEY,)
    assert redact(f"a {KEY} b", [KEY, KEY[:10]]) == "a [hidden] b"
    assert redact("a word", ["word"]) == "a word"


# --- the endpoint -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["", "ftp://a", "provider.test/v1", "http://", "http://a\nb"])
def test_an_address_that_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(MisuseError, match="URL"):
        OpenAIChat(url)


def test_a_header_that_cannot_be_sent_is_refused_without_showing_its_value() -> None:
    with pytest.raises(MisuseError, match="X-Key") as caught:
        OpenAIChat(URL, headers={"X-Key": "secret\n"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "sent"),
    [
        ("http://a.test/v1", "http://a.test/v1/chat/completions"),
        ("http://a.test/v1/", "http://a.test/v1/chat/completions"),
        ("http://a.test", "http://a.test/chat/completions"),
        ("http://a.test/x?api-version=1", "http://a.test/x/chat/completions?api-version=1"),
    ],
)
async def test_the_path_is_added_to_the_base_address(base: str, sent: str) -> None:
    transport = MemoryTransport()
    async with OpenAIChat(base, transport=transport) as model:
        await outcome(model)
    assert str(transport.requests[0].url) == sent


async def test_a_header_given_in_any_case_replaces_ours() -> None:
    transport = MemoryTransport()
    async with OpenAIChat(URL, headers={"user-agent": "mine/1"}, transport=transport) as model:
        await outcome(model)
    assert transport.requests[0].headers.get_list("User-Agent") == ["mine/1"]


async def test_requests_name_the_project_and_what_they_accept() -> None:
    transport = MemoryTransport()
    async with OpenAIChat(URL, headers={"X-Title": "my app"}, transport=transport) as model:
        await outcome(model)
    headers = transport.requests[0].headers
    assert headers["user-agent"] == user_agent()
    assert headers["user-agent"].startswith("treadle/")
    assert headers["x-title"] == "my app"
    assert headers["content-type"] == "application/json"
    assert "text/event-stream" in headers["accept"]


async def test_a_user_and_password_in_the_address_are_sent_as_a_header() -> None:
    transport = MemoryTransport()
    async with OpenAIChat("http://user:pass-word-1@a.test", transport=transport) as model:
        await outcome(model)
    assert transport.requests[0].headers["authorization"] == f"Basic {LOGIN}"
    assert str(transport.requests[0].url) == "http://a.test/chat/completions"


def test_an_endpoint_shows_its_address_without_user_and_query() -> None:
    endpoint = Endpoint("http://user:pw@a.test/v1?key=k", Credential())
    assert str(endpoint) == "http://a.test/v1"
    assert repr(endpoint) == "<Endpoint http://a.test/v1, <no Credential>>"


# --- headers of an attempt --------------------------------------------------------------------------------------------


async def test_each_attempt_can_have_headers_of_its_own_that_replace_no_other() -> None:
    transport = MemoryTransport([b"data: [DONE]\n\n"])

    def more(given: Any) -> dict[str, str]:
        return {"traceparent": f"00-{given.attempt_id}", "Authorization": "theirs", "X-Static": "theirs"}

    options: Any = {"api_key": "sk-0123456789", "headers": {"X-Static": "ours"}, "attempt_headers": more}
    async with OpenAIChat(URL, transport=transport, **options) as model:
        await outcome(model)
    (sent,) = transport.requests
    assert sent.headers["traceparent"] == "00-a1"
    assert sent.headers["authorization"] == "Bearer sk-0123456789"
    assert sent.headers["x-static"] == "ours"


@pytest.mark.parametrize("value", ["two\nlines", "ümlaut"])
async def test_a_header_of_an_attempt_that_cannot_be_sent_is_told_by_its_name_alone(value: str) -> None:
    transport = MemoryTransport([b"data: [DONE]\n\n"])
    async with OpenAIChat(URL, transport=transport, attempt_headers=lambda _: {"X-Mine": value}) as model:
        with pytest.raises(MisuseError, match="'X-Mine' cannot be sent") as raised:
            await outcome(model)
    assert value not in str(raised.value)
    assert transport.requests == []
