// CompiledCallable, what compile() returns: the second way, besides the hook, in which a frame comes to us.
// Whole entries run right here.  Everything else turns capture on and calls the function, so that the hook
// does it.  Also the two callables around which capture is off: compiled graphs and disabled functions.
#include "callable.h"

#include <structmember.h>

#include <algorithm>
#include <vector>

namespace framehook {

// ---- CompiledCallable ------------------------------------------------------------------------------------

struct CompiledCallableObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* target;            // what the user gave
    PyFunctionObject* function;  // the Python function behind it, or NULL
    PyObject* self;              // first argument of a bound method, or NULL
    HandleObject* handle;
    PyObject* dict;
    PyObject* weak_references;
};

static PyTypeObject CompiledCallableType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// The argument slots of a call, with a counted reference in each.
class BoundArguments {
  public:
    explicit BoundArguments(CodeRecord* record) : code_(record->code), count_(record->slot_count) {
        if (count_ > slots_on_stack) slots_ = new PyObject*[static_cast<size_t>(count_)];
        for (Py_ssize_t i = 0; i < count_; i++) slots_[i] = nullptr;
    }
    ~BoundArguments() {
        if (!thread_may_run_python()) return;
        for (Py_ssize_t i = 0; i < count_; i++) Py_XDECREF(slots_[i]);
        if (slots_ != on_stack_) delete[] slots_;
    }
    BoundArguments(const BoundArguments&) = delete;
    BoundArguments& operator=(const BoundArguments&) = delete;

    PyObject* const* slots() const { return slots_; }
    Py_ssize_t count() const { return count_; }

    // False, without an exception: the call does not fit, or is too odd to say.  Eager Python will tell.
    bool bind(PyFunctionObject* function, PyObject* self, PyObject* const* args, Py_ssize_t positional,
              PyObject* keywords) {
        if (bind_positional(self, args, positional) && bind_keywords(args + positional, keywords) &&
            fill_defaults(function)) {
            return true;
        }
        PyErr_Clear();
        return false;
    }

  private:
    static constexpr Py_ssize_t slots_on_stack = 64;

    int named() const { return code_->co_argcount + code_->co_kwonlyargcount; }

    void put(Py_ssize_t slot, PyObject* value) {
        Py_INCREF(value);
        slots_[slot] = value;
    }

    bool bind_positional(PyObject* self, PyObject* const* args, Py_ssize_t positional) {
        Py_ssize_t bound = self != nullptr;
        Py_ssize_t given = positional + bound;
        Py_ssize_t fitting = given < code_->co_argcount ? given : code_->co_argcount;
        bool has_rest = (code_->co_flags & CO_VARARGS) != 0;
        if (given > fitting && !has_rest) return false;
        for (Py_ssize_t i = 0; i < fitting; i++) put(i, i < bound ? self : args[i - bound]);
        if (!has_rest) return true;
        PyObject* rest = PyTuple_New(given - fitting);
        if (rest == nullptr) return false;
        for (Py_ssize_t i = fitting; i < given; i++) {
            PyObject* value = i < bound ? self : args[i - bound];
            Py_INCREF(value);
            PyTuple_SET_ITEM(rest, i - fitting, value);
        }
        slots_[named()] = rest;
        return true;
    }

    int slot_named(PyObject* name) const {
        PyObject* names = code_->co_localsplusnames;
        int first = code_->co_posonlyargcount;
        for (int i = first; i < named(); i++)
            if (PyTuple_GET_ITEM(names, i) == name) return i;
        for (int i = first; i < named(); i++)
            if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) return i;
        return -1;
    }

    bool bind_keywords(PyObject* const* values, PyObject* keywords) {
        PyObject* rest = nullptr;
        if (code_->co_flags & CO_VARKEYWORDS) {
            rest = PyDict_New();
            if (rest == nullptr) return false;
            slots_[count_ - 1] = rest;
        }
        Py_ssize_t count = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject* name = PyTuple_GET_ITEM(keywords, i);
            if (!PyUnicode_CheckExact(name)) return false;
            int slot = slot_named(name);
            if (slot >= 0) {
                if (slots_[slot] != nullptr) return false;
                put(slot, values[i]);
            } else if (rest == nullptr || PyDict_SetItem(rest, name, values[i]) < 0) {
                return false;
            }
        }
        return true;
    }

    bool fill_defaults(PyFunctionObject* function) {
        PyObject* defaults = function->func_defaults;
        Py_ssize_t default_count = defaults == nullptr ? 0 : PyTuple_GET_SIZE(defaults);
        Py_ssize_t first_default = code_->co_argcount - default_count;
        for (Py_ssize_t i = 0; i < code_->co_argcount; i++) {
            if (slots_[i] != nullptr) continue;
            if (i < first_default) return false;
            put(i, PyTuple_GET_ITEM(defaults, i - first_default));
        }
        for (Py_ssize_t i = code_->co_argcount; i < named(); i++) {
            if (slots_[i] != nullptr) continue;
            PyObject* name = PyTuple_GET_ITEM(code_->co_localsplusnames, i);
            PyObject* kw_defaults = function->func_kwdefaults;
            PyObject* value = kw_defaults == nullptr ? nullptr : PyDict_GetItemWithError(kw_defaults, name);
            if (value == nullptr) return false;
            put(i, value);
        }
        return true;
    }

    PyCodeObject* code_;
    Py_ssize_t count_;
    PyObject* on_stack_[slots_on_stack];
    PyObject** slots_ = on_stack_;
};

static bool is_looked_up(State state) {
    return state == State::active || state == State::frozen;
}

// The Python function that a call runs and the first argument that it adds.  References are borrowed.
struct Callee {
    PyFunctionObject* function;
    PyObject* self;
};

// A module or another object with a Python `__call__`: looked up in its class at each call, as the
// interpreter does, because somebody may have put another one there.
static Callee callee_of(CompiledCallableObject* self) {
    if (self->function != nullptr) return {self->function, self->self};
    static PyObject* call_name = PyUnicode_InternFromString("__call__");
    PyObject* call = _PyType_Lookup(Py_TYPE(self->target), call_name);
    if (call == nullptr || !PyFunction_Check(call)) return {nullptr, nullptr};
    return {reinterpret_cast<PyFunctionObject*>(call), self->target};
}

// Runs a whole entry without the hook.  False: nothing was run.
static bool run_directly(CompiledCallableObject* self, const Callee& callee, CodeRecord* record,
                         HandleCache* cache, PyObject* const* args, Py_ssize_t positional, PyObject* keywords,
                         PyObject** result) {
    PyFunctionObject* function = callee.function;
    BoundArguments bound(record);
    if (!bound.bind(function, callee.self, args, positional, keywords)) return false;
    FrameContext frame{self->handle, function->func_globals, function->func_builtins, function->func_closure,
                       reinterpret_cast<PyObject*>(function)};
    bool is_timed = is_sampled(cache->hits);
    int64_t start = is_timed ? clock_now() : 0;
    Found found;
    if (!find_entry(cache, frame, bound.slots(), bound.count(), &found)) return false;
    if (!found.entry->is_whole) {
        Py_XDECREF(found.inputs);
        Py_DECREF(found.entry);
        return false;
    }
    count_hit(cache, found.entry);
    if (run_found(frame, found, bound.slots(), bound.count(), result) == Outcome::result) {
        if (is_timed && *result != nullptr) cache->hit_times.add(cache->lookups, clock_now() - start);
        return true;
    }
    // The graph failed before it changed anything; a whole entry has no other frames to capture.
    self->handle->counters.eager_frames++;
    *result = PyObject_Vectorcall(self->target, args, static_cast<size_t>(positional), keywords);
    return true;
}

static PyObject* call_natively(CompiledCallableObject* self, PyObject* const* args, size_t nargsf,
                               PyObject* keywords) {
    return PyObject_Vectorcall(self->target, args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), keywords);
}

enum class Next { done, capture, eager };

static Next try_entries(CompiledCallableObject* self, const Callee& callee, PyObject* const* args,
                        Py_ssize_t positional, PyObject* keywords, PyObject** result) {
    auto* code = reinterpret_cast<PyCodeObject*>(callee.function->func_code);
    CodeRecord* record = existing_record(code);
    HandleCache* cache = record == nullptr ? nullptr : record->find(self->handle);
    if (cache != nullptr && cache->whole_entries > 0 && is_looked_up(record->state) &&
        is_looked_up(cache->state) && !frame_is_observed(PyThreadState_Get(), code)) {
        Py_INCREF(code);
        bool done = run_directly(self, callee, record, cache, args, positional, keywords, result);
        Py_DECREF(code);
        return done ? Next::done : Next::capture;
    }
    if (record == nullptr) record = record_of(code);
    if (record == nullptr) return Next::done;
    if (cache == nullptr) cache = cache_of(record, self->handle);
    cache->is_root = true;
    bool is_off = record->state == State::skip_recursive || cache->state == State::skip_recursive;
    return is_off ? Next::eager : Next::capture;
}

static PyObject* call_compiled(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* keywords) {
    auto* self = reinterpret_cast<CompiledCallableObject*>(callable);
    ThreadRoom& room = this_thread;
    StackRoom stack = stack_room(room);
    if (stack == StackRoom::exhausted) {
        raise_stack_exhausted();
        return nullptr;
    }
    if (room.off_depth > 0 || stack == StackRoom::low || stance_is_eager())
        return call_natively(self, args, nargsf, keywords);
    // compile inside compile: the outer handle has it.
    if (captures_entered > 0 && context_is_claimed()) return call_natively(self, args, nargsf, keywords);
    Callee callee = callee_of(self);
    if (callee.function != nullptr) {
        PyObject* result = nullptr;
        // A fallback guard may run Python that replaces the function in its class, or its __code__.
        Py_INCREF(callee.function);
        Next next = try_entries(self, callee, args, PyVectorcall_NARGS(nargsf), keywords, &result);
        Py_DECREF(callee.function);
        if (next == Next::done) return result;
        if (next == Next::eager) return call_natively(self, args, nargsf, keywords);
    }
    PyObject* token = enter_capture(self->handle);
    if (token == nullptr) return nullptr;
    PyObject* result = call_natively(self, args, nargsf, keywords);
    exit_capture(token);
    Py_DECREF(token);
    return result;
}

static PyObject* compiled_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"handle", "fn", nullptr};
    PyObject *handle, *target;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O:CompiledCallable", const_cast<char**>(names),
                                     &HandleType, &handle, &target)) {
        return nullptr;
    }
    if (!PyCallable_Check(target)) {
        PyErr_Format(PyExc_TypeError, "expected a callable, not %.200s", Py_TYPE(target)->tp_name);
        return nullptr;
    }
    auto* self = reinterpret_cast<CompiledCallableObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->vectorcall = call_compiled;
    Py_INCREF(handle);
    self->handle = reinterpret_cast<HandleObject*>(handle);
    Py_INCREF(target);
    self->target = target;
    PyObject* function = target;
    if (PyMethod_Check(target)) {
        function = PyMethod_GET_FUNCTION(target);
        if (PyFunction_Check(function)) {
            self->self = PyMethod_GET_SELF(target);
            Py_INCREF(self->self);
        }
    }
    if (PyFunction_Check(function)) {
        Py_INCREF(function);
        self->function = reinterpret_cast<PyFunctionObject*>(function);
    }
    return reinterpret_cast<PyObject*>(self);
}

static int compiled_init(PyObject*, PyObject*, PyObject*) {
    return 0;
}  // all is done in compiled_new

static int compiled_traverse(CompiledCallableObject* self, visitproc visit, void* arg) {
    Py_VISIT(self->target);
    Py_VISIT(self->function);
    Py_VISIT(self->self);
    Py_VISIT(self->handle);
    Py_VISIT(self->dict);
    return 0;
}

static void compiled_dealloc(CompiledCallableObject* self) {
    PyObject_GC_UnTrack(self);
    if (self->weak_references != nullptr) PyObject_ClearWeakRefs(reinterpret_cast<PyObject*>(self));
    Py_CLEAR(self->dict);
    Py_CLEAR(self->function);
    Py_CLEAR(self->self);
    Py_CLEAR(self->target);
    Py_CLEAR(self->handle);
    Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

// Only what its user may change breaks cycles: target and handle stay, so that it can be called to the end.
static int compiled_clear(CompiledCallableObject* self) {
    Py_CLEAR(self->dict);
    return 0;
}

static bool binds_as_method(PyObject* target);

static PyObject* compiled_get(PyObject* self, PyObject* instance, PyObject*) {
    if (instance != nullptr && instance != Py_None && binds_as_method(self))
        return PyMethod_New(self, instance);
    Py_INCREF(self);
    return self;
}

static PyObject* compiled_repr(CompiledCallableObject* self) {
    return PyUnicode_FromFormat("<framehook compiled %R>", self->target);
}

static PyObject* compiled_init_subclass(PyObject* type, PyObject* args, PyObject* kwargs) {
    PyObject* super = PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type),
                                                   &CompiledCallableType, type, nullptr);
    if (super == nullptr) return nullptr;
    PyObject* next = PyObject_GetAttrString(super, "__init_subclass__");
    Py_DECREF(super);
    if (next == nullptr) return nullptr;
    PyObject* result = PyObject_Call(next, args, kwargs);
    Py_DECREF(next);
    if (result != nullptr) restore_vectorcall(reinterpret_cast<PyTypeObject*>(type));
    return result;
}

static PyMethodDef compiled_methods[] = {
    {"__init_subclass__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(compiled_init_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

static PyMemberDef compiled_members[] = {
    {"fn", T_OBJECT, offsetof(CompiledCallableObject, target), READONLY, "what was given to be compiled"},
    {"handle", T_OBJECT, offsetof(CompiledCallableObject, handle), READONLY,
     "the handle that owns the entries"},
    {nullptr, 0, 0, 0, nullptr},
};

static PyGetSetDef dict_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// ---- GraphCallable
// -----------------------------------------------------------------------------------------

struct GraphCallableObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* function;
    PyObject* name;
    PyObject* refuse;     // raises for a result that does not fit, or None
    PyObject* first_run;  // told the seconds of the first run; NULL afterwards
    Py_ssize_t outputs;
    PyObject* weak_references;
    bool is_boxed;
    bool mutates;
};

static PyTypeObject GraphCallableType = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* call_graph_function(GraphCallableObject* self, PyObject* inputs) {
    CaptureOff off;
    if (self->is_boxed) return PyObject_CallOneArg(self->function, inputs);
    // The list may be emptied while its items are in use only by somebody who got hold of it: nobody did.
    return PyObject_Vectorcall(self->function, PySequence_Fast_ITEMS(inputs),
                               static_cast<size_t>(PyList_GET_SIZE(inputs)), nullptr);
}

// Whether no object comes twice among the outputs of a graph.
static bool outputs_are_distinct(PyObject* const* items, Py_ssize_t count) {
    constexpr Py_ssize_t few = 8, many = 256;
    if (count <= few) {
        for (Py_ssize_t i = 1; i < count; i++)
            if (std::find(items, items + i, items[i]) != items + i) return false;
        return true;
    }
    if (count > many) {
        std::vector<PyObject*> sorted(items, items + count);
        std::sort(sorted.begin(), sorted.end());
        return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    }
    PyObject* table[2 * many] = {};  // open addressing, at most half full
    constexpr size_t mask = 2 * many - 1;
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t slot = (reinterpret_cast<size_t>(items[i]) * 0x9E3779B97F4A7C15u >> 32) & mask;
        while (table[slot] != nullptr) {
            if (table[slot] == items[i]) return false;
            slot = (slot + 1) & mask;
        }
        table[slot] = items[i];
    }
    return true;
}

// Compilers find common subexpressions and then return one tensor for two that the program made; eager's are
// two objects.  Outputs are different values of the trace, so whatever comes twice is copied.
static PyObject* separate_outputs(PyObject* result) {
    Py_ssize_t count = PySequence_Fast_GET_SIZE(result);
    if (outputs_are_distinct(PySequence_Fast_ITEMS(result), count)) return result;
    PyObject* copies = PySequence_List(result);
    Py_DECREF(result);
    if (copies == nullptr) return nullptr;
    for (Py_ssize_t i = 1; i < count; i++) {
        PyObject** items = PySequence_Fast_ITEMS(copies);
        if (std::find(items, items + i, items[i]) == items + i) continue;
        if (!PyObject_HasAttrString(items[i], "clone")) continue;
        PyObject* copy = PyObject_CallMethod(items[i], "clone", nullptr);
        if (copy == nullptr || PyList_SetItem(copies, i, copy) < 0) {
            Py_DECREF(copies);
            return nullptr;
        }
    }
    return copies;
}

// A backend's compiled graph that gives something else than the graph's outputs is told so, by an exception
// that is not taken for a failure of the graph.
static PyObject* refuse_result(GraphCallableObject* self, PyObject* result) {
    CaptureOff off;
    PyObject* answer = PyObject_CallOneArg(self->refuse, result);
    Py_DECREF(result);
    if (answer != nullptr) {
        Py_DECREF(answer);
        PyErr_Format(PyExc_TypeError, "compiled graph %U returned something else than its outputs",
                     self->name);
    }
    return nullptr;
}

// The first run is told about: backends may do much in it.
static PyObject* run_first(GraphCallableObject* self, PyObject* inputs) {
    PyObject* listener = self->first_run;
    self->first_run = nullptr;
    int64_t start = clock_now();
    PyObject* result = call_graph_function(self, inputs);
    if (result != nullptr) {
        CaptureOff off;
        PyObject* answer =
            PyObject_CallFunction(listener, "d", static_cast<double>(clock_now() - start) * 1e-9);
        if (answer == nullptr) PyErr_WriteUnraisable(listener);
        Py_XDECREF(answer);
        Py_DECREF(listener);
        return result;
    }
    PyObject* pending = take_exception();
    Py_DECREF(listener);
    restore_exception(pending);
    return nullptr;
}

static PyObject* call_graph(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* keywords) {
    auto* self = reinterpret_cast<GraphCallableObject*>(callable);
    bool has_keywords = keywords != nullptr && PyTuple_GET_SIZE(keywords) > 0;
    if (PyVectorcall_NARGS(nargsf) != 1 || has_keywords || !PyList_CheckExact(args[0])) {
        PyErr_Format(PyExc_TypeError, "graph %U is called with one list of inputs", self->name);
        return nullptr;
    }
    PyObject* result =
        self->first_run == nullptr ? call_graph_function(self, args[0]) : run_first(self, args[0]);
    if (result != nullptr && self->refuse != Py_None &&
        !((PyTuple_Check(result) || PyList_Check(result)) &&
          PySequence_Fast_GET_SIZE(result) == self->outputs)) {
        return refuse_result(self, result);
    }
    if (result != nullptr && !PyTuple_Check(result) && !PyList_Check(result)) {
        PyErr_Format(PyExc_TypeError, "compiled graph %U returned %.200s instead of a list or tuple",
                     self->name, Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    if (result != nullptr) result = separate_outputs(result);
    if (result == nullptr && !self->mutates) mark_graph_failure(this_thread);
    return result;
}

static PyObject* graph_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"fn",      "boxed",  "mutates",   "name",
                                  "outputs", "refuse", "first_run", nullptr};
    PyObject *function, *name, *refuse = Py_None, *first_run = Py_None;
    int is_boxed, mutates;
    Py_ssize_t outputs = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OppU|nOO:GraphCallable", const_cast<char**>(names),
                                     &function, &is_boxed, &mutates, &name, &outputs, &refuse, &first_run)) {
        return nullptr;
    }
    if (!PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "expected a callable, not %.200s", Py_TYPE(function)->tp_name);
        return nullptr;
    }
    auto* self = reinterpret_cast<GraphCallableObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->vectorcall = call_graph;
    Py_INCREF(function);
    self->function = function;
    Py_INCREF(name);
    self->name = name;
    Py_INCREF(refuse);
    self->refuse = refuse;
    if (first_run != Py_None) {
        Py_INCREF(first_run);
        self->first_run = first_run;
    }
    self->outputs = outputs;
    self->is_boxed = is_boxed != 0;
    self->mutates = mutates != 0;
    return reinterpret_cast<PyObject*>(self);
}

static int graph_traverse(GraphCallableObject* self, visitproc visit, void* arg) {
    Py_VISIT(self->function);
    Py_VISIT(self->refuse);
    Py_VISIT(self->first_run);
    return 0;
}

static int graph_clear(GraphCallableObject* self) {
    // Left callable: it then answers None, which call_graph refuses.
    Py_INCREF(Py_None);
    Py_XSETREF(self->function, Py_None);
    Py_INCREF(Py_None);
    Py_XSETREF(self->refuse, Py_None);
    Py_CLEAR(self->first_run);
    return 0;
}

static void graph_dealloc(GraphCallableObject* self) {
    PyObject_GC_UnTrack(self);
    if (self->weak_references != nullptr) PyObject_ClearWeakRefs(reinterpret_cast<PyObject*>(self));
    Py_CLEAR(self->function);
    Py_CLEAR(self->refuse);
    Py_CLEAR(self->first_run);
    Py_CLEAR(self->name);
    Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

static PyObject* graph_repr(GraphCallableObject* self) {
    return PyUnicode_FromFormat("<compiled graph %U>", self->name);
}

static PyMemberDef graph_members[] = {
    {"fn", T_OBJECT, offsetof(GraphCallableObject, function), READONLY, "what the backend returned"},
    {"__name__", T_OBJECT, offsetof(GraphCallableObject, name), READONLY, "the name of the graph"},
    {"boxed", T_BOOL, offsetof(GraphCallableObject, is_boxed), READONLY, "takes the list itself"},
    {"mutates", T_BOOL, offsetof(GraphCallableObject, mutates), READONLY, "may change its inputs"},
    {nullptr, 0, 0, 0, nullptr},
};

// ---- DisabledCallable
// ----------------------------------------------------------------------------------------

struct DisabledCallableObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* target;
    PyObject* dict;
    PyObject* weak_references;
};

static PyTypeObject DisabledCallableType = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* call_disabled(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* keywords) {
    CaptureOff off;
    return PyObject_Vectorcall(reinterpret_cast<DisabledCallableObject*>(callable)->target, args, nargsf,
                               keywords);
}

static PyObject* disabled_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"fn", nullptr};
    PyObject* target;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:DisabledCallable", const_cast<char**>(names),
                                     &target)) {
        return nullptr;
    }
    if (!PyCallable_Check(target)) {
        PyErr_Format(PyExc_TypeError, "expected a callable, not %.200s", Py_TYPE(target)->tp_name);
        return nullptr;
    }
    auto* self = reinterpret_cast<DisabledCallableObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->vectorcall = call_disabled;
    Py_INCREF(target);
    self->target = target;
    return reinterpret_cast<PyObject*>(self);
}

static int disabled_traverse(DisabledCallableObject* self, visitproc visit, void* arg) {
    Py_VISIT(self->target);
    Py_VISIT(self->dict);
    return 0;
}

static int disabled_clear(DisabledCallableObject* self) {
    Py_CLEAR(self->dict);  // the target stays, so that it can be called to the end
    return 0;
}

static void disabled_dealloc(DisabledCallableObject* self) {
    PyObject_GC_UnTrack(self);
    if (self->weak_references != nullptr) PyObject_ClearWeakRefs(reinterpret_cast<PyObject*>(self));
    Py_CLEAR(self->dict);
    Py_CLEAR(self->target);
    Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

static PyObject* disabled_repr(DisabledCallableObject* self) {
    return PyUnicode_FromFormat("<framehook disabled %R>", self->target);
}

static PyMemberDef disabled_members[] = {
    {"fn", T_OBJECT, offsetof(DisabledCallableObject, target), READONLY, "what runs with capture off"},
    {nullptr, 0, 0, 0, nullptr},
};

// ---- the types
// -------------------------------------------------------------------------------------------------

// A wrapper binds to an instance if what it wraps would: a function does, a bound method or an object does
// not.
static bool binds_as_method(PyObject* callable) {
    for (;;) {
        if (PyFunction_Check(callable)) return true;
        if (PyObject_TypeCheck(callable, &CompiledCallableType)) {
            callable = reinterpret_cast<CompiledCallableObject*>(callable)->target;
        } else if (PyObject_TypeCheck(callable, &DisabledCallableType)) {
            callable = reinterpret_cast<DisabledCallableObject*>(callable)->target;
        } else {
            return false;
        }
    }
}

int init_callable(PyObject* module) {
    constexpr unsigned long flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;

    PyTypeObject& c = CompiledCallableType;
    c.tp_name = "framehook._C.CompiledCallable";
    c.tp_doc = "CompiledCallable(handle, fn)\n--\n\nCalls fn through the entries of a handle.";
    c.tp_basicsize = sizeof(CompiledCallableObject);
    c.tp_flags = flags | Py_TPFLAGS_BASETYPE;
    c.tp_new = compiled_new;
    c.tp_init = compiled_init;
    c.tp_dealloc = reinterpret_cast<destructor>(compiled_dealloc);
    c.tp_traverse = reinterpret_cast<traverseproc>(compiled_traverse);
    c.tp_clear = reinterpret_cast<inquiry>(compiled_clear);
    c.tp_call = PyVectorcall_Call;
    c.tp_vectorcall_offset = offsetof(CompiledCallableObject, vectorcall);
    c.tp_dictoffset = offsetof(CompiledCallableObject, dict);
    c.tp_weaklistoffset = offsetof(CompiledCallableObject, weak_references);
    c.tp_descr_get = compiled_get;
    c.tp_repr = reinterpret_cast<reprfunc>(compiled_repr);
    c.tp_methods = compiled_methods;
    c.tp_members = compiled_members;
    c.tp_getset = dict_getset;

    PyTypeObject& g = GraphCallableType;
    g.tp_name = "framehook._C.GraphCallable";
    g.tp_doc =
        "GraphCallable(fn, boxed, mutates, name, outputs=0, refuse=None)\n--\n\n"
        "A compiled graph, called with one list of inputs.  A result that is no list or tuple of `outputs`\n"
        "items goes to `refuse`, which raises.";
    g.tp_basicsize = sizeof(GraphCallableObject);
    g.tp_flags = flags;
    g.tp_new = graph_new;
    g.tp_dealloc = reinterpret_cast<destructor>(graph_dealloc);
    g.tp_traverse = reinterpret_cast<traverseproc>(graph_traverse);
    g.tp_clear = reinterpret_cast<inquiry>(graph_clear);
    g.tp_call = PyVectorcall_Call;
    g.tp_vectorcall_offset = offsetof(GraphCallableObject, vectorcall);
    g.tp_weaklistoffset = offsetof(GraphCallableObject, weak_references);
    g.tp_repr = reinterpret_cast<reprfunc>(graph_repr);
    g.tp_members = graph_members;

    PyTypeObject& d = DisabledCallableType;
    d.tp_name = "framehook._C.DisabledCallable";
    d.tp_doc = "DisabledCallable(fn)\n--\n\nCalls fn with capture off.";
    d.tp_basicsize = sizeof(DisabledCallableObject);
    d.tp_flags = flags;
    d.tp_new = disabled_new;
    d.tp_dealloc = reinterpret_cast<destructor>(disabled_dealloc);
    d.tp_traverse = reinterpret_cast<traverseproc>(disabled_traverse);
    d.tp_clear = reinterpret_cast<inquiry>(disabled_clear);
    d.tp_call = PyVectorcall_Call;
    d.tp_vectorcall_offset = offsetof(DisabledCallableObject, vectorcall);
    d.tp_dictoffset = offsetof(DisabledCallableObject, dict);
    d.tp_weaklistoffset = offsetof(DisabledCallableObject, weak_references);
    d.tp_descr_get = compiled_get;
    d.tp_repr = reinterpret_cast<reprfunc>(disabled_repr);
    d.tp_members = disabled_members;
    d.tp_getset = dict_getset;

    for (PyTypeObject* type : {&CompiledCallableType, &GraphCallableType, &DisabledCallableType}) {
        if (PyModule_AddType(module, type) < 0) return -1;
    }
    return 0;
}

}  // namespace framehook
