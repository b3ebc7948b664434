"""Streams that survive: cuts at any byte, restarts, joins in the middle, slow readers, many sessions on one socket."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest
import trio
import wsproto
from wsproto.connection import ConnectionType
from wsproto.events import AcceptConnection, CloseConnection, Ping, RejectConnection, Request, TextMessage

from tests.adapters.web.long import LONG
from tests.adapters.web.served import SERVERS, Listener, Server, served
from treadle import Answer, Host, MemoryStore, ModelRequest, ScriptedModel
from treadle.models import BlockEnd, BlockStart, Finish, Finished, TextDelta
from treadle.session import TurnStart
from treadle_adapters.http.redaction import Secrets
from treadle_adapters.models.guard import Guard
from treadle_adapters.web import Limits
from treadle_adapters.web.watching import Attempt


class Paced:
    """A model whose words come when they are let go, from any thread."""

    def __init__(self) -> None:
        self.let = 0
        self.said = 0
        self.fails = False

    async def _wait(self) -> None:
        while self.said >= self.let:  # noqa: ASYNC110  # it is let go from another thread
            await trio.sleep(0.002)
        self.said += 1

    async def words(self) -> Any:
        yield BlockStart(0, "text")
        while True:
            await self._wait()
            if self.let >= 10_000:
                break
            if self.fails:
                raise OSError("the line is dead")
            yield TextDelta(0, f"{self.said} ")
        yield BlockEnd(0)
        yield Finished(Finish("stop"))

    def __call__(self, _: ModelRequest) -> Any:
        return self.words()


class Client:
    """What a client has of a session: its events, and what each live attempt has said."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.after: str | None = None
        self.live: dict[str, str] = {}
        self.next: dict[str, int] = {}
        self.gone: list[str] = []
        self.resets = 0
        self.over = False

    def take(self, told: dict[str, Any]) -> None:
        self.after = told["id"] or self.after
        data = told["data"]
        match told["event"]:
            case "event":
                assert data["seq"] == len(self.events)
                self.events.append(data)
                attempt = data["data"].get("attemptId")
                if attempt in self.live:
                    pieces = [one for one in data["data"]["stream"]["segments"] if one.get("delta") == "text-delta"]
                    said = "".join("".join(one["texts"]) for one in pieces)
                    assert said.startswith(self.live.pop(attempt))
            case "frames":
                attempt = data["attemptId"]
                if data["from"] == 0:
                    self.live[attempt] = ""
                else:
                    assert data["from"] == self.next[attempt]
                self.next[attempt] = data["next"]
                self.live[attempt] += "".join(c["text"] for c in data["chunks"] if c["type"] == "text-delta")
            case "gone":
                self.gone.append(data["attemptId"])
                self.live.pop(data["attemptId"], None)
            case "reset":
                self.events, self.resets = [], self.resets + 1
            case "bye":
                self.over = True
            case _:
                pass

    @property
    def turns(self) -> int:
        return sum(one["type"] == "turn/end" for one in self.events)


async def follow(client: Client, listener: Listener, turns: int) -> None:
    while client.turns < turns:
        told = await listener.next()
        assert told is not None
        client.take(told)


def host_of(*script: Any, pace: float = 0, **options: Any) -> Host:
    host = Host(checks=True, **options)
    host.models.register("scripted", ScriptedModel(script, pace=pace))
    return host


async def session(server: Server, text: str | None = None) -> str:
    async with server.client() as web:
        made = await web.post("/api/sessions", json={} if text is None else {"message": text})
        assert made.status_code == 201, made.text
        return made.json()["id"]


async def say(server: Server, name: str, text: str) -> None:
    async with server.client() as web:
        assert (await web.post(f"/api/sessions/{name}/messages", json={"text": text})).status_code == 202


# --- cuts -------------------------------------------------------------------------------------------------------------

TURNS = 100 if LONG else 12
CUTS = 1_000 if LONG else 50


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("seed", range(3))
async def test_a_client_that_is_cut_at_any_byte_has_the_log_exactly(kind: str, seed: int) -> None:
    draw = random.Random(seed)
    answers = [
        Answer(" ".join(f"word{n}" for n in range(draw.randrange(120))), reasoning="hm " * draw.randrange(9))
        for _ in range(TURNS)
    ]
    host = host_of(*answers, pace=0.0005, store=MemoryStore())
    async with served(host, kind, limits=Limits(gather=0.002, piece=2_000)) as server:
        name = await session(server)
        clients = [Client() for _ in range(5)]
        cuts = 0

        async def watch(client: Client) -> None:
            nonlocal cuts
            while client.turns < TURNS:
                listener = await server.listen(name, client.after)
                patience = draw.randrange(20, 2_500)
                try:
                    while client.turns < TURNS and listener.read < patience:
                        told = await listener.next(draw.randrange(1, 300))
                        assert told is not None
                        client.take(told)
                finally:
                    cuts += 1
                    await listener.close()

        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(watch, client)
            for number in range(TURNS):
                await say(server, name, f"turn {number}")
        log = server.log(name)
        assert cuts > CUTS
        for client in clients:
            assert client.events == log[: len(client.events)]
            assert client.turns == TURNS
            assert (client.resets, client.live, client.gone) == (0, {}, [])


# --- joining ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SERVERS)
async def test_who_joins_during_an_attempt_gets_what_was_said_then_the_rest(kind: str) -> None:
    paced = Paced()
    async with served(host_of(paced), kind) as server:
        name = await session(server, "Count")
        paced.let = 50
        first = Client()
        listener = await server.listen(name)
        expected = "".join(f"{n} " for n in range(1, 51))
        while expected not in first.live.values():
            first.take(await listener.next() or {})
        joined = Client()
        late = await server.listen(name)
        while not joined.live:
            joined.take(await late.next() or {})
        assert list(joined.live.values()) == [expected]
        resumed = Client()
        resumed.after, resumed.events = first.after, list(first.events)
        again = await server.listen(name, first.after)
        while not resumed.live:
            resumed.take(await again.next() or {})
        assert resumed.live == first.live
        paced.let = 10_000
        for client, own in ((first, listener), (joined, late), (resumed, again)):
            await follow(client, own, 1)
            assert client.live == {}
            assert client.events == server.log(name)[: len(client.events)]


@pytest.mark.parametrize("kind", SERVERS)
async def test_an_attempt_that_failed_is_in_the_log_or_told_as_gone(kind: str) -> None:
    paced = Paced()
    async with served(host_of(paced), kind) as server:
        name = await session(server, "Count")
        paced.let = 3
        client = Client()
        listener = await server.listen(name)
        while not any(client.live.values()):
            client.take(await listener.next() or {})
        attempt = next(iter(client.live))
        paced.fails, paced.let = True, 4
        await follow(client, listener, 1)
        recorded = [one["data"].get("attemptId") for one in client.events]
        assert attempt in recorded or attempt in client.gone
        assert client.live == {}


async def test_an_attempt_is_not_told_again_when_the_log_has_it_before_its_end_is_told() -> None:
    async with served(host_of("One.")) as server:
        name = await session(server, "First")
        client = Client()
        await follow(client, await server.listen(name), 1)
        attempt = next(one["data"]["attemptId"] for one in client.events if one["type"] == "assistant/message")
        watching = server.web._desk.watching  # pyright: ignore[reportPrivateUsage]
        watching.attempts[name] = Attempt(
            attempt, 1, 1, 0, Guard(Secrets(())), [BlockStart(0, "text"), TextDelta(0, "One.")]
        )
        for place in (None, client.after):
            listener = await server.listen(name, place)
            told = await listener.until(lambda told: told["event"] == "state")
            assert not [one for one in told if one["event"] == "frames"]


async def test_a_place_in_an_attempt_that_a_kill_lost_is_answered_by_gone() -> None:
    store = MemoryStore()
    async with served(host_of("One.", store=store)) as server:
        name = await session(server, "First")
        client = Client()
        await follow(client, await server.listen(name), 1)
    async with served(host_of("Two.", store=store)) as server:
        listener = await server.listen(name, f"{client.after}~lost-attempt")
        told = await listener.until(lambda one: one["event"] == "gone")
        assert told[-1]["data"] == {"attemptId": "lost-attempt"}
        assert client.after is not None
        assert told[-1]["id"].partition("~")[0] == client.after or told[-1]["data"]


@pytest.mark.slow
async def test_a_stream_goes_on_after_a_restart_without_loss_or_repetition() -> None:
    store = MemoryStore()
    client = Client()
    async with served(host_of("One.", store=store)) as server:
        name = await session(server, "First")
        await follow(client, await server.listen(name), 1)
    for turn in (2, 3):
        async with served(host_of("More.", store=store)) as server:
            listener = await server.listen(name, client.after)
            await say(server, name, f"turn {turn}")
            await follow(client, listener, turn)
            assert client.events == server.log(name)[: len(client.events)]
    assert client.resets == 0


async def test_a_place_beyond_what_a_kill_left_of_the_log_is_answered_by_a_reset() -> None:
    store = MemoryStore()
    async with served(host_of("One.", store=store)) as server:
        name = await session(server, "First")
        ended = Client()
        await follow(ended, await server.listen(name), 1)
        count = len(server.log(name))
        for place in (f"{count + 5}", f"{count - 1}.12345", f"{count + 5}.12345~some"):
            client = Client()
            listener = await server.listen(name, place)
            await follow(client, listener, 1)
            assert client.resets == 1
            assert client.events == server.log(name)[: len(client.events)]


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SERVERS)
async def test_draining_lets_a_turn_end_keeps_what_waits_and_says_goodbye(kind: str) -> None:
    store, paced = MemoryStore(), Paced()
    client = Client()
    async with served(host_of(paced, store=store), kind, drain=30) as server:
        name = await session(server, "Count")
        paced.let = 3
        listener = await server.listen(name)
        while not client.live:
            client.take(await listener.next() or {})
        async with server.client() as web:
            await web.post(f"/api/sessions/{name}/messages", json={"id": "waits", "text": "later"})
            server.stop.set()
            while (ready := await web.get("/readyz")).status_code == 200:  # noqa: ASYNC110  # asked over HTTP
                await trio.sleep(0.002)
            assert ready.json()["code"] == "DRAINING"
            refused = await web.post(f"/api/sessions/{name}/messages", json={"text": "now?"})
            assert (refused.status_code, refused.json()["code"]) == (503, "DRAINING")
            paced.let = 10_000
            while not client.over:
                client.take(await listener.next() or {})
        assert await listener.next() is None
    reasons = [one["data"]["reason"]["kind"] for one in client.events if one["type"] == "turn/end"]
    assert reasons == ["completed"]
    stored = await store.open_read(name)
    assert len(client.events) <= len(stored.events)
    assert [entry.data.turn for entry in stored.events if isinstance(entry.data, TurnStart)] == [1]
    async with served(host_of(store=store)) as server, server.client() as web:
        fate = (await web.get(f"/api/sessions/{name}/messages/waits")).json()
        assert fate["fate"] == "pending"
        inbox = (await web.get(f"/api/sessions/{name}/inbox")).json()
        assert [one["id"] for one in inbox["nextTurn"]] == ["waits"]


@pytest.mark.slow
async def test_a_drain_ends_in_time_though_a_turn_does_not_and_a_reader_has_stalled() -> None:
    store = MemoryStore()
    paced = Paced()
    big = Answer("x" * 2_000_000)
    client = Client()
    with trio.fail_after(60):
        async with served(host_of(big, paced, store=store), drain=0.2, stalled=1) as server:
            name = await session(server, "Much")
            await follow(client, await server.listen(name), 1)
            await say(server, name, "Count")
            stalled = await server.listen(name)
            await stalled.next()
            paced.let = 2
            listener = await server.listen(name, client.after)
            while not client.live:
                client.take(await listener.next() or {})
            server.stop.set()
            while not client.over:
                client.take(await listener.next() or {})
            assert client.events[-1]["data"]["reason"]["kind"] == "aborted"


@pytest.mark.slow
async def test_a_stalled_reader_delays_nobody_is_told_and_misses_nothing() -> None:
    big = Answer(" ".join(["word" * 50] * 5_000))
    async with served(host_of(*[big] * 3), stalled=30, limits=Limits(slow=0.001)) as server:
        name = await session(server)
        stalled = await server.listen(name)
        await stalled.next()
        client = Client()
        listener = await server.listen(name)
        for turn in range(3):
            await say(server, name, "more")
            await follow(client, listener, turn + 1)
        # it goes on where it was, and misses nothing
        slow = Client()
        warned: list[Any] = []
        while slow.turns < 3:
            told = await stalled.next()
            assert told is not None
            warned += [told["data"]] if told["event"] == "slow" else []
            if told["event"] == "event" and not slow.events and told["data"]["seq"]:
                slow.events = client.events[: told["data"]["seq"]]
            slow.take(told)
        assert slow.events == client.events
        assert any(one["seconds"] > 0.001 and one["behind"] >= 0 for one in warned)


async def test_a_deleted_session_ends_its_streams_with_a_word() -> None:
    async with served(host_of(store=MemoryStore())) as server, server.client() as web:
        name = await session(server)
        listener = await server.listen(name)
        await listener.until(lambda told: told["event"] == "state")
        await web.delete(f"/api/sessions/{name}")
        told = await listener.until(lambda told: told["event"] == "bye")
        assert told[-1]["data"] == {"reason": "deleted"}
        assert await listener.next() is None


async def test_silence_is_broken_by_a_sign_of_life() -> None:
    async with served(host_of(), limits=Limits(heartbeat=0.05)) as server:
        listener = await server.listen(await session(server))
        await listener.until(lambda told: told["event"] == "state")
        before = listener.read
        with trio.move_on_after(60):
            while listener.read < before + 60:
                with trio.move_on_after(0.05):
                    await listener.next()
        assert listener.read >= before + 60


# --- the socket -------------------------------------------------------------------------------------------------------


class Web:
    """A WebSocket client."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._web = wsproto.WSConnection(ConnectionType.CLIENT)
        self._text = ""
        self.rejected: int | None = None

    async def open(self, token: str | None, **headers: str) -> None:
        extra = [(b"authorization", f"Bearer {token}".encode())] if token else []
        extra += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await self._stream.send_all(
            self._web.send(Request(host="127.0.0.1", target="/api/socket", extra_headers=extra))
        )
        await self._event()

    async def say(self, **words: Any) -> None:
        await self._stream.send_all(self._web.send(TextMessage(json.dumps(words))))

    async def send(self, text: str) -> None:
        await self._stream.send_all(self._web.send(TextMessage(text)))

    async def _event(self) -> Any:
        while True:
            for event in self._web.events():
                match event:
                    case AcceptConnection():
                        return event
                    case RejectConnection():
                        self.rejected = event.status_code
                        return event
                    case CloseConnection():
                        return event
                    case Ping():
                        await self._stream.send_all(self._web.send(event.response()))
                    case TextMessage():
                        self._text += event.data
                        if event.message_finished:
                            text, self._text = self._text, ""
                            return json.loads(text)
                    case _:
                        pass
            self._web.receive_data(await self._stream.receive_some(65536) or None)

    async def next(self) -> Any:
        return await self._event()

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)


async def socket(server: Server, token: str | None = None, **headers: str) -> Web:
    web = Web(await trio.open_tcp_stream("127.0.0.1", server.port))
    await web.open(token if token is not None else server.web.token, **headers)
    server.listeners.append(web)  # type: ignore[arg-type]  # it is closed with them
    return web


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
async def test_one_socket_tells_many_sessions_from_any_place(kind: str) -> None:
    async with served(host_of(pace=0.0005, store=MemoryStore()), kind) as server:
        names = [await session(server) for _ in range(8)]
        clients = {name: Client() for name in names}
        web = await socket(server)
        for name in names:
            await web.say(watch=name)
        for name in names:
            await say(server, name, "Hello")
        while any(client.turns < 1 for client in clients.values()):
            told = await web.next()
            clients[told["session"]].take({"id": None, **told})
        await web.close()
        web = await socket(server)
        for name in names:
            await web.say(watch=name, after=clients[name].after)
            await say(server, name, "Again")
        while any(client.turns < 2 for client in clients.values()):
            told = await web.next()
            clients[told["session"]].take({"id": None, **told})
        for name in names:
            assert clients[name].events == server.log(name)[: len(clients[name].events)]
            assert clients[name].resets == 0


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_socket_says_what_it_cannot_watch_and_closes_on_what_it_cannot_read(kind: str) -> None:
    async with served(host_of(), kind, limits=Limits(watched=1)) as server:
        names = [await session(server) for _ in range(2)]
        web = await socket(server)
        await web.say(watch="nobody")
        assert (await web.next())["data"]["code"] == "SESSION_NOT_FOUND"
        await web.say(watch=names[0], after="nonsense")
        assert (await web.next())["data"]["code"] == "MISUSE"
        await web.say(watch=names[0])
        assert (await web.next())["event"] == "state"
        await web.say(watch=names[1])
        assert (await web.next())["data"]["code"] == "TOO_MANY_WATCHED"
        await web.say(unwatch=names[0])
        await web.say(watch=names[1])
        assert (await web.next())["event"] == "state"
        await web.send("{")
        assert isinstance(await web.next(), CloseConnection)


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_socket_of_a_stranger_or_of_another_origin_is_refused(kind: str) -> None:
    async with served(host_of(), kind) as server:
        for token, headers in (
            ("wrong" * 5, {}),
            (server.web.token, {"origin": "http://evil.example"}),
            (server.web.token, {"sec_fetch_site": "cross-site"}),
        ):
            web = await socket(server, token, **headers)
            assert web.rejected == 403
        with suppress(AssertionError):
            await web.close()


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_socket_is_closed_once_its_streams_have_said_that_the_server_goes_down(kind: str) -> None:
    async with served(host_of(), kind) as server:
        web, idle = await socket(server), await socket(server)
        await web.say(watch=await session(server))
        assert (await web.next())["event"] == "state"
        server.stop.set()
        last = None
        while not isinstance(told := await web.next(), CloseConnection):
            last = told
        assert last is not None
        assert (last["event"], last["data"]) == ("bye", {"reason": "draining"})
        assert told.code == 1001
        end = await idle.next()  # it watches nothing
        assert isinstance(end, CloseConnection)
        assert end.code == 1001
