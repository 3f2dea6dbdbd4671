// Guard programs: flat, typed instructions over a register file that say whether a cache entry is valid.
// No torch headers here; tensors and torch state are checked through tensor_check.h and torch_state.h.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

struct GuardProgramObject;
extern PyTypeObject GuardProgramType;

// Evaluates a program on the raw argument slots of a frame.  `closure` is a tuple of cells, null or None.
// False: a guard failed; no exception is set.  True: `*inputs_list_out` is a new list of the graph inputs,
// or null when the program has no inputs.
bool guard_program_check(GuardProgramObject* program, PyObject* const* slots, Py_ssize_t slot_count,
                         PyObject* globals, PyObject* builtins, PyObject* closure,
                         PyObject** inputs_list_out);

// False once an object that the guards name, held weakly, has died: the program can never hold again.
bool guard_program_is_valid(GuardProgramObject* program);

// Adds GuardProgram, GUARD_OPERATIONS and what tensor_check.h and torch_state.h export to the module; 0, or
// -1 with an exception.
int init_guard_program(PyObject* module);
