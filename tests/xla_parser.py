"""Puts XLA's own HLO parser and printer at the disposal of a test.

usage: xla_parser.py TEXT PROTO OUT_PROTO OUT_TEXT
OUT_PROTO: the module that XLA reads from the HLO text in TEXT. OUT_TEXT: what XLA prints of the module in PROTO.
"""

import pathlib
import sys

from jaxlib import _hlo

text, proto, out_proto, out_text = map(pathlib.Path, sys.argv[1:])
read = _hlo.hlo_module_from_text(text.read_text())
out_proto.write_bytes(read.as_serialized_hlo_module_proto())
# Large constants are printed in full, which the default leaves out.
options = _hlo.HloPrintOptions.short_parsable()
options.print_large_constants = True
options.print_metadata = True
module = _hlo.HloModule.from_serialized_hlo_module_proto(proto.read_bytes())
out_text.write_text(module.to_string(options))
