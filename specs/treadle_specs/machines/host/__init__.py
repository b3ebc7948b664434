"""A whole host, driven by drawn programs: several agents on a store that fails, held to small models of what is promised.

``machine`` draws the programs; ``world`` is the host with all that belongs to it; ``actor`` predicts each call on an agent;
``witness``, ``crew``, ``answers`` and ``revisions`` hold what is told, what tools do, what models are asked, and presets.
"""
