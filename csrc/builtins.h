// Whether the program has replaced builtin functions: framehook's own Python code and torch's call them, too.
#pragma once

#include <Python.h>

namespace framehook {

// Remembers the builtins as they are now.
bool init_builtins();

// Whether one of them is another one now, or gone. Runs no code of the program, whatever the namespace holds.
bool builtins_are_replaced();

}  // namespace framehook
