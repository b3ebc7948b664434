"""Kits that hold a part of anyone's to its promises: ``check_model`` any adapter, ``check_store`` any store.

Plain functions that take makers and raise ``AssertionError``. The room imports the core; of the other rooms none.
"""

from .model import check_model
from .model_bench import Means, ModelMaker
from .store import check_store
from .store_bench import Faults, StoreMaker

__all__ = ["Faults", "Means", "ModelMaker", "StoreMaker", "check_model", "check_store"]
