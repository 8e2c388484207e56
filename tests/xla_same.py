"""Compares HLO texts as XLA's own parser reads them.

usage: xla_same.py (TEXT PRINTED)...
A line for each pair: `same` if XLA reads both as the same module, `refused` if it refuses TEXT, else how they differ.
"""

import difflib
import pathlib
import sys

from jaxlib import _hlo


def compare(text, printed):
    try:
        text = _hlo.hlo_module_from_text(text).to_string()
    except Exception:
        return "refused"
    try:
        printed = _hlo.hlo_module_from_text(printed).to_string()
    except Exception as error:
        return f"XLA refuses what was printed: {error}"
    if text == printed:
        return "same"
    return "\n".join(difflib.unified_diff(text.splitlines(), printed.splitlines(), lineterm="", n=0))


paths = [pathlib.Path(argument).read_text() for argument in sys.argv[1:]]
for text, printed in zip(paths[::2], paths[1::2], strict=True):
    print(compare(text, printed))
