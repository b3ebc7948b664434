"""Who is let in, what is refused, and what is bounded."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
import trio

from tests.adapters.web.long import LONG
from tests.adapters.web.served import SERVERS, Server, served
from tests.hosts import OPTIONS
from treadle import Host, MemoryStore, MisuseError, ScriptedModel
from treadle_adapters.web import Limits, app

TOKENS = {f"token-of-{name}-{'x' * 16}": name for name in ("anna", "bert", "carl")}
ANNA, BERT, _ = TOKENS


def host_of(**options: Any) -> Host:
    host = Host(store=MemoryStore(), checks=True, **options)
    host.models.register("scripted", ScriptedModel())
    return host


async def session(server: Server, token: str | None = None) -> str:
    async with server.client(token) as web:
        return (await web.post("/api/sessions", json={})).json()["id"]


DOORS = (
    ("GET", ""), ("DELETE", ""), ("POST", "/fork"), ("GET", "/log"), ("GET", "/events"), ("POST", "/cancel"),
    ("POST", "/maintenance"), ("GET", "/approvals"), ("POST", "/approvals/x"), ("POST", "/messages"),
    ("GET", "/messages/m"), ("GET", "/inbox"), ("PUT", "/inbox"), ("PATCH", "/inbox/m"), ("DELETE", "/inbox/m"),
    ("POST", "/inbox/m/steer"), ("GET", "/stream"),
)  # fmt: skip
BODIES = {
    "/messages": {"text": "hi"}, "/approvals/x": {"approved": True}, "/inbox": {"ids": []}, "/inbox/m": {"text": "x"},
    "/maintenance": {"task": "x"},
}  # fmt: skip


def test_every_door_of_a_session_is_tried() -> None:
    web = app(Host())
    known = {(one.method, one.path.removeprefix("/api/sessions/{session}")) for one in web.operations}
    tried = {
        (
            method,
            path.replace("/x", "/{approval}").replace("/m/", "/{message}/").removesuffix("/m")
            + ("/{message}" if path.endswith("/m") else ""),
        )
        for method, path in DOORS
    }
    assert {one for one in known if not one[1].startswith("/api")} <= tried


async def ask(web: Any, method: str, name: str, door: str) -> Any:
    body = {"json": BODIES.get(door, {})} if method in ("POST", "PUT", "PATCH") else {}
    return await web.request(method, f"/api/sessions/{name}{door}", **body)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
async def test_no_door_shows_anything_of_anothers_session(kind: str) -> None:
    host = host_of()
    async with served(host, kind, tokens=TOKENS) as server:
        mine = await session(server, ANNA)
        async with server.client(ANNA) as anna, server.client(BERT) as bert:
            await anna.post(f"/api/sessions/{mine}/messages", json={"id": "m", "text": "a secret"})
            for method, door in DOORS:
                theirs, nobody = await ask(bert, method, mine, door), await ask(bert, method, "no-such", door)
                assert theirs.status_code == nobody.status_code == 404, (method, door)
                assert theirs.json()["code"] == nobody.json()["code"] == "SESSION_NOT_FOUND"
                assert theirs.text.replace(mine, "no-such") == nobody.text
            assert (await bert.get("/api/sessions")).json()["sessions"] == []
            fork = (await anna.post(f"/api/sessions/{mine}/fork", json={"upto": 0})).json()["id"]
            assert (await bert.get(f"/api/sessions/{fork}")).status_code == 404
            assert (await anna.get(f"/api/sessions/{fork}")).status_code == 200


@pytest.mark.slow
async def test_what_an_owner_may_see_is_the_same_after_a_restart_and_for_subagents() -> None:
    store = MemoryStore()
    made = Host(store=store)
    made.models.register("scripted", ScriptedModel())
    async with served(made, tokens=TOKENS) as server:
        mine = await session(server, ANNA)
    again = Host(store=store)
    again.models.register("scripted", ScriptedModel())
    async with again:
        parent = await again.agents.resume(mine, agent_options=OPTIONS)
        child = await again.agents.create(
            session_id="child", parent_agent=parent.agent, agent_options=OPTIONS, origin="subagent", parent_session=mine
        )
        await child.dispose()
        free = await again.agents.create(session_id="free", agent_options=OPTIONS)
        await free.dispose()
    last = Host(store=store)
    last.models.register("scripted", ScriptedModel())
    async with served(last, tokens={**TOKENS, "o" * 20: None}) as server:
        for token, seen in ((ANNA, {mine, "child"}), (BERT, set()), ("o" * 20, {mine, "child", "free"})):
            async with server.client(token) as web:
                for name in (mine, "child", "free"):
                    status = (await web.get(f"/api/sessions/{name}")).status_code
                    assert status == (200 if name in seen else 404), (token, name)


@pytest.mark.slow
async def test_many_strangers_and_odd_ids_get_nowhere() -> None:
    draw = random.Random(1)
    tokens = {f"{number:04}{'t' * 16}": f"owner{number}" for number in range(500 if LONG else 100)}
    async with served(host_of(), tokens=tokens, limits=Limits(loaded=40)) as server:
        owned = {token: await session(server, token) for token in list(tokens)[: 100 if LONG else 20]}
        async with server.client("") as web:
            for token in tokens:
                auth = {"authorization": f"Bearer {token}"}
                for other in draw.sample(list(owned), 5):
                    response = await web.get(f"/api/sessions/{owned[other]}", headers=auth)
                    assert response.status_code == (200 if other == token else 404)
            auth = {"authorization": f"Bearer {next(iter(tokens))}"}
            odd = [
                "..",
                "%2e%2e",
                "..%2f..%2fetc%2fpasswd",
                "%00",
                "%0a%0d",
                "a" * 10_000,
                "%ff%fe",
                "a..b",
                ".hidden",
                "-x",
            ]
            odd += [
                "".join(f"%{draw.randrange(256):02x}" for _ in range(draw.randrange(1, 40)))
                for _ in range(600 if LONG else 60)
            ]
            for name in odd:
                for method, door in (("GET", ""), ("GET", "/stream"), ("POST", "/messages"), ("DELETE", "")):
                    body: dict[str, Any] = {"json": {"text": "x"}} if method == "POST" else {}
                    response = await web.request(method, f"/api/sessions/{name}{door}", headers=auth, **body)
                    assert response.status_code in (400, 404, 405), (name, door, response.status_code)
            for wrong in ("", "Bearer", "Bearer wrong", "Basic eDp5", f"Bearer {'y' * 10_000}"):
                response = await web.get("/api/sessions", headers={"authorization": wrong})
                assert (response.status_code, response.json()["code"]) == (401, "UNAUTHORIZED")
                assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("kind", SERVERS)
async def test_pages_of_other_origins_and_other_names_are_refused(kind: str) -> None:
    async with served(host_of(), kind) as server, server.client() as web:
        own = f"127.0.0.1:{server.port}"
        for headers, status in (
            ({"host": "evil.example"}, 421),
            ({"host": f"evil.example:{server.port}"}, 421),
            ({"host": "127.0.0.1@evil.example"}, 421),
            ({"host": "127.0.0.1:port"}, 421),
            ({"host": f"localhost:{server.port}"}, 200),
            ({"origin": "http://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"origin": f"http://{own}.evil.example"}, 403),
            ({"origin": f"http://127.0.0.1:{server.port + 1}"}, 403),
            ({"origin": f"http://{own}"}, 200),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"sec-fetch-site": "same-site"}, 403),
            ({"sec-fetch-site": "same-origin"}, 200),
            ({"sec-fetch-site": "none"}, 200),
        ):
            response = await web.get("/api/sessions", headers=headers)
            assert response.status_code == status, headers
            assert "access-control-allow-origin" not in response.headers
        assert (await web.post("/api/sessions", json={}, headers={"sec-fetch-site": "none"})).status_code == 403


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
async def test_the_page_exchanges_its_token_for_a_cookie_that_scripts_cannot_read(kind: str) -> None:
    async with served(host_of(), kind) as server:
        async with server.client() as web:
            made = await web.post("/api/login")
        cookie = made.headers["set-cookie"]
        assert f"treadle-{server.port}=" in cookie
        assert {"HttpOnly", "Path=/"} <= set(cookie.split("; "))
        assert "samesite=strict" in cookie.lower()
        value = cookie.partition(";")[0]
        assert str(server.web.token) not in cookie
        own = f"http://127.0.0.1:{server.port}"
        async with server.client("", cookie=value) as web:
            assert (await web.get("/api/sessions")).status_code == 200
            assert (await web.post("/api/sessions", json={})).status_code == 403
            assert (await web.post("/api/sessions", json={}, headers={"origin": own})).status_code == 201
            assert (await web.post("/api/login", headers={"origin": own})).status_code == 200
            gone = await web.post("/api/logout", headers={"origin": own})
            assert "Max-Age=0" in gone.headers["set-cookie"] or "expires" in gone.headers["set-cookie"].lower()
        async with server.client("", cookie=value.replace(str(server.port), "1")) as web:
            assert (await web.get("/api/sessions")).status_code == 401


@pytest.mark.parametrize("kind", SERVERS)
async def test_every_answer_is_sealed(kind: str) -> None:
    async with served(host_of(), kind) as server, server.client() as web:
        for path in (
            "/healthz",
            "/readyz",
            "/api/sessions",
            "/api/nothing",
            "/api/sessions/none/stream",
            "/api/openapi.json",
        ):
            headers = (await web.get(path)).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
            assert headers.get("server") in (None, "uvicorn")
    async with served(host_of(), kind) as server, server.client("") as web:
        assert (await web.get("/healthz")).json() == {"status": "ok"}
        assert (await web.get("/api/sessions")).headers["x-frame-options"] == "DENY"


def test_a_token_that_could_be_guessed_is_refused() -> None:
    for tokens in ({}, {"short": None}, {"ü" * 20: None}):
        with pytest.raises(MisuseError):
            app(Host(), tokens=tokens)


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_huge_body_is_refused_unread(kind: str) -> None:
    async with served(host_of(), kind) as server:
        name = await session(server)
        for framing in ("content-length: 1073741824", "transfer-encoding: chunked"):
            stream = await trio.open_tcp_stream("127.0.0.1", server.port)
            sent = 0
            async with stream:
                head = f"POST /api/sessions/{name}/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n"
                head += (
                    f"authorization: Bearer {server.web.token}\r\ncontent-type: application/json\r\n{framing}\r\n\r\n"
                )
                await stream.send_all(head.encode())
                answer = b""

                async def read() -> None:
                    nonlocal answer
                    with suppress(trio.BrokenResourceError):
                        while data := await stream.receive_some(65536):  # noqa: B023  # it ends within the turn of the loop
                            answer += data

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read)
                    piece = b"x" * 65536
                    try:
                        while sent < 64 << 20 and b"413" not in answer:
                            await stream.send_all(
                                piece if "length" in framing else f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
                            )
                            sent += len(piece)
                    except trio.BrokenResourceError:
                        pass
                    with trio.move_on_after(10):
                        while b"TOO_LARGE" not in answer:  # noqa: ASYNC110  # what the reader got
                            await trio.sleep(0.005)
                    nursery.cancel_scope.cancel()
            assert b"413" in answer.partition(b"\r\n")[0], answer[:200]
            assert sent < 64 << 20
        async with server.client() as web:
            assert (await web.get("/healthz")).status_code == 200


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_body_that_drips_is_given_up(kind: str) -> None:
    async with served(host_of(), kind, limits=Limits(body_seconds=0.2)) as server:
        name = await session(server)
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            head = f"POST /api/sessions/{name}/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n"
            head += f"authorization: Bearer {server.web.token}\r\ncontent-type: application/json\r\n\r\n{{"
            await stream.send_all(head.encode())
            answer = await stream.receive_some()
        assert answer.startswith(b"HTTP/1.1 408")


async def test_connections_that_never_finish_a_header_are_closed_and_others_served(monkeypatch: Any) -> None:
    monkeypatch.setattr("treadle_adapters.web.serving.HEADER_SECONDS", 0.5)
    async with served(host_of()) as server:
        slow = [await trio.open_tcp_stream("127.0.0.1", server.port) for _ in range(100)]
        for stream in slow:
            await stream.send_all(b"GET /healthz HTTP/1.1\r\nhost: 127.")
        async with server.client() as web:
            assert (await web.get("/healthz")).status_code == 200
        for stream in slow:
            with trio.fail_after(60):
                assert await stream.receive_some() == b""
            await stream.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
async def test_streams_beyond_what_may_be_are_refused(kind: str) -> None:
    limits = Limits(streams=4, streams_per_owner=2)
    async with served(host_of(), kind, limits=limits, tokens=TOKENS) as server:
        names = {token: await session(server, token) for token in TOKENS}
        open_ = []
        for token, name in names.items():
            for _ in range(2 if token != list(TOKENS)[2] else 0):
                listener = await server.listen(name, token=token)
                await listener.next()
                open_.append(listener)
            async with server.client(token) as web:
                refused = await web.get(f"/api/sessions/{name}/stream")
            assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_STREAMS")
        await open_[0].close()
        with trio.fail_after(60):
            again = await server.listen(names[ANNA], token=ANNA)
            while await _status(again) != 200:  # until the server has noticed that the other is gone
                again = await server.listen(names[ANNA], token=ANNA)


async def _status(listener: Any) -> int:
    await listener.next()
    return listener.status
