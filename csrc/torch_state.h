// Process and thread state that changes the results of torch operations, packed for comparison.  Built with
// FRAMEHOOK_WITHOUT_TORCH there is none.  Comparing runs no Python.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace framehook {

bool is_state_snapshot(PyObject* object);
// Whether process and thread state are as captured.  `snapshot` must be a StateSnapshot.
bool state_snapshot_matches(PyObject* snapshot);
// List of (name, captured, current) for what differs; new reference, null with an exception.
PyObject* state_snapshot_difference(PyObject* snapshot);

// Adds StateSnapshot to the module; 0, or -1 with an exception.
int init_torch_state(PyObject* module);

}  // namespace framehook
