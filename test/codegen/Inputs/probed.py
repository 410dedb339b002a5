"""probed.py FOLDER RATE...: replaces the rates that the folder's probe has found."""

import json
import sys
from pathlib import Path

(record,) = Path(sys.argv[1]).glob("machine-*.json")
probe = json.loads(record.read_text())
names = ("multiply_add_256", "multiply_add_512", "bf16_dot_512")
record.write_text(json.dumps({**probe, **dict(zip(names, map(float, sys.argv[2:])))}))
