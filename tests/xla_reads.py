"""Whether XLA's own parser reads HLO texts.

usage: xla_reads.py TEXT...
A line for each: its name, and `read` or `refused`.
"""

import pathlib
import sys

from jaxlib import _hlo

for path in map(pathlib.Path, sys.argv[1:]):
    try:
        _hlo.hlo_module_from_text(path.read_text())
        print(path.stem, "read")
    except Exception:
        print(path.stem, "refused")
