"""One attempt over HTTP: what every model adapter does alike (Q5–Q8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any, NotRequired, Self, TypedDict, Unpack, cast

import httpx
import msgspec
import trio

from treadle import Failure, MisuseError, ModelFailure, ModelRequest
from treadle.models import UNKNOWN_MODEL, Chunk, Code, ModelInfo, RetryPolicy, clean_failure, describe

from ..http.body import Body
from ..http.credentials import Credential
from ..http.endpoint import Endpoint
from ..http.failures import failure_of_response, map_exceptions, request_id
from ..http.watchdog import KEEP_ALIVE_TIMEOUT, STREAM_IDLE_TIMEOUT, IdleWatchdog
from .decoding import Decoder, Reply
from .encoding import names_called
from .guard import Guard
from .shapes import as_object, json_or_none

FINISH_GRACE = 5.0
"""Seconds in which usage and the stream's end have to come once the answer has its finish, whatever else comes."""

DRAIN_GRACE = 0.1
"""Seconds to wait for the response's end after the stream's last event, so that its connection can be used again."""

REFUSAL_GRACE = 10.0
"""Seconds to wait for the body of an error response."""

REFUSAL_BYTES = 65_536
"""How much of an error response's body is read (X3)."""

LISTING_BYTES = 4 * 1024 * 1024
"""How long a listing of models may be (X3)."""


class HTTPOptions(TypedDict):
    """What every adapter over HTTP takes, as keyword arguments.

    Attributes:
        api_key: the credential itself. It is hidden in answers and errors that echo it (``http.redaction`` says in
            which forms), unless it is shorter than 8 characters, or shorter than 12 and without a digit (X1).
        api_key_env: the environment variable that holds it, read at each attempt. With neither, none is sent.
        name: the adapter's name (Q10).
        headers: sent with every request; their values are treated as secrets (X1).
        attempt_headers: gives more headers for each attempt, in the attempt's own task, such as ``traceparent``; they
            are no secrets, and never replace those above.
        stream_idle_timeout: seconds without a byte from the provider before TIMEOUT (Q8).
        keep_alive_timeout: seconds of keep-alives alone before TIMEOUT.
        retry_policy: how failures are retried; ``None`` makes each terminal (Q6).
        models: what is known of all models, or of each by its id; what is said of others is up to the adapter (Q4).
        extra_body: merged into every request's body.
        client: used for all requests instead of one made here; ``aclose`` leaves it open.
        transport: carries the requests of the client made here.
    """

    api_key: NotRequired[str | None]
    api_key_env: NotRequired[str | None]
    name: NotRequired[str]
    headers: NotRequired[Mapping[str, str] | None]
    attempt_headers: NotRequired[Callable[[ModelRequest], Mapping[str, str]] | None]
    stream_idle_timeout: NotRequired[float]
    keep_alive_timeout: NotRequired[float]
    retry_policy: NotRequired[RetryPolicy | None]
    models: NotRequired[ModelInfo | Mapping[str, ModelInfo]]
    extra_body: NotRequired[Mapping[str, Any]]
    client: NotRequired[httpx.AsyncClient | None]
    transport: NotRequired[httpx.AsyncBaseTransport | None]


class HTTPModel(ABC):
    """A model adapter over HTTP: one ``stream`` is one request, never repeated here (Q6).

    Subclasses say how a request is written and how events are read. ``async with`` closes the kept connections at
    its end.

    Raises:
        MisuseError: an option cannot be used.
    """

    default_name = "http"
    path = ""
    unknown_model = UNKNOWN_MODEL

    def __init__(self, base_url: str, **options: Unpack[HTTPOptions]) -> None:
        credential = Credential(options.get("api_key"), options.get("api_key_env"))
        self._endpoint = Endpoint(
            base_url,
            credential,
            options.get("headers"),
            client=options.get("client"),
            transport=options.get("transport"),
        )
        self._name = options.get("name") or self.default_name
        self._policy = options.get("retry_policy", RetryPolicy())
        self._models = options.get("models", self.unknown_model)
        self._extra = dict(options.get("extra_body", {}))
        self._attempt_headers = options.get("attempt_headers")
        self._idle = options.get("stream_idle_timeout", STREAM_IDLE_TIMEOUT)
        self._quiet = options.get("keep_alive_timeout", KEEP_ALIVE_TIMEOUT)
        if not (self._idle > 0 and self._quiet > 0):
            raise MisuseError("stream_idle_timeout and keep_alive_timeout must be positive")
        if self._extra.keys() & {"messages", "input", "tools", "stream", "model"}:
            raise MisuseError("extra_body must not replace messages, input, tools, stream or model")
        try:
            msgspec.json.encode(self._extra)
        except (TypeError, ValueError) as error:
            raise MisuseError(f"extra_body cannot be written as JSON: {error}") from error

    @property
    def name(self) -> str:
        """See ``ModelAdapter.name``."""
        return self._name

    def secrets(self) -> tuple[str, ...]:
        """What must not be served to others, as far as it is known now: keys, and headers that say they are secret (X1)."""
        return self._endpoint.secrets_in_answers()

    @property
    def retry_policy(self) -> RetryPolicy | None:
        """See ``ModelAdapter.retry_policy``."""
        return self._policy

    async def model_info(self, model: str) -> ModelInfo:
        """See ``ModelAdapter.model_info``; answers from what the adapter was told, without a request."""
        if isinstance(self._models, ModelInfo):
            return self._models
        return self._models.get(model, self.unknown_model)

    async def list_models(self) -> tuple[str, ...]:
        """Ask the endpoint which models it has.

        Raises:
            ModelFailure: it cannot be reached, refuses, or answers with something else (Q7).
        """
        answer = await self._get("/models")
        found = answer.get("data", answer.get("models"))
        if not isinstance(found, list):
            text = "the endpoint's answer lists no models"
            raise ModelFailure(Failure(text, Code.MALFORMED_RESPONSE.value))
        ids = [as_object(item).get("id", as_object(item).get("name")) for item in cast("list[Any]", found)]
        return tuple([item for item in ids if isinstance(item, str) and item])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """See ``ModelAdapter.stream``. Close it (``contextlib.aclosing``) when it is left before its end.

        Raises:
            ModelFailure: whatever went wrong, with its code (Q7).
        """
        watchdog = IdleWatchdog(self._idle, self._quiet, request.bounds)
        reply = Reply(self._decoder(), request.bounds, names_called(request.tools))
        guard = Guard(self._endpoint.hidden_in_answers())
        more = self._attempt_headers(request) if self._attempt_headers is not None else None
        body = await self._open("POST", self.path, watchdog, self._body(request), more=more)
        problem: ModelFailure | None = None
        try:
            while not reply.done:
                try:
                    data = await self._read(body, watchdog)
                except ModelFailure as error:
                    problem = error
                    break
                if not data:
                    break
                reply.feed(data)
                if reply.finished:
                    watchdog.end_within(FINISH_GRACE)
                chunks = reply.take()
                if chunks:
                    watchdog.progress()
                for chunk in guard.passed(chunks):
                    yield chunk
            if reply.done and reply.failure is None:
                await _drain(body)
            reply.close(problem)
            for chunk in [*guard.passed(reply.take()), *guard.rest()]:
                yield chunk
        finally:
            await body.aclose()
        if reply.failure is not None:
            raise self._reported(reply.failure, body.response)

    async def aclose(self) -> None:
        """Close the kept connections; a later request opens new ones."""
        await self._endpoint.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} at {self._endpoint}, {self._endpoint.credential!r}>"

    @abstractmethod
    def _decoder(self) -> Decoder:
        """What reads one answer."""

    @abstractmethod
    def _body(self, request: ModelRequest) -> bytes:
        """The request's body."""

    def _headers(self) -> dict[str, str]:
        """Headers of every request, the credential among them."""
        key = self._endpoint.credential.read()
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    async def _read(self, body: Body, watchdog: IdleWatchdog) -> bytes:
        with map_exceptions(str(self._endpoint)):
            return await watchdog.wait(body.read)

    async def _open(
        self,
        method: str,
        path: str,
        watchdog: IdleWatchdog,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Body:
        """Send a request; returns the body of a success, unread."""
        headers = {"Accept": "application/json", **self._headers()}
        if content is not None:
            headers |= {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        problem: ModelFailure
        try:
            with map_exceptions(str(self._endpoint)):
                await self._endpoint.ready()
                send = partial(self._endpoint.send, method, path, headers, content, params, more)
                body = await watchdog.wait(send)
        except ModelFailure as error:
            problem = error
        else:
            response = body.response
            if response.is_success:
                return body
            start = self._without_secrets(await self._start_of(body, watchdog))
            failure = failure_of_response(response.status_code, response.headers, start, json_or_none(start))
            problem = ModelFailure(failure)
        raise self._reported(problem)

    async def _start_of(self, body: Body, watchdog: IdleWatchdog) -> bytes:
        """The beginning of an error's body, as far as it comes in time."""
        got = bytearray()
        try:
            with trio.move_on_after(REFUSAL_GRACE):
                while len(got) < REFUSAL_BYTES:
                    data = await self._read(body, watchdog)
                    if not data:
                        break
                    got += data
        except ModelFailure:
            pass  # the status says what is the matter
        finally:
            await body.aclose()
        return bytes(got)

    async def _get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """GET a JSON object."""
        watchdog = IdleWatchdog(self._idle, self._quiet)
        body = await self._open("GET", path, watchdog, params=params)
        got = bytearray()
        try:
            while data := await self._read(body, watchdog):
                got += data
                if len(got) > LISTING_BYTES:
                    break
        finally:
            await body.aclose()
        told = self._without_secrets(bytes(got))
        parsed = json_or_none(told)
        if not isinstance(parsed, dict):
            response = body.response
            raise self._reported(ModelFailure(failure_of_response(response.status_code, response.headers, told, None)))
        return cast("dict[str, Any]", parsed)

    def _without_secrets(self, body: bytes) -> bytes:
        """A body in which no secret stands; before it is cut, or what is left of one would not be known (X1)."""
        return self._endpoint.hidden().hide(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _reported(self, error: ModelFailure, response: httpx.Response | None = None) -> ModelFailure:
        """The failure as it may leave the adapter: bounded, free of credentials (X1), with the request's id."""
        secrets = self._endpoint.hidden()
        failure = clean_failure(error.failure)
        asked = failure.request_id or (request_id(response.headers) if response is not None else None)
        reported = ModelFailure(
            msgspec.structs.replace(
                failure,
                message=secrets.hide(failure.message),
                request_id=None if asked is None else secrets.hide(asked),
            )
        )
        cause = error.__cause__
        if cause is not None:
            told = describe(cause)
            reported.__cause__ = cause if secrets.hide(told) == told else None
        return reported


async def _drain(body: Body) -> None:
    """Read on to the end of a response whose answer is over, if that comes at once."""
    try:
        with trio.move_on_after(DRAIN_GRACE):
            await body.skip()
    except (httpx.HTTPError, httpx.StreamError, OSError):
        pass  # nothing of it counts any more
