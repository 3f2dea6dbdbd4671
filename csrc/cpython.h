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
// docs/python-versions.md holds the checklist.
#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#    error "framehook supports CPython 3.11, 3.12 and 3.13, with the GIL; these are the headers of another"
#endif
// 3.13 can be built without the GIL; the assumption above does not hold there.
#ifdef Py_GIL_DISABLED
#    error "framehook supports CPython 3.11, 3.12 and 3.13, with the GIL; these headers are free-threaded"
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

// While it lives, the thread may recurse so much deeper than `sys.setrecursionlimit` says: our own Python
// code needs some of that wherever the user's program stands.  Another thread never sees a changed limit.
class ExtraRecursion {
  public:
    ExtraRecursion();
    ~ExtraRecursion();
    ExtraRecursion(const ExtraRecursion&) = delete;
    ExtraRecursion& operator=(const ExtraRecursion&) = delete;
};

// ---- the evaluation function of the interpreter --------------------------------------------------------

_PyFrameEvalFunction current_eval_function();
void set_eval_function(_PyFrameEvalFunction evaluate);
bool interpreter_is_finalizing();
// Up to 3.13 a daemon thread that wants the GIL of a finalizing interpreter is ended by pthread_exit, which
// runs the destructors on its C++ stack without the GIL: they ask here first, and then leave everything as it
// is.
inline bool thread_may_run_python() {
    return !interpreter_is_finalizing() || PyGILState_Check();
}

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

// ---- weak references -------------------------------------------------------------------------------------

// What a weak reference points at, as a new reference; NULL without an exception once it is dead.
PyObject* weak_target(PyObject* reference);

// ---- functions and types
// -----------------------------------------------------------------------------------

// A new function from code; its builtins are `builtins`, whatever globals["__builtins__"] says now.
PyObject* new_function(PyCodeObject* code, PyObject* globals, PyObject* builtins, PyObject* closure);
// Let instances of a Python subclass be called through the vectorcall slot that its base defines.
void restore_vectorcall(PyTypeObject* subtype);

bool init_cpython();

// ---- dict versions
// ----------------------------------------------------------------------------------------- A version proves
// only that this dict holds the same objects under the same keys.

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

// Give the dict a table of its own, so that from now on every change moves its version.  Runs no Python, and
// nobody can tell: the same keys in the same order, the same values.  Attribute access is a little slower.
void make_dict_version_reliable(PyObject* dict);

// ---- instance dicts
// ------------------------------------------------------------------------------------------

// The `__dict__` of `object` as it is now (borrowed), or NULL: no dict, or none made yet (attributes kept as
// inline values).  Makes nothing, so nothing is left behind.
PyObject* existing_instance_dict(PyObject* object);

}  // namespace framehook

// ---- Dicts, types and members, as guard programs read them --------------------------------------
//
// A guard program may run no Python while it walks an object graph: it holds borrowed pointers.  The
// public lookups (PyDict_GetItem, _PyType_Lookup) call `__eq__` of a foreign key whose hash collides,
// so the lookups here walk the tables themselves and answer "undecided" instead.

namespace framehook {

// Layout of `struct _dictkeysobject` (pycore_dict.h); the same in 3.11, 3.12 and 3.13 with the GIL.
// The index table follows, then the entries.
struct DictKeysLayout {
    Py_ssize_t refcount;
    uint8_t log2_size;
    uint8_t log2_index_bytes;
    uint8_t kind;
    uint32_t version;
    Py_ssize_t usable;
    Py_ssize_t entry_count;
};
static_assert(sizeof(DictKeysLayout) == 32);
constexpr uint8_t kDictKeysGeneral = 0;  // entries carry their hash; otherwise all keys are exact str

struct DictEntryGeneral {
    Py_hash_t hash;
    PyObject* key;
    PyObject* value;
};

struct DictEntryUnicode {
    PyObject* key;
    PyObject* value;
};

// Values of a split table.  3.13 put four bytes of bookkeeping in front of the pointers.
inline PyObject* const* dict_split_values(PyDictObject* dict) {
#if PY_VERSION_HEX >= 0x030D0000
    return reinterpret_cast<PyObject* const*>(reinterpret_cast<char*>(dict->ma_values) + sizeof(PyObject*));
#else
    return reinterpret_cast<PyObject* const*>(dict->ma_values);
#endif
}

// True for exact built-in scalars and tuples or frozensets of them: comparing two such runs no Python.
bool is_plain_key(PyObject* key);

enum class Lookup { kFound, kAbsent, kUndecided };

// Finds `key` (hash known) in a dict without running Python.  `hint` is the entry found last time.
// `kUndecided`: a foreign object with the same hash is in the way, only its `__eq__` could tell.
Lookup dict_find_slow(PyDictObject* dict, PyObject* key, Py_hash_t hash, uint32_t* hint, PyObject** value);

inline Lookup dict_find(PyObject* dict, PyObject* key, Py_hash_t hash, uint32_t* hint, PyObject** value) {
    auto* d = reinterpret_cast<PyDictObject*>(dict);
    auto* keys = reinterpret_cast<DictKeysLayout*>(d->ma_keys);
    if (static_cast<Py_ssize_t>(*hint) < keys->entry_count && keys->kind != kDictKeysGeneral) {
        auto* entries = reinterpret_cast<DictEntryUnicode*>(reinterpret_cast<char*>(keys + 1) +
                                                            (size_t{1} << keys->log2_index_bytes));
        if (entries[*hint].key == key) {
            *value = d->ma_values != nullptr ? dict_split_values(d)[*hint] : entries[*hint].value;
            return *value != nullptr ? Lookup::kFound : Lookup::kAbsent;
        }
    }
    return dict_find_slow(d, key, hash, hint, value);
}

// The instance dict of an object, borrowed, or null.  Values kept outside of a dict are made into one
// (as reading `obj.__dict__` does), which allocates: the garbage collector must be off on 3.11.
inline PyObject* instance_dict(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
#if PY_VERSION_HEX >= 0x030C0000
    // 3.12: static built-in types keep their dict per interpreter, `tp_dict` may be null.
    if (PyType_Check(object)) {
        PyObject* dict = PyType_GetDict(reinterpret_cast<PyTypeObject*>(object));
        Py_XDECREF(dict);  // the type keeps it
        return dict;
    }
#endif
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
#if PY_VERSION_HEX >= 0x030D0000 || PY_VERSION_HEX < 0x030C0000
        PyObject* dict = reinterpret_cast<PyObject**>(object)[-3];
        if (dict != nullptr) return dict;
#else
        // 3.12: one word for both; its lowest bit says that it holds values, not a dict.
        uintptr_t word = reinterpret_cast<uintptr_t*>(object)[-3];
        if (word != 0 && (word & 1) == 0) return reinterpret_cast<PyObject*>(word);
#endif
    }
    PyObject** place = _PyObject_GetDictPtr(object);
    return place != nullptr ? *place : nullptr;
}

// Starts to load the instance dict of an object.
inline void prefetch_instance_dict(PyObject* object) {
    if (object == nullptr || !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return;
    __builtin_prefetch(reinterpret_cast<PyObject**>(object)[-3]);
}

// The bases of a class as its `__bases__` shows them, borrowed.
inline PyObject* type_bases(PyObject* type) {
    return reinterpret_cast<PyTypeObject*>(type)->tp_bases;
}

// Goes through a set in the order that iterating over it gives.
class SetWalk {
  public:
    explicit SetWalk(PyObject* set) : set_(set) {}
    // The next member, borrowed, or null at the end.
    PyObject* next();

  private:
    PyObject* set_;
    Py_ssize_t position_ = 0;
};

// 3.13 deprecated the call that returns a borrowed reference.
inline bool weakref_is_dead(PyObject* reference) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* object = nullptr;
    if (PyWeakref_GetRef(reference, &object) < 0) PyErr_Clear();
    Py_XDECREF(object);
    return object == nullptr;
#else
    return PyWeakref_GetObject(reference) == Py_None;
#endif
}

// The version of a type and all of its bases; 0 when it has none (just modified, or tags ran out).
inline uint32_t type_version(PyObject* type) {
    auto* t = reinterpret_cast<PyTypeObject*>(type);
#if PY_VERSION_HEX < 0x030D0000
    if ((t->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) == 0) return 0;
#endif
    return t->tp_version_tag;
}

// Asks CPython to give a type a version again after it was modified.  Runs no Python.
void type_assign_version(PyObject* type);

// The raw attribute `name` along the MRO (no descriptor is called, no metaclass is asked), borrowed.
Lookup type_find(PyObject* type, PyObject* name, Py_hash_t hash, PyObject** value);

// Walks the keys of a dict in the order a person sees: OrderedDict keeps its own order in a linked list.
class DictKeyWalk {
  public:
    explicit DictKeyWalk(PyObject* dict);
    // The next key, borrowed, or null at the end.
    PyObject* next();

  private:
    PyObject* dict_;
    Py_ssize_t position_ = 0;
    void* node_ = nullptr;
    bool is_ordered_;
};

// The garbage collector runs finalizers, that is Python, inside an allocation on 3.11.  Since 3.12 it runs
// only between bytecodes.
class NoCollection {
  public:
#if PY_VERSION_HEX < 0x030C0000
    NoCollection() : was_enabled_(PyGC_Disable()) {}
    ~NoCollection() {
        if (was_enabled_) PyGC_Enable();
    }

  private:
    int was_enabled_;
#else
    NoCollection() {}
    ~NoCollection() {}
#endif
    NoCollection(const NoCollection&) = delete;
    NoCollection& operator=(const NoCollection&) = delete;
};

}  // namespace framehook
