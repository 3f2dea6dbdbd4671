"""CPython bytecode: decoding, liveness, assembling, and code that continues a frame in its middle.

The only Python room that knows bytecode versions; it needs neither torch nor the C++ core.
"""

from framehook.bytecode.assemble import CodeBuilder, Label
from framehook.bytecode.decode import Decoded, decode
from framehook.bytecode.instruction import Instruction, Region
from framehook.bytecode.liveness import live_variables
from framehook.bytecode.resume import ResumeLayout, layout_of, make_resume_code, origin
from framehook.bytecode.stack import StackItem

__all__ = [
    "CodeBuilder",
    "Decoded",
    "Instruction",
    "Label",
    "Region",
    "ResumeLayout",
    "StackItem",
    "decode",
    "layout_of",
    "live_variables",
    "make_resume_code",
    "origin",
]
