"""An agent in twenty lines: a model, a tool, a turn. Put a real adapter in the place of the scripted model."""

import trio

from treadle import Answer, Call, ScriptedModel, open_agent


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


async def main() -> None:
    model = ScriptedModel([Answer(calls=[Call("weather", {"city": "Oslo"})]), "It is sunny in Oslo."])
    async with open_agent(model=model, tools=[weather], system_prompt="You are a helpful assistant.") as agent:
        agent.followup("How is the weather in Oslo?")
        print("ended:", await agent.when_idle())
        print("answer:", agent.session.history()[-1].text)


trio.run(main)
