"""What the replicas of these tests have in common: processes of Ray import it."""

from treadle import AgentOptions, Answer, Host, ScriptedModel
from treadle_adapters.cluster.ray import Spec

OPTIONS = AgentOptions(provider="scripted", model="m")


def prepare(host: Host) -> None:
    """Register a model that answers, whatever it is asked."""
    host.models.register("scripted", ScriptedModel([Answer(f"answer {number}") for number in range(10_000)]))


def prepare_slow(host: Host) -> None:
    """Register a model that takes for ever."""
    host.models.register("scripted", ScriptedModel([Answer("slow " * 1_000)] * 100, pace=10.0))


def spec(url: str, schema: str, lease: float) -> Spec:
    """The replicas of a test."""
    return Spec(url, prepare, OPTIONS, lease=lease, schema=schema)


__all__ = ["OPTIONS", "prepare", "prepare_slow", "spec"]
