"""A parent with two sub-agents at work at once. When the parent is cancelled, so are they."""

import trio

from treadle import AgentOptions, Answer, Call, Host, ModelRequest, ScriptedModel, subagent

OPTIONS = AgentOptions(provider="scripted", model="small")


def play(request: ModelRequest) -> object:
    """The parent delegates twice and sums up; a sub-agent answers its task."""
    if request.session_id != "parent":
        return f"I looked into {request.messages[-1].text}."
    if len(request.messages) == 1:
        return Answer(calls=[Call("delegate", {"prompt": "the logs"}), Call("delegate", {"prompt": "the code"})])
    return "Both are done."


async def main() -> None:
    async with Host(max_delegation_depth=1) as host:
        host.models.register("scripted", ScriptedModel(default=play))
        host.tools.register(subagent("delegate", "Give a task to a sub-agent.", parallel=True))
        host.hooks.on(
            "agent/created", lambda made: print("at work:", made.agent.id if made.agent.parent is None else "…")
        )
        parent = (await host.agents.create(session_id="parent", agent_options=OPTIONS)).agent
        parent.followup("Find the bug.")
        await parent.when_idle()
        for message in parent.session.history():
            print(f"{message.role}: {message.text or '(delegates)'}")
        print("live agents:", [agent.id for agent in host.agents.list()])


trio.run(main)
