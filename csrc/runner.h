// From a frame to its result: look up, miss callback, run the entry, follow continuations.
#pragma once

#include "hook.h"

namespace framehook {

struct ContinuationObject {
    PyObject_VAR_HEAD PyObject* code_reference;
    PyObject* function;  // of a frame below the one that goes on; NULL until it is known
    PyObject* values[1];
};

// What is to become of a frame.
enum class Outcome {
    result,           // the result is there, or NULL with an exception
    eager,            // evaluate the frame as if we were not here
    eager_recursive,  // the same, with capture off for all below
};

// `slots` are the raw argument slots.  The caller keeps them, the handle and the code object alive.
Outcome run_frame(const FrameContext& frame, CodeRecord* record, PyObject* const* slots, Py_ssize_t count,
                  PyObject** result);
// Runs an entry that was found to hold and follows its continuations; takes over the references in `found`.
// Outcome::eager: its graph failed before it changed anything.
Outcome run_found(const FrameContext& frame, Found& found, PyObject* const* slots, Py_ssize_t count,
                  PyObject** result);
// The values of a continuation now live in the frame that it started.
void release_values(ContinuationObject* continuation);

// Remember that the pending exception came from a graph that changed nothing.
void mark_graph_failure(ThreadRoom& room);

// Classifies on first sight: 1, 0, or -1 with an exception that is not the classification's own (Ctrl-C).
int is_candidate(CodeRecord* record);

extern PyMethodDef runner_functions[];
int init_runner(PyObject* module);

}  // namespace framehook
