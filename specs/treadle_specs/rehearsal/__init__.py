"""Rehearsal: recorded sessions run again on today's code, without a model; told is the first thing that differs."""

from .recording import Recording, read_recording
from .rehearse import Rehearsal, Rehearsals, rehearse
from .stage import MakeAgent

__all__ = ["MakeAgent", "Recording", "Rehearsal", "Rehearsals", "read_recording", "rehearse"]
