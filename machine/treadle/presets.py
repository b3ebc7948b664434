"""What files and forms say: presets and their components, declared agents, the chosen model and where it is kept."""

from .host.config import Config, load_config
from .host.default_model import DefaultModel, ModelSelection, SelectionEditor
from .host.presets.components import Component, Composition
from .host.presets.documents import PresetDefinition, read_definition
from .host.presets.presets import PresetDocument, PresetInventory, PresetRoster, Presets
from .host.presets.revisions import ComponentRow, Lease, PresetInfo
from .host.profile import TomlProfile

__all__ = [
    "Component",
    "ComponentRow",
    "Composition",
    "Config",
    "DefaultModel",
    "Lease",
    "ModelSelection",
    "PresetDefinition",
    "PresetDocument",
    "PresetInfo",
    "PresetInventory",
    "PresetRoster",
    "Presets",
    "SelectionEditor",
    "TomlProfile",
    "load_config",
    "read_definition",
]
