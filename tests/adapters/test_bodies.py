"""Bodies in packed form, the pools that carry them, and what is made once in a process."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from itertools import count
from typing import Any

import httpx
import pytest
import trio

from tests.adapters.wires import Loopback, outcome, request
from treadle.models import AnswerBounds
from treadle_adapters.http import body, endpoint, pools
from treadle_adapters.http.body import Body
from treadle_adapters.models.openai_chat import OpenAIChat

ANSWER = b'data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

STARTED = b'data: {"choices":[{"index":0,"delta":{"content":"h"}}]}\n\n'


def raw(data: bytes) -> bytes:
    pack = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return pack.compress(data) + pack.flush()


PACKED = {"gzip": gzip.compress(ANSWER), "x-gzip": gzip.compress(ANSWER), "deflate": zlib.compress(ANSWER)}


@pytest.mark.rule("X3")
@pytest.mark.parametrize("pieces", [1, 7, 10_000])
@pytest.mark.parametrize("coding", [*PACKED, "deflate without its wrapping", "identity"])
async def test_an_answer_that_is_packed_as_asked_is_read(coding: str, pieces: int) -> None:
    data = {**PACKED, "identity": ANSWER}.get(coding, raw(ANSWER))
    size = len(data) // pieces + 1
    cut = [data[start : start + size] for start in range(0, len(data), size)]
    async with trio.open_nursery() as nursery:
        server = Loopback(cut, headers={"Content-Encoding": coding.split(maxsplit=1)[0]})
        url = await server.start(nursery)
        async with OpenAIChat(url) as model:
            got = await outcome(model)
        nursery.cancel_scope.cancel()
    assert (got.text, got.failure) == ("hello", None)


@pytest.mark.rule("X3", "Q7")
@pytest.mark.parametrize("coding", ["zstd", "br", "gzip, gzip", "compress"])
async def test_a_packing_that_was_not_asked_for_is_refused_unread(coding: str) -> None:
    async with trio.open_nursery() as nursery:
        url = await Loopback([ANSWER], headers={"Content-Encoding": coding}).start(nursery)
        async with OpenAIChat(url) as model:
            got = await outcome(model)
        nursery.cancel_scope.cancel()
    assert got.failure is not None
    assert got.code == "MALFORMED_RESPONSE"
    assert coding in got.failure.message


@pytest.mark.slow
@pytest.mark.rule("X3")
async def test_a_read_that_unpacks_to_gigabytes_is_handed_over_in_small_pieces() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    response = httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Once(bomb))
    reader = Body(response)
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat)
        sizes = [len(await reader.read()) for _ in range(200)]
        nursery.cancel_scope.cancel()
    assert max(sizes) <= body.PIECE
    assert turns > 200 * body.PIECE // body.PAUSE_EVERY // 2
    await reader.aclose()


class Once(httpx.AsyncByteStream):
    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data


@pytest.mark.rule("X3")
async def test_an_answer_that_takes_too_long_is_cut_off_and_names_the_option() -> None:
    def drops() -> Iterator[bytes]:
        for number in count():
            yield b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % number

    async with trio.open_nursery() as nursery:
        url = await Loopback([next(drops())], after="hold").start(nursery)
        async with OpenAIChat(url) as model:
            got = await outcome(model, request(bounds=AnswerBounds(seconds=0.2)))
        nursery.cancel_scope.cancel()
    assert got.failure is not None
    assert (got.code, got.text) == ("STREAM_CLOSED", "0")
    assert "max_answer_seconds" in got.failure.message


# --- pools ------------------------------------------------------------------------------------------------------------


async def test_streams_are_shared_out_over_small_pools_and_only_the_first_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools, "POOL_CONNECTIONS", 3)
    seen: list[int] = []
    async with trio.open_nursery() as server_nursery:
        url = await Loopback([STARTED], after="hold").start(server_nursery)
        async with OpenAIChat(url) as model:
            shared = model._endpoint._here()

            async def read(task_status: trio.TaskStatus[None]) -> None:
                async with aclosing(model.stream(request())) as chunks:
                    await anext(chunks)
                    task_status.started()
                    async for _ in chunks:
                        pass

            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    await nursery.start(read)
                seen = [pool.open for pool in shared._pools]
                nursery.cancel_scope.cancel()
            assert [pool.open for pool in shared._pools] == [0]
        server_nursery.cancel_scope.cancel()
    assert seen == [3, 3, 3, 1]


async def test_what_the_first_request_of_a_process_needs_is_made_in_a_worker_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    monkeypatch.setattr(pools, "_MADE", {})
    create = httpx.create_ssl_context

    def noted() -> Any:
        made.append(threading.current_thread().name)
        return create()

    monkeypatch.setattr(httpx, "create_ssl_context", noted)
    here = endpoint.Endpoint("https://127.0.0.1:9", endpoint.Credential())
    for _ in range(2):
        with pytest.raises(httpx.ConnectError):
            await here.send("GET", "/", {})
    await here.aclose()
    assert len(made) == 1
    assert made[0] != threading.main_thread().name
