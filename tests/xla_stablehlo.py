"""Has XLA read StableHLO: parse it, verify it and make an HLO module of it.

usage: xla_stablehlo.py FILE...
"""

import pathlib
import sys

from jaxlib import _jax

for path in map(pathlib.Path, sys.argv[1:]):
    try:
        _jax.mlir.mlir_module_to_xla_computation(path.read_text(), use_tuple_args=False, return_tuple=False)
    except Exception as error:
        sys.exit(f"{path.name}: {error}")
