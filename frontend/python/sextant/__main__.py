"""``python -m sextant``."""

import sys

from .cli import main

sys.exit(main())
