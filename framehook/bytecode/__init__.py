"""CPython bytecode: decoding, liveness, assembling, and code that continues a frame in its middle.

The only Python room that knows bytecode versions; it needs neither torch nor the C++ core.
"""

from framehook.bytecode.decode import Decoded, decode
from framehook.bytecode.instruction import Instruction, Region

__all__ = ["Decoded", "Instruction", "Region", "decode"]
