// The version-dependent half of csrc/: frames, evaluation functions, monitoring, co_extra.
#include "cpython.h"

#include <cstring>

// CPython's C11 atomics do not parse as C++; its builtin-based ones have the same layout.
#undef HAVE_STD_ATOMIC
#define Py_BUILD_CORE 1
#if PY_VERSION_HEX >= 0x030c0000
// 3.12: the monitors of sys.monitoring live in the interpreter state, which only this header describes; it
// redefines a macro of the public headers as a function.
#undef _PyGC_FINALIZED
#include "internal/pycore_interp.h"
#endif
#include "internal/pycore_code.h"
#include "internal/pycore_frame.h"
#undef Py_BUILD_CORE

namespace framehook {

// ---- frames ------------------------------------------------------------------------------------------

PyCodeObject* frame_code(Frame* frame) {
#if PY_VERSION_HEX >= 0x030d0000
    return reinterpret_cast<PyCodeObject*>(frame->f_executable);  // 3.13: any executable, so a PyObject*
#else
    return frame->f_code;
#endif
}

FrameView view_frame(Frame* frame) {
#if PY_VERSION_HEX >= 0x030c0000
    PyObject* function = frame->f_funcobj;  // 3.12: renamed, and no longer always a function
    if (function != nullptr && !PyFunction_Check(function)) function = nullptr;
#else
    PyObject* function = reinterpret_cast<PyObject*>(frame->f_func);
#endif
    PyObject* closure =
        function == nullptr ? nullptr : reinterpret_cast<PyFunctionObject*>(function)->func_closure;
    return {function, frame->f_globals, frame->f_builtins, closure, frame->localsplus};
}

bool frame_is_plain_call(Frame* frame) {
    return frame->owner == FRAME_OWNED_BY_THREAD && frame->f_locals == nullptr;
}

bool frame_belongs_to_generator(Frame* frame) { return frame->owner == FRAME_OWNED_BY_GENERATOR; }

#if PY_VERSION_HEX >= 0x030c0000
// 3.12 counts C recursion apart from Python recursion, and an evaluation called from C takes this many units
// (PY_EVAL_C_STACK_UNITS in ceval.c).  Without a hook a Python-to-Python call takes none.
static constexpr int units_of_one_evaluation = 2;
#endif

PyObject* evaluate_frame_by(_PyFrameEvalFunction evaluate, PyThreadState* ts, Frame* frame, int throwflag) {
#if PY_VERSION_HEX >= 0x030c0000
    // The units guard the C stack; the hook itself checks what is left of that.
    ts->c_recursion_remaining += units_of_one_evaluation;
    PyObject* result = evaluate(ts, frame, throwflag);
    ts->c_recursion_remaining -= units_of_one_evaluation;
    return result;
#else
    return evaluate(ts, frame, throwflag);
#endif
}

#if PY_VERSION_HEX >= 0x030c0000
static PyCodeObject* clearing_code;

// A bare RETURN_CONST: without RESUME there are no trace or monitoring events and no look at pending signals,
// and the frame counts as incomplete, so that nobody sees it.
static bool make_clearing_code() {
    PyObject* opcode = PyImport_ImportModule("opcode");
    if (opcode == nullptr) return false;
    PyObject* opmap = PyObject_GetAttrString(opcode, "opmap");
    Py_DECREF(opcode);
    if (opmap == nullptr) return false;
    PyObject* number = PyMapping_GetItemString(opmap, "RETURN_CONST");
    Py_DECREF(opmap);
    if (number == nullptr) return false;
    char bytes[2] = {static_cast<char>(PyLong_AsLong(number)), 0};
    Py_DECREF(number);
    PyCodeObject* empty = PyCode_NewEmpty("framehook", "<clear>", 0);
    if (empty == nullptr) return false;
    PyObject* replace = PyObject_GetAttrString(reinterpret_cast<PyObject*>(empty), "replace");
    Py_DECREF(empty);
    if (replace == nullptr) return false;
    PyObject* none = Py_None;
    PyObject* keywords =
        Py_BuildValue("{s:y#,s:(O),s:i}", "co_code", bytes, Py_ssize_t{2}, "co_consts", none, "co_stacksize", 1);
    PyObject* arguments = PyTuple_New(0);
    PyObject* code = nullptr;
    if (keywords != nullptr && arguments != nullptr) code = PyObject_Call(replace, arguments, keywords);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    Py_DECREF(replace);
    clearing_code = reinterpret_cast<PyCodeObject*>(code);
    return code != nullptr;
}
#endif

bool finish_unrun_frame(PyThreadState* ts, Frame* frame) {
#if PY_VERSION_HEX >= 0x030c0000
    // 3.12: the evaluation function owns the frame and must clear and pop it.  The functions that do so are
    // not exported; the interpreter itself does it when a frame returns.
    PyObject* exception = PyErr_GetRaisedException();
    PyCodeObject* original = frame_code(frame);
    Py_INCREF(clearing_code);
#if PY_VERSION_HEX >= 0x030d0000
    frame->f_executable = reinterpret_cast<PyObject*>(clearing_code);
    frame->instr_ptr = _PyCode_CODE(clearing_code);  // 3.13: points at the next instruction
#else
    frame->f_code = clearing_code;
    frame->prev_instr = _PyCode_CODE(clearing_code) - 1;  // 3.12: points before the next instruction
#endif
    // Room for the recursion checks of the interpreter, so that clearing cannot fail.
    ts->py_recursion_remaining += 1;
    PyObject* none = evaluate_frame_by(_PyEval_EvalFrameDefault, ts, frame, 0);
    ts->py_recursion_remaining -= 1;
    Py_DECREF(original);
    if (none == nullptr) {
        Py_XDECREF(exception);
        return false;
    }
    Py_DECREF(none);
    if (exception != nullptr) PyErr_SetRaisedException(exception);
    return true;
#else
    (void)ts;  // 3.11: the caller of the evaluation function clears the frame
    (void)frame;
    return true;
#endif
}

// ---- the evaluation function of the interpreter --------------------------------------------------------

_PyFrameEvalFunction current_eval_function() {
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
}

void set_eval_function(_PyFrameEvalFunction evaluate) {
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluate);
}

bool interpreter_is_finalizing() {
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsFinalizing() != 0;  // 3.13: public
#else
    return _Py_IsFinalizing() != 0;
#endif
}

// ---- observers -----------------------------------------------------------------------------------------

#if PY_VERSION_HEX >= 0x030c0000
static bool any_tool(const uint8_t* tools, size_t count) {
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++) any |= tools[i];
    return any != 0;
}

bool monitoring_sees(PyThreadState* ts, PyCodeObject* code) {
    const auto& everywhere = ts->interp->monitors;
    if (any_tool(everywhere.tools, sizeof(everywhere.tools))) return true;
    const _PyCoMonitoringData* here = code->_co_monitoring;
    return here != nullptr && any_tool(here->local_monitors.tools, sizeof(here->local_monitors.tools));
}
#endif

// ---- one pointer on each code object ---------------------------------------------------------------------

// 3.12 (PEP 689) gave the co_extra functions their PyUnstable_ names; the old ones are deprecated there.
#if PY_VERSION_HEX >= 0x030c0000
#define REQUEST_EXTRA PyUnstable_Eval_RequestCodeExtraIndex
#define GET_EXTRA PyUnstable_Code_GetExtra
#define SET_EXTRA PyUnstable_Code_SetExtra
#else
#define REQUEST_EXTRA _PyEval_RequestCodeExtraIndex
#define GET_EXTRA _PyCode_GetExtra
#define SET_EXTRA _PyCode_SetExtra
#endif

static Py_ssize_t extra_index = -1;

bool request_code_slot(freefunc release) {
    extra_index = REQUEST_EXTRA(release);
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no co_extra index left in this interpreter");
        return false;
    }
    return true;
}

void* code_slot(PyCodeObject* code) {
    void* value = nullptr;
    GET_EXTRA(reinterpret_cast<PyObject*>(code), extra_index, &value);
    return value;
}

bool set_code_slot(PyCodeObject* code, void* value) {
    return SET_EXTRA(reinterpret_cast<PyObject*>(code), extra_index, value) == 0;
}

// ---- exceptions ------------------------------------------------------------------------------------------

PyObject* take_exception() {
#if PY_VERSION_HEX >= 0x030c0000
    return PyErr_GetRaisedException();  // 3.12: the thread state keeps one normalized object
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == nullptr) return nullptr;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr) PyException_SetTraceback(value, traceback);
    Py_DECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

void restore_exception(PyObject* exception) {
    if (exception == nullptr) return;
#if PY_VERSION_HEX >= 0x030c0000
    PyErr_SetRaisedException(exception);
#else
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(exception));
    Py_INCREF(type);
    PyErr_Restore(type, exception, PyException_GetTraceback(exception));
#endif
}

// ---- functions and types -----------------------------------------------------------------------------------

PyObject* new_function(PyCodeObject* code, PyObject* globals, PyObject* builtins, PyObject* closure) {
    PyObject* function = PyFunction_New(reinterpret_cast<PyObject*>(code), globals);
    if (function == nullptr) return nullptr;
    auto* raw = reinterpret_cast<PyFunctionObject*>(function);
    // Fields set before the first call, so no version or specialization has been handed out for the function.
    if (raw->func_builtins != builtins) {
        Py_INCREF(builtins);
        Py_SETREF(raw->func_builtins, builtins);
    }
    if (closure != nullptr) {
        Py_INCREF(closure);
        raw->func_closure = closure;
    }
    return function;
}

void restore_vectorcall(PyTypeObject* subtype) {
    // Up to 3.11 a class made by Python never inherits the flag, because its __call__ may be reassigned;
    // since 3.12 it does, and assigning __call__ takes the flag away.
    if (subtype->tp_call == PyVectorcall_Call && subtype->tp_vectorcall_offset > 0) {
        subtype->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }
}

// ---- instance dicts ------------------------------------------------------------------------------------------

PyObject* existing_instance_dict(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        char* before = reinterpret_cast<char*>(object) - 3 * sizeof(PyObject*);
        PyObject* dict = *reinterpret_cast<PyObject**>(before);
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000
        // 3.12 only: one word holds the dict or, marked by its lowest bit, the inline values (3.11 had two
        // words; since 3.13 the values are behind the object).
        if (reinterpret_cast<uintptr_t>(dict) & 1) return nullptr;
#endif
        return dict;
    }
    if (type->tp_dictoffset == 0) return nullptr;
    PyObject** place = _PyObject_GetDictPtr(object);
    return place == nullptr ? nullptr : *place;
}

bool init_cpython() {
#if PY_VERSION_HEX >= 0x030c0000
    return make_clearing_code();
#else
    return true;
#endif
}

}  // namespace framehook
