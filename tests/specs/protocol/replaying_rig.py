"""A rig that answers each request with the next of some pieces: ``python replaying_rig.py FILE`` (a JSON list of texts)."""

import json
import sys
from pathlib import Path

pieces = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
for _, piece in zip(sys.stdin.buffer, pieces, strict=False):
    sys.stdout.buffer.write(piece.encode())
    sys.stdout.buffer.flush()
