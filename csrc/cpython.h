// Every line that depends on the CPython version, behind names that mean the same on 3.11, 3.12 and 3.13.
// The rest of csrc/ never asks for a version.  Each `#if` says what changed in CPython and since when.
//
// GIL assumption of the whole extension: every function runs with the GIL held, and nothing here releases
// it.  State shared by threads (records, entries, the chain of evaluation functions) therefore needs no lock
// as long as it is consistent whenever Python code may run: before every DECREF and every call.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

// 3.14 rewrote frames (stack references), dropped RETURN_CONST and dict versions: another port of this file.
#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#error "framehook supports CPython 3.11, 3.12 and 3.13"
#endif
// 3.13 can be built without the GIL; the assumption above does not hold there.
#ifdef Py_GIL_DISABLED
#error "framehook needs a CPython with the GIL"
#endif

namespace framehook {

using Frame = struct _PyInterpreterFrame;

// ---- frames ------------------------------------------------------------------------------------------

// What the way of a call needs of a frame that has not started.  All pointers are borrowed from it.
struct FrameView {
    PyObject* function;  // NULL if the frame was not made by a function
    PyObject* globals;
    PyObject* builtins;
    PyObject* closure;  // tuple of cells or NULL
    PyObject* const* slots;
};

PyCodeObject* frame_code(Frame* frame);
FrameView view_frame(Frame* frame);
// A function's frame with fast locals: not of a generator, a class body or a module.
bool frame_is_plain_call(Frame* frame);
bool frame_belongs_to_generator(Frame* frame);
// Evaluate `frame` by `evaluate`, giving back the C-recursion units that the nested interpreter consumes.
PyObject* evaluate_frame_by(_PyFrameEvalFunction evaluate, PyThreadState* ts, Frame* frame, int throwflag);
// The evaluation function did not run `frame`: do what CPython expects it to have done with the frame.
// A pending exception survives.  Returns false with an exception set if clearing itself failed.
bool finish_unrun_frame(PyThreadState* ts, Frame* frame);

// ---- the evaluation function of the interpreter --------------------------------------------------------

_PyFrameEvalFunction current_eval_function();
void set_eval_function(_PyFrameEvalFunction evaluate);
bool interpreter_is_finalizing();

// ---- observers -----------------------------------------------------------------------------------------

#if PY_VERSION_HEX >= 0x030c0000
// 3.12 (PEP 669): tools register through sys.monitoring and leave no trace in the thread state.
bool monitoring_sees(PyThreadState* ts, PyCodeObject* code);
#endif

// Whether a trace, profile or monitoring tool would see frames of `code` on this thread.
inline bool frame_is_observed(PyThreadState* ts, PyCodeObject* code) {
    if (ts->c_tracefunc != nullptr || ts->c_profilefunc != nullptr) return true;
#if PY_VERSION_HEX >= 0x030c0000
    return monitoring_sees(ts, code);
#else
    (void)code;  // 3.11: the two functions above are all there is
    return false;
#endif
}

// ---- one pointer on each code object ---------------------------------------------------------------------

// Reserve the slot; `release` runs when a code object dies, with NULL if nothing was stored.
bool request_code_slot(freefunc release);
void* code_slot(PyCodeObject* code);
bool set_code_slot(PyCodeObject* code, void* value);

// ---- exceptions ------------------------------------------------------------------------------------------

// The pending exception as one normalized object (new reference, NULL if none), and its way back.
PyObject* take_exception();
void restore_exception(PyObject* exception);

// ---- functions and types -----------------------------------------------------------------------------------

// A new function from code; its builtins are `builtins`, whatever globals["__builtins__"] says now.
PyObject* new_function(PyCodeObject* code, PyObject* globals, PyObject* builtins, PyObject* closure);
// Let instances of a Python subclass be called through the vectorcall slot that its base defines.
void restore_vectorcall(PyTypeObject* subtype);

bool init_cpython();

// ---- dict versions -----------------------------------------------------------------------------------------
// A version proves only that this dict holds the same objects under the same keys.

#pragma GCC diagnostic push
// 3.12 marks ma_version_tag as deprecated (it is gone in 3.14); up to 3.13 it is kept up to date.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
inline uint64_t dict_version(PyObject* dict) {
    uint64_t tag = reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#if PY_VERSION_HEX >= 0x030d0000
    return tag >> 12;  // 3.13: bits 0-7 are watchers, 8-11 count watched mutations
#elif PY_VERSION_HEX >= 0x030c0000
    return tag >> 8;  // 3.12: bits 0-7 are watchers (PEP 510's tag shares its word since then)
#else
    return tag;
#endif
}
#pragma GCC diagnostic pop

// Whether every change of this dict moves its version.
inline bool dict_version_is_reliable(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030d0000
    // 3.13: values that are still shared with (or embedded in) an instance are stored to behind the dict's
    // back, without a new version and without watcher events.
    return reinterpret_cast<PyDictObject*>(dict)->ma_values == nullptr;
#else
    (void)dict;
    return true;
#endif
}

// ---- instance dicts ------------------------------------------------------------------------------------------

// The `__dict__` of `object` as it is now (borrowed), or NULL: no dict, or none made yet (attributes kept as
// inline values).  Makes nothing, so nothing is left behind.
PyObject* existing_instance_dict(PyObject* object);

}  // namespace framehook
