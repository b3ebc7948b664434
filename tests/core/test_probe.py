import trio, pytest, math
from trio.testing import MockClock
from tests.stage import *
from treadle import *
from treadle.points import *
from treadle.tools.definition import tool

async def test_request_hook_cancel_header():
    async with stage("one","two") as s:
        d = None
        async def hook(p, nxt):
            s.agent.cancel(); return await nxt()
        off = s.agent.scope.on(REQUEST, hook)
        await s.ask("a")
        off()
        await s.ask("b")
        print(s.full_log)
        assert "header initial" in s.full_log

async def test_cancelled_admission_runs_no_hook():
    async with stage("one","two") as s:
        ran=[]
        s.agent.scope.on(PRE_STEP, lambda p, n: (ran.append(1), n())[1])
        s.agent.followup("x"); s.agent.cancel()
        await s.agent.when_idle()
        assert not ran

async def test_ki_in_listener():
    with pytest.raises(BaseException) as e:
      with trio.fail_after(3):
        async with stage("one","two") as s:
            def boom(p):
                if line(p.event).startswith("step/start"): raise KeyboardInterrupt
            s.agent.scope.on(SESSION_EVENT, boom)
            await s.ask("a")
            await trio.sleep(0.1)
    print(repr(e.value))
    assert not isinstance(e.value, trio.TooSlowError)
    assert 0

async def test_ki_in_maintenance():
    with pytest.raises(BaseException) as e:
      with trio.fail_after(3):
        async with stage("one","two") as s:
            async def boom(sig): raise KeyboardInterrupt
            s.agent.run_maintenance(boom)
            await trio.sleep(0.1)
    print(repr(e.value))
    assert not isinstance(e.value, trio.TooSlowError)
    assert 0

async def test_ki_in_tool():
    with pytest.raises(BaseException) as e:
      with trio.fail_after(3):
        async with stage(Answer(calls=[Call("t"),Call("t")]),"two") as s:
            @tool(parallel=True)
            async def t(): raise KeyboardInterrupt
            s.agent.tools.register(t)
            await s.ask("a")
            print(s.log)
            await trio.sleep(0.1)
    print(repr(e.value))
    assert not isinstance(e.value, trio.TooSlowError)
    assert 0

async def test_await_twice():
    async with stage() as s:
        async def job(sig): return 5
        m = s.agent.run_maintenance(job)
        assert await m == 5
        assert await m == 5

async def test_nursery_tool_cancel():
    async with stage(Answer(calls=[Call("t")]),"two") as s:
        g=Gate()
        @tool
        async def t():
            async with trio.open_nursery() as n:
                n.start_soon(trio.sleep_forever); n.start_soon(trio.sleep_forever)
                await g.wait()
        s.agent.tools.register(t)
        s.agent.followup("a"); await g.reached(); s.agent.cancel()
        await s.agent.when_idle()
        assert "result call_1 ABORTED" in s.log, s.log

async def test_shielded_listener_dispose(autojump_clock):
    async with stage() as s:
        async def slow(p):
            with trio.CancelScope(shield=True): await trio.sleep(1)
        s.agent.scope.on(INBOX_INSERTED, slow)
        s.agent.inject("x")
        await settled()
        with trio.fail_after(5): await s.handle.dispose()

async def test_dispose_foreign_thread():
    async with stage() as s:
        with pytest.raises(MisuseError):
            await trio.to_thread.run_sync(s.handle.dispose)
        with trio.fail_after(1): await s.handle.dispose()

async def test_text_block_bad():
    async with stage(Answer(calls=[Call("t"), Call("u"), Call("v"), Call("w")]),"two") as s:
        @tool
        async def t(): return (Text(5),)
        @tool(output_schema={"type":"string"})
        async def u(): return "\ud800"
        @tool
        async def v(): return ToolOutput("x", is_error=True, code=5)
        @tool
        async def w(): return ToolOutput("x", value="\ud800")
        for x in (t,u,v,w): s.agent.tools.register(x)
        await s.ask("a")
        print(s.log)

async def test_surrogates_from_adapter():
    from treadle.models.stream import BlockStart, BlockEnd
    async with stage([BlockStart(0,"tool-call","\ud800x","\ud800"),BlockEnd(0),Finished(Finish("tool-calls", None, "\ud800"))],
        [Finished(Finish("error", Failure("\ud800")))]) as s:
        await s.ask("a")
        await s.ask("b")
        print(s.log)

async def test_system_prompt_bad():
    async with stage("x", "y") as s:
        s.agent.system_prompt = "\ud800"
        await s.ask("a")
        print(s.log)

async def test_model_number():
    async with stage("x", "y") as s:
        async def hook(p, nxt): return CallConfig("scripted", 5)
        s.agent.scope.on(REQUEST, hook)
        await s.ask("a")
        print(s.log)

async def test_maint_from_thread_idle():
    async with stage(Answer(calls=[Call("t")]),"two") as s:
        @tool
        def t():
            try:
                s.host.await_from_thread(s.agent.when_idle)
            except MisuseError: return "refused"
            return "no"
        s.agent.tools.register(t)
        with trio.move_on_after(2):
            await s.ask("a")
        print(s.results())
        assert s.results()
async def test_plugin_append_wrong():
    import msgspec
    from treadle.session.events import event, _BY_TAG
    if "p/x" not in _BY_TAG:
        @event("p/x")
        class X(msgspec.Struct, frozen=True):
            n: int
    async with stage("x") as s:
        with pytest.raises(Exception): s.agent.session.append(X("text"))

async def test_opaque_list():
    import msgspec
    from treadle.session.events import decode_event
    from treadle.session.log import new_header
    e = decode_event(b'{"type":"zz","seq":0,"time":1,"data":[1],"ignorable":true}')
    Session(new_header("a","/"), [e])
async def test_error_listener_ki():
    pass
async def test_replace_value():
    async with stage(Answer(calls=[Call("t")]),"two") as s:
        @tool
        async def t(): return "x"
        s.agent.tools.register(t)
        async def hook(p, n): return ReplaceResult((Text("y"),), value=float("nan"))
        s.agent.scope.on(TOOLS_POST_EXECUTE, hook)
        await s.ask("a")
        print(s.log)
async def test_value_mutable():
    async with stage(Answer(calls=[Call("t")]),"two") as s:
        box=[1]
        @tool
        async def t(): return ToolOutput("x", value=box)
        s.agent.tools.register(t)
        await s.ask("a")
        before=[encode_event(e) for e in s.agent.session.events]
        box.append(2)
        assert before==[encode_event(e) for e in s.agent.session.events]
async def test_base_exception_from_model():
    class Odd(BaseException): pass
    async with stage(talk("x", Odd("z")),"two") as s:
        await s.ask("a")
        print(s.log, s.told)
        await s.ask("b")
async def test_body_exc_host():
    with pytest.raises(ValueError):
        async with Host(): raise ValueError
