// The version-dependent half of csrc/: frames, evaluation functions, monitoring, co_extra.
#include "cpython.h"

#include <cstring>

// CPython's C11 atomics do not parse as C++; its builtin-based ones have the same layout.
#undef HAVE_STD_ATOMIC
#define Py_BUILD_CORE 1
#if PY_VERSION_HEX >= 0x030c0000
// 3.12: the monitors of sys.monitoring live in the interpreter state, which only this header describes; it
// redefines a macro of the public headers as a function.
#    undef _PyGC_FINALIZED
#    include "internal/pycore_interp.h"
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

bool frame_belongs_to_generator(Frame* frame) {
    return frame->owner == FRAME_OWNED_BY_GENERATOR;
}

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

// An inlined call costs several of the tracer's: its depth (tracer.MAX_DEPTH) with a wide margin.
static constexpr int extra_recursion = 5000;

static int& recursion_remaining() {
    PyThreadState* ts = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030c0000
    return ts->py_recursion_remaining;  // 3.12 counts Python recursion apart from C recursion
#else
    return ts->recursion_remaining;
#endif
}

ExtraRecursion::ExtraRecursion() {
    recursion_remaining() += extra_recursion;
}

ExtraRecursion::~ExtraRecursion() {
    if (!thread_may_run_python()) return;
    recursion_remaining() -= extra_recursion;
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
    PyObject* keywords = Py_BuildValue("{s:y#,s:(O),s:i}", "co_code", bytes, Py_ssize_t{2}, "co_consts", none,
                                       "co_stacksize", 1);
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
#    if PY_VERSION_HEX >= 0x030d0000
    frame->f_executable = reinterpret_cast<PyObject*>(clearing_code);
    frame->instr_ptr = _PyCode_CODE(clearing_code);  // 3.13: points at the next instruction
#    else
    frame->f_code = clearing_code;
    frame->prev_instr = _PyCode_CODE(clearing_code) - 1;  // 3.12: points before the next instruction
#    endif
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
#    define REQUEST_EXTRA PyUnstable_Eval_RequestCodeExtraIndex
#    define GET_EXTRA PyUnstable_Code_GetExtra
#    define SET_EXTRA PyUnstable_Code_SetExtra
#else
#    define REQUEST_EXTRA _PyEval_RequestCodeExtraIndex
#    define GET_EXTRA _PyCode_GetExtra
#    define SET_EXTRA _PyCode_SetExtra
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

// ---- weak references -------------------------------------------------------------------------------------

PyObject* weak_target(PyObject* reference) {
#if PY_VERSION_HEX >= 0x030d0000
    PyObject* target = nullptr;  // 3.13: the function that returns a borrowed reference is deprecated
    if (PyWeakref_GetRef(reference, &target) < 0) PyErr_Clear();
    return target;
#else
    PyObject* target = PyWeakref_GetObject(reference);
    if (target == nullptr || target == Py_None) return nullptr;
    Py_INCREF(target);
    return target;
#endif
}

// ---- functions and types
// -----------------------------------------------------------------------------------

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

// ---- dict versions
// -----------------------------------------------------------------------------------------

void make_dict_version_reliable(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030d0000
    // 3.13: taking out the last item is what makes a table of its own; it goes back to where it was.
    static PyObject* popitem = PyUnicode_InternFromString("popitem");
    if (popitem == nullptr || !PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) == 0) return;
    PyObject* item = PyObject_CallMethodNoArgs(dict, popitem);
    if (item == nullptr || PyDict_SetItem(dict, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1)) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(item);
#else
    (void)dict;  // the versions of all dicts are reliable
#endif
}

// ---- instance dicts
// ------------------------------------------------------------------------------------------

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

// ---- Dicts, types and members, as guard programs read them --------------------------------------

// Exported by CPython on all versions; 3.13 moved its declaration to an internal header.
extern "C" PyAPI_FUNC(int)
    _PySet_NextEntry(PyObject* set, Py_ssize_t* position, PyObject** key, Py_hash_t* hash);

namespace framehook {

PyObject* SetWalk::next() {
    PyObject* member;
    Py_hash_t hash;
    return _PySet_NextEntry(set_, &position_, &member, &hash) ? member : nullptr;
}

bool is_plain_key(PyObject* key) {
    PyTypeObject* type = Py_TYPE(key);
    if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
        type == &PyBytes_Type || type == &PyComplex_Type || key == Py_None || key == Py_Ellipsis) {
        return true;
    }
    if (type == &PyTuple_Type) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
            if (!is_plain_key(PyTuple_GET_ITEM(key, i))) return false;
        }
        return true;
    }
    if (type == &PyFrozenSet_Type) {
        SetWalk members(key);
        while (PyObject* member = members.next()) {
            if (!is_plain_key(member)) return false;
        }
        return true;
    }
    return false;
}

namespace {

// Whether two different key objects of equal hash are equal.
Lookup keys_equal(PyObject* stored, PyObject* wanted) {
    if (PyUnicode_CheckExact(stored) && PyUnicode_CheckExact(wanted)) {
        return PyUnicode_Compare(stored, wanted) == 0 ? Lookup::kFound : Lookup::kAbsent;
    }
    if (is_plain_key(stored) && is_plain_key(wanted)) {
        int equal = PyObject_RichCompareBool(stored, wanted, Py_EQ);
        if (equal < 0) PyErr_Clear();
        return equal == 1 ? Lookup::kFound : equal == 0 ? Lookup::kAbsent : Lookup::kUndecided;
    }
    // Objects that compare by identity: `object.__eq__`, and classes (their metaclass permitting).
    if (is_plain_key(wanted) && Py_TYPE(stored)->tp_richcompare == PyBaseObject_Type.tp_richcompare) {
        return Lookup::kAbsent;
    }
    return Lookup::kUndecided;
}

Py_ssize_t index_at(const DictKeysLayout* keys, size_t slot) {
    const char* indices = reinterpret_cast<const char*>(keys + 1);
    if (keys->log2_size < 8) return reinterpret_cast<const int8_t*>(indices)[slot];
    if (keys->log2_size < 16) return reinterpret_cast<const int16_t*>(indices)[slot];
    if (keys->log2_size < 32) return reinterpret_cast<const int32_t*>(indices)[slot];
    return static_cast<Py_ssize_t>(reinterpret_cast<const int64_t*>(indices)[slot]);
}

constexpr Py_ssize_t kEmptySlot = -1;
constexpr int kPerturbShift = 5;

}  // namespace

Lookup dict_find_slow(PyDictObject* dict, PyObject* key, Py_hash_t hash, uint32_t* hint, PyObject** value) {
    auto* keys = reinterpret_cast<DictKeysLayout*>(dict->ma_keys);
    char* table = reinterpret_cast<char*>(keys + 1) + (size_t{1} << keys->log2_index_bytes);
    const bool general = keys->kind == kDictKeysGeneral;
    if (!general && !PyUnicode_CheckExact(key) && is_plain_key(key)) {
        *value = nullptr;
        return Lookup::kAbsent;
    }
    const size_t mask = (size_t{1} << keys->log2_size) - 1;
    size_t perturb = static_cast<size_t>(hash);
    size_t slot = static_cast<size_t>(hash) & mask;
    for (;;) {
        Py_ssize_t index = index_at(keys, slot);
        if (index == kEmptySlot) {
            *value = nullptr;
            return Lookup::kAbsent;
        }
        if (index >= 0) {
            PyObject* stored;
            PyObject* found;
            bool same_hash;
            if (general) {
                auto* entry = reinterpret_cast<DictEntryGeneral*>(table) + index;
                stored = entry->key;
                found = entry->value;
                same_hash = entry->hash == hash;
            } else {
                auto* entry = reinterpret_cast<DictEntryUnicode*>(table) + index;
                stored = entry->key;
                found = dict->ma_values != nullptr ? dict_split_values(dict)[index] : entry->value;
                same_hash = stored == key || reinterpret_cast<PyASCIIObject*>(stored)->hash == hash;
            }
            Lookup equal = stored == key ? Lookup::kFound : Lookup::kAbsent;
            if (equal == Lookup::kAbsent && same_hash) equal = keys_equal(stored, key);
            if (equal == Lookup::kUndecided) {
                *value = nullptr;
                return Lookup::kUndecided;
            }
            if (equal == Lookup::kFound) {
                *hint =
                    index <= static_cast<Py_ssize_t>(UINT32_MAX) ? static_cast<uint32_t>(index) : UINT32_MAX;
                *value = found;
                return found != nullptr ? Lookup::kFound : Lookup::kAbsent;
            }
        }
        perturb >>= kPerturbShift;
        slot = (slot * 5 + perturb + 1) & mask;
    }
}

void type_assign_version(PyObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
    PyUnstable_Type_AssignVersionTag(reinterpret_cast<PyTypeObject*>(type));
#else
    // 3.11 assigns one only as a side effect of a lookup.  No key of a class dict has this name's hash by
    // chance, so no foreign `__eq__` is called.
    static PyObject* name = PyUnicode_InternFromString("__framehook_version__");
    if (name != nullptr) _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), name);
#endif
}

Lookup type_find(PyObject* type, PyObject* name, Py_hash_t hash, PyObject** value) {
    *value = nullptr;
    PyObject* mro = reinterpret_cast<PyTypeObject*>(type)->tp_mro;
    if (mro == nullptr) return Lookup::kUndecided;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        PyObject* base = PyTuple_GET_ITEM(mro, i);
#if PY_VERSION_HEX >= 0x030C0000
        PyObject* dict = instance_dict(base);
#else
        PyObject* dict = reinterpret_cast<PyTypeObject*>(base)->tp_dict;
#endif
        if (dict == nullptr) return Lookup::kUndecided;
        uint32_t hint = UINT32_MAX;
        Lookup found = dict_find(dict, name, hash, &hint, value);
        if (found != Lookup::kAbsent) return found;
    }
    return Lookup::kAbsent;
}

namespace {

// Head of `struct _odictobject` and `struct _odictnode` (Objects/odictobject.c), the same in 3.11 to 3.13.
struct OrderedNodeLayout {
    PyObject* key;
    Py_hash_t hash;
    OrderedNodeLayout* next;
    OrderedNodeLayout* previous;
};

struct OrderedDictLayout {
    PyDictObject dict;
    OrderedNodeLayout* first;
    OrderedNodeLayout* last;
};

}  // namespace

DictKeyWalk::DictKeyWalk(PyObject* dict) : dict_(dict), is_ordered_(PyODict_Check(dict)) {
    if (is_ordered_) node_ = reinterpret_cast<OrderedDictLayout*>(dict)->first;
}

PyObject* DictKeyWalk::next() {
    if (is_ordered_) {
        auto* node = static_cast<OrderedNodeLayout*>(node_);
        if (node == nullptr) return nullptr;
        node_ = node->next;
        return node->key;
    }
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    return PyDict_Next(dict_, &position_, &key, &value) ? key : nullptr;
}

}  // namespace framehook
