// The cache on code objects: what is known about a code object, and its entries by handle.
#include "cache.h"

#include <structmember.h>

#include <algorithm>

namespace framehook {

// ---- records ---------------------------------------------------------------------------------------------

static const char* state_name(State state) {
    switch (state) {
        case State::active:
            return "active";
        case State::skip:
            return "skip";
        case State::skip_recursive:
            return "skip_recursive";
        case State::frozen:
            return "frozen";
    }
    return "active";
}

static bool state_from_name(const char* name, State* state) {
    for (State each : {State::active, State::skip, State::skip_recursive, State::frozen}) {
        if (strcmp(name, state_name(each)) == 0) {
            *state = each;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown state '%s': expected active, skip, skip_recursive or frozen",
                 name);
    return false;
}

static const char* kind_name(Kind kind) {
    switch (kind) {
        case Kind::unknown:
            return "unknown";
        case Kind::candidate:
            return "candidate";
        case Kind::excluded:
            return "excluded";
        case Kind::generated:
            return "generated";
    }
    return "unknown";
}

int argument_slots(PyCodeObject* code) {
    return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
           ((code->co_flags & CO_VARKEYWORDS) != 0);
}

CodeRecord* record_of(PyCodeObject* code) {
    if (CodeRecord* record = existing_record(code)) return record;
    auto* record = new CodeRecord;
    record->code = code;
    record->slot_count = argument_slots(code);
    constexpr int function_body = CO_OPTIMIZED | CO_NEWLOCALS;
    constexpr int suspending = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    record->is_plain_function =
        (code->co_flags & function_body) == function_body && (code->co_flags & suspending) == 0;
    if (!record->is_plain_function) record->kind = Kind::excluded;
    if (!set_code_slot(code, record)) {
        delete record;
        return nullptr;
    }
    return record;
}

HandleCache* cache_of(CodeRecord* record, HandleObject* handle) {
    if (HandleCache* cache = record->find(handle)) return cache;
    auto* cache = new HandleCache;
    cache->handle = handle;
    cache->record = record;
    record->caches.push_back(cache);
    handle->caches->push_back(cache);
    return cache;
}

// Takes the entries out of a cache; the caller releases them when everything is consistent again.
static std::vector<EntryObject*> take_entries(HandleCache* cache) {
    std::vector<EntryObject*> taken;
    taken.swap(cache->entries);
    cache->changes++;
    cache->whole_entries = 0;
    for (EntryObject* entry : taken) entry->cache = nullptr;
    return taken;
}

static void release_entries(const std::vector<EntryObject*>& entries) {
    for (EntryObject* entry : entries) Py_DECREF(entry);
}

static void erase_cache(std::vector<HandleCache*>& caches, HandleCache* cache) {
    caches.erase(std::remove(caches.begin(), caches.end(), cache), caches.end());
}

// The code object dies (perhaps while the interpreter shuts down): co_extra's free function.
static void release_record(void* pointer) {
    auto* record = static_cast<CodeRecord*>(pointer);
    if (record == nullptr) return;
    std::vector<EntryObject*> released;
    for (HandleCache* cache : record->caches) {
        erase_cache(*cache->handle->caches, cache);
        std::vector<EntryObject*> taken = take_entries(cache);
        released.insert(released.end(), taken.begin(), taken.end());
        delete cache;
    }
    PyObject* resume_codes = record->resume_codes;
    delete record;
    release_entries(released);
    Py_XDECREF(resume_codes);
}

static void remove_entry_at(HandleCache* cache, size_t index) {
    EntryObject* entry = cache->entries[index];
    cache->entries.erase(cache->entries.begin() + static_cast<std::ptrdiff_t>(index));
    cache->changes++;
    cache->whole_entries -= entry->is_whole;
    entry->cache = nullptr;
    Py_DECREF(entry);
}

// ---- searching -------------------------------------------------------------------------------------------

static inline GuardProgramObject* program_of(PyObject* guards) {
    return reinterpret_cast<GuardProgramObject*>(guards);
}

static bool entry_is_valid(EntryObject* entry) {
    if (entry->code == nullptr) return false;  // taken apart by the garbage collector
    return (entry->guards == nullptr || guard_program_is_valid(program_of(entry->guards))) &&
           (entry->discriminator == nullptr || guard_program_is_valid(program_of(entry->discriminator)));
}

static bool program_holds(PyObject* program, const FrameContext& frame, PyObject* const* slots,
                          Py_ssize_t count, PyObject** inputs) {
    return guard_program_check(program_of(program), slots, count, frame.globals, frame.builtins,
                               frame.closure, inputs);
}

bool entry_holds(EntryObject* entry, const FrameContext& frame, PyObject* const* slots, Py_ssize_t count,
                 Found* found) {
    if (entry->code == nullptr) return false;
    PyObject* inputs = nullptr;
    Py_INCREF(entry);  // a fallback guard may run Python that removes it
    bool holds =
        entry->discriminator == nullptr || program_holds(entry->discriminator, frame, slots, count, &inputs);
    Py_CLEAR(inputs);
    if (holds && entry->guards != nullptr) holds = program_holds(entry->guards, frame, slots, count, &inputs);
    if (!holds) {
        Py_DECREF(entry);
        return false;
    }
    found->entry = entry;
    found->inputs = inputs;
    return true;
}

static void remove_dead_entries(HandleCache* cache) {
    for (size_t i = 0; i < cache->entries.size();) {
        if (entry_is_valid(cache->entries[i])) {
            i++;
        } else {
            remove_entry_at(cache, i);
            i = 0;  // releasing it may have run Python that changed the list
        }
    }
}

bool find_entry(HandleCache* cache, const FrameContext& frame, PyObject* const* slots, Py_ssize_t count,
                Found* found) {
    // Python that runs inside a guard (fallbacks only) may change the list; then begin again, but not
    // forever.
    for (int attempt = 0; attempt < 4; attempt++) {
        uint64_t changes = cache->changes;
        for (size_t i = 0; i < cache->entries.size() && cache->changes == changes; i++) {
            EntryObject* entry = cache->entries[i];
            if (!entry_is_valid(entry)) {
                remove_dead_entries(cache);
                changes = cache->changes;
                i = static_cast<size_t>(-1);
                continue;
            }
            if (!entry_holds(entry, frame, slots, count, found)) continue;
            if (cache->changes == changes && cache->entries.size() > 1) {
                auto begin = cache->entries.begin();
                std::rotate(begin, begin + static_cast<std::ptrdiff_t>(i),
                            begin + static_cast<std::ptrdiff_t>(i) + 1);
                for (size_t j = i + 1; j < cache->entries.size(); j++) {
                    if (!entry_is_valid(cache->entries[j])) {
                        remove_dead_entries(cache);
                        break;
                    }
                }
            }
            return true;
        }
        if (cache->changes == changes) return false;
    }
    return false;
}

void count_hit(HandleCache* cache, EntryObject* entry) {
    cache->lookups++;
    cache->hits++;
    cache->handle->counters.hits++;
    entry->hits++;
    entry->last_hit_lookup = cache->lookups;
}

void count_miss(HandleCache* cache) {
    cache->lookups++;
    cache->misses++;
    cache->handle->counters.misses++;
}

static void forget_counts(HandleCache* cache) {
    cache->lookups = cache->hits = cache->misses = 0;
    cache->hit_times.clear();
    cache->eager_times.clear();
    cache->state = State::active;
    cache->reason.clear();
}

// ---- Handle ----------------------------------------------------------------------------------------------

static PyObject* handle_new(PyTypeObject* type, PyObject*, PyObject*) {
    auto* self = reinterpret_cast<HandleObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->caches = new std::vector<HandleCache*>;
    self->counters = Counters{};
    return reinterpret_cast<PyObject*>(self);
}

static int handle_traverse(HandleObject* self, visitproc visit, void* arg) {
    if (self->caches == nullptr) return 0;  // tracked before handle_new went on
    for (HandleCache* cache : *self->caches)
        for (EntryObject* entry : cache->entries) Py_VISIT(entry);
    return 0;
}

static void drop_all_entries(HandleObject* self) {
    std::vector<EntryObject*> released;
    for (HandleCache* cache : *self->caches) {
        std::vector<EntryObject*> taken = take_entries(cache);
        released.insert(released.end(), taken.begin(), taken.end());
    }
    release_entries(released);
}

static int handle_gc_clear(HandleObject* self) {
    if (self->caches != nullptr) drop_all_entries(self);
    return 0;
}

static void handle_dealloc(HandleObject* self) {
    PyObject_GC_UnTrack(self);
    if (self->weak_references != nullptr) PyObject_ClearWeakRefs(reinterpret_cast<PyObject*>(self));
    if (self->caches != nullptr) {
        std::vector<EntryObject*> released;
        for (HandleCache* cache : *self->caches) {
            erase_cache(cache->record->caches, cache);
            std::vector<EntryObject*> taken = take_entries(cache);
            released.insert(released.end(), taken.begin(), taken.end());
            delete cache;
        }
        delete self->caches;
        self->caches = nullptr;
        release_entries(released);
    }
    Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

static bool append_live_entries(PyObject* list, HandleCache* cache) {
    for (EntryObject* entry : cache->entries)
        if (PyList_Append(list, reinterpret_cast<PyObject*>(entry)) < 0) return false;
    return true;
}

// Removing an entry may run Python that makes caches, or frees them with their code objects.
static void remove_dead_entries(HandleObject* self) {
    bool found_dead = true;
    while (found_dead) {
        found_dead = false;
        for (HandleCache* cache : *self->caches) {
            for (size_t i = 0; i < cache->entries.size() && !found_dead; i++) {
                if (entry_is_valid(cache->entries[i])) continue;
                found_dead = true;
                remove_entry_at(cache, i);
            }
            if (found_dead) break;
        }
    }
}

static PyObject* handle_entries(HandleObject* self, PyObject*) {
    remove_dead_entries(self);
    PyObject* list = PyList_New(0);
    if (list == nullptr) return nullptr;
    for (HandleCache* cache : *self->caches) {
        if (!append_live_entries(list, cache)) {
            Py_DECREF(list);
            return nullptr;
        }
    }
    return list;
}

static PyObject* handle_counters(HandleObject* self, PyObject*) {
    const Counters& c = self->counters;
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "hits", c.hits, "misses", c.misses, "fresh_misses",
                         c.fresh_misses, "graph_failures", c.graph_failures, "eager_frames", c.eager_frames,
                         "resumes", c.resumes);
}

static PyObject* handle_clear(HandleObject* self, PyObject*) {
    for (HandleCache* cache : *self->caches) {
        forget_counts(cache);
    }
    self->counters = Counters{};
    drop_all_entries(self);
    Py_RETURN_NONE;
}

static PyMethodDef handle_methods[] = {
    {"entries", reinterpret_cast<PyCFunction>(handle_entries), METH_NOARGS,
     "entries() -> list[Entry]\n\nAll live entries of this handle."},
    {"counters", reinterpret_cast<PyCFunction>(handle_counters), METH_NOARGS,
     "counters() -> dict[str, int]\n\nWhat happened under this handle so far."},
    {"clear", reinterpret_cast<PyCFunction>(handle_clear), METH_NOARGS,
     "clear() -> None\n\nDrop all entries, states and counters of this handle."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject HandleType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- Entry -----------------------------------------------------------------------------------------------

static bool accept_program(PyObject* value, const char* role, PyObject** field) {
    if (value == nullptr || value == Py_None) return true;
    if (!PyObject_TypeCheck(value, &GuardProgramType)) {
        PyErr_Format(PyExc_TypeError, "%s must be a GuardProgram or None, not %.200s", role,
                     Py_TYPE(value)->tp_name);
        return false;
    }
    Py_INCREF(value);
    Py_XSETREF(*field, value);
    return true;
}

static PyObject* entry_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"guards", "code", "takes_inputs", "is_whole", "payload", nullptr};
    PyObject *guards, *code, *payload = Py_None;
    int takes_inputs = 0, is_whole = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!|$ppO:Entry", const_cast<char**>(names), &guards,
                                     &PyCode_Type, &code, &takes_inputs, &is_whole, &payload)) {
        return nullptr;
    }
    CodeRecord* record = record_of(reinterpret_cast<PyCodeObject*>(code));
    if (record == nullptr) return nullptr;
    auto* self = reinterpret_cast<EntryObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    if (!accept_program(guards, "guards", &self->guards)) {
        Py_DECREF(self);
        return nullptr;
    }
    record->kind = Kind::generated;
    Py_INCREF(code);
    self->code = reinterpret_cast<PyCodeObject*>(code);
    Py_INCREF(payload);
    self->payload = payload;
    self->takes_inputs = takes_inputs != 0;
    self->is_whole = is_whole != 0;
    return reinterpret_cast<PyObject*>(self);
}

static int entry_traverse(EntryObject* self, visitproc visit, void* arg) {
    Py_VISIT(self->guards);
    Py_VISIT(self->discriminator);
    Py_VISIT(self->payload);
    Py_VISIT(self->function);
    return 0;
}

static int entry_gc_clear(EntryObject* self) {
    Py_CLEAR(self->code);  // from now on it never holds
    Py_CLEAR(self->function);
    Py_CLEAR(self->payload);
    Py_CLEAR(self->discriminator);
    Py_CLEAR(self->guards);
    return 0;
}

static void entry_dealloc(EntryObject* self) {
    PyObject_GC_UnTrack(self);
    if (self->weak_references != nullptr) PyObject_ClearWeakRefs(reinterpret_cast<PyObject*>(self));
    entry_gc_clear(self);
    Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

static PyObject* entry_get_is_valid(EntryObject* self, void*) {
    return PyBool_FromLong(entry_is_valid(self));
}

static PyObject* entry_get_key_code(EntryObject* self, void*) {
    PyObject* code =
        self->cache == nullptr ? Py_None : reinterpret_cast<PyObject*>(self->cache->record->code);
    Py_INCREF(code);
    return code;
}

static PyMemberDef entry_members[] = {
    {"guards", T_OBJECT, offsetof(EntryObject, guards), READONLY, "the guard program, or None"},
    {"discriminator", T_OBJECT, offsetof(EntryObject, discriminator), READONLY,
     "guards checked first, or None"},
    {"code", T_OBJECT, offsetof(EntryObject, code), READONLY, "generated code with a flattened signature"},
    {"payload", T_OBJECT, offsetof(EntryObject, payload), 0, "whatever the engine keeps with the entry"},
    {"takes_inputs", T_BOOL, offsetof(EntryObject, takes_inputs), READONLY,
     "called with a list of graph inputs"},
    {"is_whole", T_BOOL, offsetof(EntryObject, is_whole), READONLY, "runs to a result without native code"},
    {"hits", T_ULONGLONG, offsetof(EntryObject, hits), READONLY, "number of hits"},
    {"last_hit_lookup", T_ULONGLONG, offsetof(EntryObject, last_hit_lookup), READONLY,
     "the record's lookup count at the last hit, or when the entry was added"},
    {nullptr, 0, 0, 0, nullptr},
};

static PyGetSetDef entry_getset[] = {
    {"is_valid", reinterpret_cast<getter>(entry_get_is_valid), nullptr,
     "False once an object that its guards name has died", nullptr},
    {"key_code", reinterpret_cast<getter>(entry_get_key_code), nullptr,
     "the code object it is filed under, or None", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject EntryType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- functions of the module
// -------------------------------------------------------------------------------

static HandleObject* as_handle(PyObject* object) {
    if (object == Py_None) return nullptr;
    if (!PyObject_TypeCheck(object, &HandleType)) {
        PyErr_Format(PyExc_TypeError, "expected a Handle or None, not %.200s", Py_TYPE(object)->tp_name);
        return nullptr;
    }
    return reinterpret_cast<HandleObject*>(object);
}

static PyObject* add_entry(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"handle", "key_code", "entry", "discriminator", nullptr};
    HandleObject* handle;
    PyCodeObject* code;
    EntryObject* entry;
    PyObject* discriminator = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!|O:add_entry", const_cast<char**>(names),
                                     &HandleType, &handle, &PyCode_Type, &code, &EntryType, &entry,
                                     &discriminator)) {
        return nullptr;
    }
    if (entry->cache != nullptr) {
        PyErr_SetString(PyExc_ValueError, "the entry is filed already; remove it first");
        return nullptr;
    }
    if (!accept_program(discriminator, "discriminator", &entry->discriminator)) return nullptr;
    CodeRecord* record = record_of(code);
    if (record == nullptr) return nullptr;
    HandleCache* cache = cache_of(record, handle);
    Py_INCREF(entry);
    cache->entries.insert(cache->entries.begin(), entry);
    cache->changes++;
    cache->whole_entries += entry->is_whole;
    entry->cache = cache;
    entry->last_hit_lookup = cache->lookups;
    Py_RETURN_NONE;
}

static PyObject* remove_entry(PyObject*, PyObject* argument) {
    if (!PyObject_TypeCheck(argument, &EntryType)) {
        PyErr_Format(PyExc_TypeError, "expected an Entry, not %.200s", Py_TYPE(argument)->tp_name);
        return nullptr;
    }
    auto* entry = reinterpret_cast<EntryObject*>(argument);
    if (HandleCache* cache = entry->cache) {
        auto place = std::find(cache->entries.begin(), cache->entries.end(), entry);
        remove_entry_at(cache, static_cast<size_t>(place - cache->entries.begin()));
    }
    Py_RETURN_NONE;
}

static PyObject* mark(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"key_code", "handle", "state", "reason", nullptr};
    PyCodeObject* code;
    PyObject* handle_or_none;
    const char *name, *reason = "";
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!Os|s:mark", const_cast<char**>(names), &PyCode_Type,
                                     &code, &handle_or_none, &name, &reason)) {
        return nullptr;
    }
    State state;
    HandleObject* handle = as_handle(handle_or_none);
    if (PyErr_Occurred() || !state_from_name(name, &state)) return nullptr;
    CodeRecord* record = record_of(code);
    if (record == nullptr) return nullptr;
    if (handle == nullptr) {
        record->state = state;
        record->reason = reason;
    } else {
        HandleCache* cache = cache_of(record, handle);
        cache->state = state;
        cache->reason = reason;
    }
    Py_RETURN_NONE;
}

static bool parse_code_and_handle(PyObject* args, PyObject* kwargs, const char* format, PyCodeObject** code,
                                  HandleObject** handle) {
    static const char* names[] = {"code", "handle", nullptr};
    PyObject* handle_or_none = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &PyCode_Type, code,
                                     &handle_or_none)) {
        return false;
    }
    *handle = as_handle(handle_or_none);
    return PyErr_Occurred() == nullptr;
}

static PyObject* get_state(PyObject*, PyObject* args, PyObject* kwargs) {
    PyCodeObject* code;
    HandleObject* handle;
    if (!parse_code_and_handle(args, kwargs, "O!|O:state", &code, &handle)) return nullptr;
    State state = State::active;
    if (CodeRecord* record = existing_record(code)) {
        state = record->state;
        HandleCache* cache = handle == nullptr ? nullptr : record->find(handle);
        if (state == State::active && cache != nullptr) state = cache->state;
    }
    return PyUnicode_FromString(state_name(state));
}

static void reset_cache(HandleCache* cache, std::vector<EntryObject*>& released) {
    forget_counts(cache);
    std::vector<EntryObject*> taken = take_entries(cache);
    released.insert(released.end(), taken.begin(), taken.end());
}

// Resume codes are part of the frame they continue, so they are reset with it.
static void reset_one_record(CodeRecord* record, HandleObject* handle, std::vector<EntryObject*>& released) {
    for (HandleCache* cache : record->caches) {
        if (handle == nullptr || cache->handle == handle) reset_cache(cache, released);
    }
    Py_ssize_t resumes = record->resume_codes == nullptr ? 0 : PyList_GET_SIZE(record->resume_codes);
    for (Py_ssize_t i = 0; i < resumes; i++) {
        auto* code = reinterpret_cast<PyCodeObject*>(PyList_GET_ITEM(record->resume_codes, i));
        if (CodeRecord* resume = existing_record(code)) {
            Kind kind = resume->kind;
            reset_one_record(resume, handle, released);
            resume->kind = kind;
        }
    }
    if (handle == nullptr) {
        record->state = State::active;
        record->reason.clear();
        if (record->is_plain_function && record->kind != Kind::generated) record->kind = Kind::unknown;
    }
}

static PyObject* reset_record(PyObject*, PyObject* args, PyObject* kwargs) {
    PyCodeObject* code;
    HandleObject* handle;
    if (!parse_code_and_handle(args, kwargs, "O!|O:reset_record", &code, &handle)) return nullptr;
    CodeRecord* record = existing_record(code);
    if (record == nullptr) Py_RETURN_NONE;
    std::vector<EntryObject*> released;
    reset_one_record(record, handle, released);
    release_entries(released);
    Py_RETURN_NONE;
}

static PyObject* own_resume_code(PyObject*, PyObject* args) {
    PyCodeObject *original, *resume;
    if (!PyArg_ParseTuple(args, "O!O!:own_resume_code", &PyCode_Type, &original, &PyCode_Type, &resume)) {
        return nullptr;
    }
    if (original == resume) {
        PyErr_SetString(PyExc_ValueError, "a code object cannot own itself");
        return nullptr;
    }
    CodeRecord* record = record_of(original);
    CodeRecord* resume_record = record == nullptr ? nullptr : record_of(resume);
    if (resume_record == nullptr) return nullptr;
    if (record->resume_codes == nullptr) {
        record->resume_codes = PyList_New(0);
        if (record->resume_codes == nullptr) return nullptr;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(record->resume_codes); i++) {
        if (PyList_GET_ITEM(record->resume_codes, i) == reinterpret_cast<PyObject*>(resume)) Py_RETURN_NONE;
    }
    if (PyList_Append(record->resume_codes, reinterpret_cast<PyObject*>(resume)) < 0) return nullptr;
    if (resume_record->is_plain_function) resume_record->kind = Kind::candidate;
    Py_RETURN_NONE;
}

static PyObject* describe_cache(HandleCache* cache) {
    PyObject* entries = PyList_New(0);
    if (entries == nullptr) return nullptr;
    if (!append_live_entries(entries, cache)) {
        Py_DECREF(entries);
        return nullptr;
    }
    return Py_BuildValue("{s:O,s:s,s:s,s:K,s:K,s:K,s:O,s:N}", "handle", cache->handle, "state",
                         state_name(cache->state), "reason", cache->reason.c_str(), "lookups", cache->lookups,
                         "hits", cache->hits, "misses", cache->misses, "is_root",
                         cache->is_root ? Py_True : Py_False, "entries", entries);
}

static PyObject* code_record_info(PyObject*, PyObject* argument) {
    if (!PyCode_Check(argument)) {
        PyErr_Format(PyExc_TypeError, "expected a code object, not %.200s", Py_TYPE(argument)->tp_name);
        return nullptr;
    }
    CodeRecord* record = existing_record(reinterpret_cast<PyCodeObject*>(argument));
    if (record == nullptr) Py_RETURN_NONE;
    PyObject* handles = PyList_New(0);
    if (handles == nullptr) return nullptr;
    for (size_t i = 0; i < record->caches.size(); i++) {
        PyObject* one = describe_cache(record->caches[i]);
        if (one == nullptr || PyList_Append(handles, one) < 0) {
            Py_XDECREF(one);
            Py_DECREF(handles);
            return nullptr;
        }
        Py_DECREF(one);
    }
    PyObject* resume = record->resume_codes == nullptr
                           ? PyList_New(0)
                           : PyList_GetSlice(record->resume_codes, 0, PY_SSIZE_T_MAX);
    if (resume == nullptr) {
        Py_DECREF(handles);
        return nullptr;
    }
    return Py_BuildValue("{s:s,s:s,s:s,s:i,s:N,s:N}", "kind", kind_name(record->kind), "state",
                         state_name(record->state), "reason", record->reason.c_str(), "slots",
                         record->slot_count, "handles", handles, "resume_codes", resume);
}

static HandleCache* existing_cache(PyCodeObject* code, HandleObject* handle) {
    CodeRecord* record = existing_record(code);
    return record == nullptr || handle == nullptr ? nullptr : record->find(handle);
}

static PyObject* record_entries(PyObject*, PyObject* args, PyObject* kwargs) {
    PyCodeObject* code;
    HandleObject* handle;
    if (!parse_code_and_handle(args, kwargs, "O!O:record_entries", &code, &handle)) return nullptr;
    PyObject* list = PyList_New(0);
    HandleCache* cache = existing_cache(code, handle);
    if (list == nullptr || cache == nullptr) return list;
    remove_dead_entries(cache);
    if (!append_live_entries(list, cache)) Py_CLEAR(list);
    return list;
}

static PyObject* record_counters(PyObject*, PyObject* args, PyObject* kwargs) {
    PyCodeObject* code;
    HandleObject* handle;
    if (!parse_code_and_handle(args, kwargs, "O!O:record_counters", &code, &handle)) return nullptr;
    HandleCache* cache = existing_cache(code, handle);
    uint64_t lookups = 0, hits = 0, misses = 0;
    if (cache != nullptr) {
        lookups = cache->lookups;
        hits = cache->hits;
        misses = cache->misses;
    }
    return Py_BuildValue("{s:K,s:K,s:K}", "lookups", lookups, "hits", hits, "misses", misses);
}

static PyObject* record_times(PyObject*, PyObject* args, PyObject* kwargs) {
    PyCodeObject* code;
    HandleObject* handle;
    if (!parse_code_and_handle(args, kwargs, "O!O:record_times", &code, &handle)) return nullptr;
    static const Timing none;
    HandleCache* cache = existing_cache(code, handle);
    PyObject* hits = (cache == nullptr ? none : cache->hit_times).describe();
    PyObject* eager = hits == nullptr ? nullptr : (cache == nullptr ? none : cache->eager_times).describe();
    if (eager == nullptr) {
        Py_XDECREF(hits);
        return nullptr;
    }
    return Py_BuildValue("{s:N,s:N}", "hits", hits, "eager", eager);
}

static PyCFunction with_keywords(PyObject* (*function)(PyObject*, PyObject*, PyObject*)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef cache_functions[] = {
    {"add_entry", with_keywords(add_entry), METH_VARARGS | METH_KEYWORDS,
     "add_entry(handle, key_code, entry, discriminator=None) -> None\n\n"
     "File an entry under a code object, in front of the others of its handle."},
    {"remove_entry", remove_entry, METH_O, "remove_entry(entry) -> None\n\nTake an entry out of the cache."},
    {"mark", with_keywords(mark), METH_VARARGS | METH_KEYWORDS,
     "mark(key_code, handle, state, reason='') -> None\n\n"
     "Set the state of a code object for a handle, or for the process when handle is None."},
    {"state", with_keywords(get_state), METH_VARARGS | METH_KEYWORDS,
     "state(code, handle=None) -> str\n\nThe state that holds for a code object under a handle."},
    {"reset_record", with_keywords(reset_record), METH_VARARGS | METH_KEYWORDS,
     "reset_record(code, handle=None) -> None\n\n"
     "Forget entries, counters and state for a handle, or everything when handle is None."},
    {"own_resume_code", own_resume_code, METH_VARARGS,
     "own_resume_code(original, resume) -> None\n\nKeep a resume code alive as long as its original."},
    {"code_record_info", code_record_info, METH_O,
     "code_record_info(code) -> dict | None\n\nWhat is recorded on a code object."},
    {"record_entries", with_keywords(record_entries), METH_VARARGS | METH_KEYWORDS,
     "record_entries(code, handle) -> list[Entry]\n\nLive entries of a handle for a code object, last used "
     "first."},
    {"record_counters", with_keywords(record_counters), METH_VARARGS | METH_KEYWORDS,
     "record_counters(code, handle) -> dict[str, int]\n\nLookups, hits and misses of a handle for a code "
     "object."},
    {"record_times", with_keywords(record_times), METH_VARARGS | METH_KEYWORDS,
     "record_times(code, handle) -> dict\n\nSampled times of calls, 'hits' and 'eager': (count, seconds, "
     "least, "
     "samples)."},
    {nullptr, nullptr, 0, nullptr},
};

int init_cache(PyObject* module) {
    if (!request_code_slot(release_record)) return -1;

    PyTypeObject& h = HandleType;
    h.tp_name = "framehook._C.Handle";
    h.tp_doc =
        "One compile() or capture(): owns its entries; when it dies they are gone from all code objects.";
    h.tp_basicsize = sizeof(HandleObject);
    h.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    h.tp_new = handle_new;
    h.tp_dealloc = reinterpret_cast<destructor>(handle_dealloc);
    h.tp_traverse = reinterpret_cast<traverseproc>(handle_traverse);
    h.tp_clear = reinterpret_cast<inquiry>(handle_gc_clear);
    h.tp_weaklistoffset = offsetof(HandleObject, weak_references);
    h.tp_methods = handle_methods;

    PyTypeObject& e = EntryType;
    e.tp_name = "framehook._C.Entry";
    e.tp_doc =
        "Entry(guards, code, *, takes_inputs=False, is_whole=False, payload=None)\n--\n\n"
        "Guards and generated code.  guards None: holds for every call.";
    e.tp_basicsize = sizeof(EntryObject);
    e.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    e.tp_new = entry_new;
    e.tp_dealloc = reinterpret_cast<destructor>(entry_dealloc);
    e.tp_traverse = reinterpret_cast<traverseproc>(entry_traverse);
    e.tp_clear = reinterpret_cast<inquiry>(entry_gc_clear);
    e.tp_weaklistoffset = offsetof(EntryObject, weak_references);
    e.tp_members = entry_members;
    e.tp_getset = entry_getset;

    if (PyModule_AddType(module, &HandleType) < 0 || PyModule_AddType(module, &EntryType) < 0) return -1;
    return PyModule_AddFunctions(module, cache_functions);
}

}  // namespace framehook
