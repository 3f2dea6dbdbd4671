// The objects that user code and generated code call: CompiledCallable, GraphCallable, DisabledCallable.
#pragma once

#include "runner.h"

namespace framehook {

int init_callable(PyObject* module);

}  // namespace framehook
