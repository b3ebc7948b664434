"""How many tokens a request will take: estimated once per message, corrected by what the provider reports.

Nothing here asks the network; a provider's own tokenizer can be plugged in. May import: ``models``, ``session``.
"""

from .estimator import Estimator
from .sizes import Tokenizer, text_size

__all__ = ["Estimator", "Tokenizer", "text_size"]
