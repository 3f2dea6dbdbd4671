// The runner: what becomes of a frame, and the loop that follows continuations.
//
// A piece of generated code that ends at a graph break returns a Continuation instead of calling its resume
// function.  The loop here runs it in the place of the piece, so neither the C stack nor the chain of Python
// frames grows, and every piece has the same caller.
#include "runner.h"

#include <structmember.h>

#include "builtins.h"

namespace framehook {

// ---- FrameRecord -----------------------------------------------------------------------------------------

struct FrameRecordObject {
    PyObject_HEAD PyObject* code;
    PyObject* slots;
    PyObject* globals;
    PyObject* builtins;
    PyObject* closure;
    PyObject* function;
};

static PyTypeObject FrameRecordType = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* new_reference(PyObject* object) {
    Py_INCREF(object);
    return object;
}

static PyObject* or_none(PyObject* object) {
    return new_reference(object == nullptr ? Py_None : object);
}

static PyObject* make_frame_record(PyTypeObject* type, PyObject* code, PyObject* slots, PyObject* globals,
                                   PyObject* builtins, PyObject* closure, PyObject* function) {
    auto* self = reinterpret_cast<FrameRecordObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->code = new_reference(code);
    self->slots = new_reference(slots);
    self->globals = new_reference(globals);
    self->builtins = new_reference(builtins);
    self->closure = or_none(closure);
    self->function = or_none(function);
    return reinterpret_cast<PyObject*>(self);
}

static PyObject* frame_record_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"code", "slots", "globals", "builtins", "closure", "function", nullptr};
    PyObject *code, *slots, *globals, *builtins, *closure = Py_None, *function = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!|OO:FrameRecord", const_cast<char**>(names),
                                     &PyCode_Type, &code, &PyTuple_Type, &slots, &PyDict_Type, &globals,
                                     &PyDict_Type, &builtins, &closure, &function)) {
        return nullptr;
    }
    return make_frame_record(type, code, slots, globals, builtins, closure, function);
}

static int frame_record_traverse(FrameRecordObject* self, visitproc visit, void* arg) {
    Py_VISIT(self->slots);
    Py_VISIT(self->globals);
    Py_VISIT(self->builtins);
    Py_VISIT(self->closure);
    Py_VISIT(self->function);
    return 0;
}

static int frame_record_clear(FrameRecordObject* self) {
    Py_CLEAR(self->code);
    Py_CLEAR(self->slots);
    Py_CLEAR(self->globals);
    Py_CLEAR(self->builtins);
    Py_CLEAR(self->closure);
    Py_CLEAR(self->function);
    return 0;
}

static void frame_record_dealloc(FrameRecordObject* self) {
    PyObject_GC_UnTrack(self);
    frame_record_clear(self);
    Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

static PyMemberDef frame_record_members[] = {
    {"code", T_OBJECT, offsetof(FrameRecordObject, code), READONLY, "the code object of the frame"},
    {"slots", T_OBJECT, offsetof(FrameRecordObject, slots), READONLY, "raw argument objects, in slot order"},
    {"globals", T_OBJECT, offsetof(FrameRecordObject, globals), READONLY, "the globals dict"},
    {"builtins", T_OBJECT, offsetof(FrameRecordObject, builtins), READONLY, "the builtins dict"},
    {"closure", T_OBJECT, offsetof(FrameRecordObject, closure), READONLY, "tuple of cells, or None"},
    {"function", T_OBJECT, offsetof(FrameRecordObject, function), READONLY,
     "the function, or None if not known"},
    {nullptr, 0, 0, 0, nullptr},
};

// ---- CodeRef
// -----------------------------------------------------------------------------------------------

struct CodeRefObject {
    PyObject_HEAD PyObject* reference;  // weak reference to the code object
};

static PyTypeObject CodeRefType = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* code_ref_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"code", nullptr};
    PyObject* code;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:CodeRef", const_cast<char**>(names), &PyCode_Type,
                                     &code)) {
        return nullptr;
    }
    auto* self = reinterpret_cast<CodeRefObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->reference = PyWeakref_NewRef(code, nullptr);
    if (self->reference == nullptr) Py_CLEAR(self);
    return reinterpret_cast<PyObject*>(self);
}

static void code_ref_dealloc(CodeRefObject* self) {
    Py_CLEAR(self->reference);
    Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

static PyObject* code_ref_get(CodeRefObject* self, PyObject*) {
    PyObject* code = weak_target(self->reference);
    return code == nullptr ? new_reference(Py_None) : code;
}

static PyMethodDef code_ref_methods[] = {
    {"get", reinterpret_cast<PyCFunction>(code_ref_get), METH_NOARGS,
     "get() -> CodeType | None\n\nThe code object, or None when it has died."},
    {nullptr, nullptr, 0, nullptr},
};

// ---- Continuation
// --------------------------------------------------------------------------------------------

static PyTypeObject ContinuationType = {PyVarObject_HEAD_INIT(nullptr, 0)};

static bool is_continuation(PyObject* object) {
    return Py_IS_TYPE(object, &ContinuationType);
}

static PyObject* make_continuation(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count < 1 || !Py_IS_TYPE(args[0], &CodeRefType)) {
        PyErr_SetString(PyExc_TypeError, "make_continuation(code_ref, *values) needs a CodeRef");
        return nullptr;
    }
    auto* self = PyObject_GC_NewVar(ContinuationObject, &ContinuationType, count - 1);
    if (self == nullptr) return nullptr;
    self->code_reference = new_reference(args[0]);
    self->function = nullptr;
    for (Py_ssize_t i = 1; i < count; i++) self->values[i - 1] = new_reference(args[i]);
    PyObject_GC_Track(self);
    return reinterpret_cast<PyObject*>(self);
}

static int continuation_traverse(ContinuationObject* self, visitproc visit, void* arg) {
    Py_VISIT(self->code_reference);
    Py_VISIT(self->function);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) Py_VISIT(self->values[i]);
    return 0;
}

void release_values(ContinuationObject* continuation) {
    for (Py_ssize_t i = 0; i < Py_SIZE(continuation); i++) Py_CLEAR(continuation->values[i]);
}

static int continuation_clear(ContinuationObject* self) {
    release_values(self);
    Py_CLEAR(self->code_reference);
    Py_CLEAR(self->function);
    return 0;
}

static void continuation_dealloc(ContinuationObject* self) {
    PyObject_GC_UnTrack(self);
    continuation_clear(self);
    PyObject_GC_Del(self);
}

static PyObject* continuation_get_values(ContinuationObject* self, void*) {
    PyObject* values = PyTuple_New(Py_SIZE(self));
    for (Py_ssize_t i = 0; values != nullptr && i < Py_SIZE(self); i++) {
        PyTuple_SET_ITEM(values, i, or_none(self->values[i]));
    }
    return values;
}

static PyMemberDef continuation_members[] = {
    {"code_ref", T_OBJECT, offsetof(ContinuationObject, code_reference), READONLY,
     "CodeRef of the resume code"},
    {nullptr, 0, 0, 0, nullptr},
};

static PyGetSetDef continuation_getset[] = {
    {"values", reinterpret_cast<getter>(continuation_get_values), nullptr, "its argument slots", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// ---- callbacks
// -----------------------------------------------------------------------------------------------

static PyObject* miss_callback = nullptr;
static PyObject* classify_callback = nullptr;

int is_candidate(CodeRecord* record) {
    if (record->kind != Kind::unknown) return record->kind == Kind::candidate;
    if (builtins_are_replaced()) return 0;  // asked again the next time
    bool accepted = true;
    if (classify_callback != nullptr) {
        CaptureOff off;
        ExtraRecursion extra;
        PyObject* callback = new_reference(classify_callback);
        PyObject* answer = PyObject_CallOneArg(callback, reinterpret_cast<PyObject*>(record->code));
        int truth = answer == nullptr ? -1 : PyObject_IsTrue(answer);
        Py_XDECREF(answer);
        if (truth < 0 && !PyErr_ExceptionMatches(PyExc_Exception)) {
            Py_DECREF(callback);
            return -1;  // asked again the next time
        }
        if (truth < 0) PyErr_WriteUnraisable(callback);
        Py_DECREF(callback);
        accepted = truth > 0;
    }
    if (record->kind == Kind::unknown) record->kind = accepted ? Kind::candidate : Kind::excluded;
    return record->kind == Kind::candidate;
}

// The entry that the engine made for a miss, as a new reference; NULL for none, or with an exception.
static EntryObject* ask_for_entry(const FrameContext& frame, CodeRecord* record, PyObject* const* slots,
                                  Py_ssize_t count) {
    ThreadRoom& room = this_thread;
    if (miss_callback == nullptr || room.in_miss_callback || builtins_are_replaced()) return nullptr;
    PyObject* values = PyTuple_New(count);
    if (values == nullptr) return nullptr;
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(values, i, or_none(slots[i]));
    PyObject* frame_record =
        make_frame_record(&FrameRecordType, reinterpret_cast<PyObject*>(record->code), values, frame.globals,
                          frame.builtins, frame.closure, frame.function);
    Py_DECREF(values);
    if (frame_record == nullptr) return nullptr;

    PyObject* callback = new_reference(miss_callback);
    PyObject* answer;
    {
        CaptureOff off;
        ExtraRecursion extra;
        room.in_miss_callback = true;
        int64_t start = clock_now();
        answer = PyObject_CallFunctionObjArgs(callback, frame.handle, frame_record, nullptr);
        room.in_miss_callback = false;
        room.miss_time += clock_now() - start;
        Py_DECREF(frame_record);
        Py_DECREF(callback);
    }
    if (answer == nullptr || PyObject_TypeCheck(answer, &EntryType))
        return reinterpret_cast<EntryObject*>(answer);
    if (answer != Py_None) {
        PyErr_Format(PyExc_TypeError, "the miss callback must return an Entry or None, not %.200s",
                     Py_TYPE(answer)->tp_name);
    }
    Py_DECREF(answer);
    return nullptr;
}

// ---- running one entry
// -----------------------------------------------------------------------------------------

static PyObject* function_of(EntryObject* entry, const FrameContext& frame) {
    // A closure belongs to one call; keeping it would keep what its cells hold.
    if (frame.closure != nullptr)
        return new_function(entry->code, frame.globals, frame.builtins, frame.closure);
    if (entry->function != nullptr) {
        auto* last = reinterpret_cast<PyFunctionObject*>(entry->function);
        if (last->func_globals == frame.globals && last->func_builtins == frame.builtins) {
            return new_reference(entry->function);
        }
    }
    PyObject* function = new_function(entry->code, frame.globals, frame.builtins, nullptr);
    if (function == nullptr) return nullptr;
    PyObject* previous = entry->function;
    entry->function = new_reference(function);
    Py_XDECREF(previous);
    return function;
}

static constexpr Py_ssize_t slots_on_stack = 64;

static PyObject* call_with_inputs(PyObject* function, PyObject* const* slots, Py_ssize_t count,
                                  PyObject* inputs) {
    PyObject* on_stack[slots_on_stack];
    PyObject** arguments = on_stack;
    if (count + 1 > slots_on_stack) {
        arguments = static_cast<PyObject**>(PyMem_Malloc(static_cast<size_t>(count + 1) * sizeof(PyObject*)));
        if (arguments == nullptr) return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) arguments[i] = slots[i];
    arguments[count] = inputs;
    PyObject* result = PyObject_Vectorcall(function, arguments, static_cast<size_t>(count + 1), nullptr);
    if (arguments != on_stack) PyMem_Free(arguments);
    return result;
}

void mark_graph_failure(ThreadRoom& room) {
    // KeyboardInterrupt and the like are not the graph's doing.
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
    PyObject* exception = take_exception();
    room.failed_graph_exception = exception;
    restore_exception(exception);
}

// Whether the pending exception is the one that a graph marked; then it is dropped.
static bool drop_graph_failure(ThreadRoom& room) {
    if (room.failed_graph_exception == nullptr) return false;
    PyObject* exception = take_exception();
    if (exception != room.failed_graph_exception) {
        restore_exception(exception);
        return false;
    }
    Py_DECREF(exception);
    return true;
}

// Consumes `found`.  Outcome::eager: the graph failed before it changed anything.
static Outcome run_entry(const FrameContext& frame, Found& found, PyObject* const* slots, Py_ssize_t count,
                         PyObject** result) {
    EntryObject* entry = found.entry;
    PyObject* inputs = found.inputs;
    found = Found{};
    Outcome outcome = Outcome::result;
    *result = nullptr;
    PyObject* function = function_of(entry, frame);
    if (function != nullptr && entry->takes_inputs && inputs == nullptr) inputs = PyList_New(0);
    if (function != nullptr && !(entry->takes_inputs && inputs == nullptr)) {
        ThreadRoom& room = this_thread;
        // Failures are told apart by the run they happen in: one inside a nested frame is handled there.
        PyObject* outer_failure = room.failed_graph_exception;
        room.failed_graph_exception = nullptr;
        *result = entry->takes_inputs
                      ? call_with_inputs(function, slots, count, inputs)
                      : PyObject_Vectorcall(function, slots, static_cast<size_t>(count), nullptr);
        if (*result == nullptr && drop_graph_failure(room)) {
            frame.handle->counters.graph_failures++;
            outcome = Outcome::eager;
        }
        room.failed_graph_exception = outer_failure;
    }
    Py_XDECREF(inputs);
    Py_XDECREF(function);
    Py_DECREF(entry);
    return outcome;
}

// ---- one frame, or one resume code
// -------------------------------------------------------------------------------

static Outcome eager_outcome(const FrameContext& frame, const CodeRecord* record) {
    frame.handle->counters.eager_frames++;
    const HandleCache* cache = record->find(frame.handle);
    bool recursive =
        record->state == State::skip_recursive || (cache != nullptr && cache->state == State::skip_recursive);
    return recursive ? Outcome::eager_recursive : Outcome::eager;
}

static bool is_skipped(State state) {
    return state == State::skip || state == State::skip_recursive;
}

static Outcome run_once(const FrameContext& frame, CodeRecord* record, PyObject* const* slots,
                        Py_ssize_t count, PyObject** result) {
    HandleCache* cache = cache_of(record, frame.handle);
    if (is_skipped(record->state) || is_skipped(cache->state)) return eager_outcome(frame, record);
    Found found;
    if (find_entry(cache, frame, slots, count, &found)) {
        count_hit(cache, found.entry);
    } else {
        count_miss(cache);
        if (record->state == State::frozen || cache->state == State::frozen)
            return eager_outcome(frame, record);
        EntryObject* entry = ask_for_entry(frame, record, slots, count);
        if (entry == nullptr) {
            *result = nullptr;
            return PyErr_Occurred() != nullptr ? Outcome::result : eager_outcome(frame, record);
        }
        bool holds = entry_holds(entry, frame, slots, count, &found);
        Py_DECREF(entry);
        if (!holds) {
            frame.handle->counters.fresh_misses++;
            return eager_outcome(frame, record);
        }
    }
    Outcome outcome = run_entry(frame, found, slots, count, result);
    if (outcome == Outcome::eager) frame.handle->counters.eager_frames++;
    return outcome;
}

// ---- continuations
// -------------------------------------------------------------------------------------------------

static PyObject* run_natively(const FrameContext& frame, PyCodeObject* code,
                              ContinuationObject* continuation) {
    PyObject* function = new_function(code, frame.globals, frame.builtins, frame.closure);
    if (function == nullptr) return nullptr;
    ThreadRoom& room = this_thread;
    PyCodeObject* outer_code = room.expected_code;
    ContinuationObject* outer_values = room.expected_values;
    if (captures_on > 0 && room.off_depth == 0) {
        // The hook sees this frame first: it lets it pass, and the values then live in the frame alone.
        room.expected_code = code;
        room.expected_values = continuation;
    }
    PyObject* result = PyObject_Vectorcall(function, continuation->values,
                                           static_cast<size_t>(Py_SIZE(continuation)), nullptr);
    room.expected_code = outer_code;
    room.expected_values = outer_values;
    Py_DECREF(function);
    return result;
}

// Runs resume code: an entry of its own if it may have one, else natively.
static PyObject* run_resume_code(const FrameContext& frame, PyCodeObject* code, bool may_have_entry,
                                 ContinuationObject* continuation) {
    CodeRecord* record = record_of(code);
    if (record == nullptr) return nullptr;
    PyObject* result = nullptr;
    Outcome outcome = Outcome::eager;
    if (may_have_entry && record->slot_count == Py_SIZE(continuation) && record->is_plain_function &&
        !frame_is_observed(PyThreadState_Get(), code)) {
        ThreadRoom& room = this_thread;
        ContinuationObject* outer_values = room.running_values;
        room.running_values = continuation;
        outcome = run_once(frame, record, continuation->values, Py_SIZE(continuation), &result);
        room.running_values = outer_values;
    }
    if (outcome == Outcome::eager) {
        result = run_natively(frame, code, continuation);
    } else if (outcome == Outcome::eager_recursive) {
        CaptureOff off;
        result = run_natively(frame, code, continuation);
    }
    return result;
}

static PyObject* resume(const FrameContext& frame, ContinuationObject* continuation) {
    auto* reference = reinterpret_cast<CodeRefObject*>(continuation->code_reference);
    auto* code = reinterpret_cast<PyCodeObject*>(weak_target(reference->reference));
    if (code == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the resume code died before it was run; nobody owns it");
        return nullptr;
    }
    frame.handle->counters.resumes++;
    PyObject* result = run_resume_code(frame, code, true, continuation);
    Py_DECREF(code);
    return result;
}

static void follow_continuations(const FrameContext& frame, PyObject** result) {
    // A resume function has no function of its own that anybody could look at.
    FrameContext resumed = frame;
    resumed.function = nullptr;
    while (*result != nullptr && is_continuation(*result)) {
        auto* continuation = reinterpret_cast<ContinuationObject*>(*result);
        *result = resume(resumed, continuation);
        Py_DECREF(continuation);
    }
}

namespace {

// What resume code was called with is none of the business of frames that begin meanwhile.
class OtherFrame {
  public:
    OtherFrame() : outer(this_thread.running_values) { this_thread.running_values = nullptr; }
    ~OtherFrame() { this_thread.running_values = outer; }
    OtherFrame(const OtherFrame&) = delete;
    OtherFrame& operator=(const OtherFrame&) = delete;

  private:
    ContinuationObject* outer;
};

}  // namespace

Outcome run_frame(const FrameContext& frame, CodeRecord* record, PyObject* const* slots, Py_ssize_t count,
                  PyObject** result) {
    OtherFrame other;
    Outcome outcome = run_once(frame, record, slots, count, result);
    if (outcome == Outcome::result) follow_continuations(frame, result);
    return outcome;
}

Outcome run_found(const FrameContext& frame, Found& found, PyObject* const* slots, Py_ssize_t count,
                  PyObject** result) {
    OtherFrame other;
    Outcome outcome = run_entry(frame, found, slots, count, result);
    if (outcome == Outcome::result) follow_continuations(frame, result);
    return outcome;
}

// ---- calls of frames that have begun
// ---------------------------------------------------------------------------------

// A frame below another one, in the middle of which a piece or a resume function begins.  The frame above
// calls it in the place of the user's function, once.
struct FrameCallObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* code;
    PyObject* function;             // gives globals, builtins and closure, and lives as long as the frame
    ContinuationObject* arguments;  // NULL once called
    bool is_piece;                  // generated code: it returns a continuation to the piece that calls it
};

static PyTypeObject FrameCallType = {PyVarObject_HEAD_INIT(nullptr, 0)};

static PyObject* run_piece(const FrameContext& frame, FrameCallObject* call, ContinuationObject* arguments) {
    auto* code = reinterpret_cast<PyCodeObject*>(call->code);
    CodeRecord* record = record_of(code);
    if (record == nullptr) return nullptr;
    record->kind = Kind::generated;
    PyObject* result = run_natively(frame, code, arguments);
    if (result == nullptr) return nullptr;
    if (!is_continuation(result)) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_SystemError, "a piece of an inlined frame has to return a continuation");
        return nullptr;
    }
    Py_XSETREF(reinterpret_cast<ContinuationObject*>(result)->function, new_reference(call->function));
    return result;
}

static PyObject* run_rest(const FrameContext& frame, FrameCallObject* call, ContinuationObject* arguments) {
    auto* code = reinterpret_cast<PyCodeObject*>(call->code);
    CodeRecord* record = record_of(code);
    int accepted = record == nullptr ? -1 : frame.handle == nullptr ? 0 : is_candidate(record);
    if (accepted < 0) return nullptr;
    bool may_have_entry = accepted > 0 && stack_room(this_thread) == StackRoom::ample;
    PyObject* result = run_resume_code(frame, code, may_have_entry, arguments);
    if (may_have_entry) follow_continuations(frame, &result);
    return result;
}

static PyObject* call_frame(PyObject* callable, PyObject* const*, size_t count, PyObject*) {
    auto* call = reinterpret_cast<FrameCallObject*>(callable);
    ContinuationObject* arguments = call->arguments;
    if (arguments == nullptr || PyVectorcall_NARGS(count) != 0) {
        PyErr_SetString(PyExc_TypeError, "a frame that has begun is called once, without arguments");
        return nullptr;
    }
    call->arguments = nullptr;
    bool is_captured = captures_on > 0 && this_thread.off_depth == 0;
    HandleObject* handle = is_captured ? active_handle() : nullptr;
    auto* function = reinterpret_cast<PyFunctionObject*>(call->function);
    FrameContext frame{handle, function->func_globals, function->func_builtins, function->func_closure,
                       nullptr};
    PyObject* result = call->is_piece ? run_piece(frame, call, arguments) : run_rest(frame, call, arguments);
    PyObject* pending = result == nullptr ? take_exception() : nullptr;
    Py_DECREF(arguments);
    Py_XDECREF(handle);
    if (pending != nullptr) restore_exception(pending);
    return result;
}

static PyObject* make_frame_call(PyObject* const* args, Py_ssize_t count, bool is_piece) {
    if (count < 2 || !PyCode_Check(args[0]) || !PyFunction_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "a call of a frame needs its code, its function, and its values");
        return nullptr;
    }
    auto* arguments = PyObject_GC_NewVar(ContinuationObject, &ContinuationType, count - 2);
    if (arguments == nullptr) return nullptr;
    arguments->code_reference = new_reference(Py_None);
    arguments->function = nullptr;
    for (Py_ssize_t i = 2; i < count; i++) arguments->values[i - 2] = new_reference(args[i]);
    PyObject_GC_Track(arguments);
    auto* self = PyObject_GC_New(FrameCallObject, &FrameCallType);
    if (self == nullptr) {
        Py_DECREF(arguments);
        return nullptr;
    }
    self->vectorcall = call_frame;
    self->code = new_reference(args[0]);
    self->function = new_reference(args[1]);
    self->arguments = arguments;
    self->is_piece = is_piece;
    PyObject_GC_Track(self);
    return reinterpret_cast<PyObject*>(self);
}

static PyObject* make_piece_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
    return make_frame_call(args, count, true);
}

static PyObject* make_rest_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
    return make_frame_call(args, count, false);
}

static int frame_call_traverse(FrameCallObject* self, visitproc visit, void* arg) {
    Py_VISIT(self->function);
    Py_VISIT(self->arguments);
    return 0;
}

static int frame_call_clear(FrameCallObject* self) {
    Py_CLEAR(self->function);
    Py_CLEAR(self->arguments);
    return 0;
}

static void frame_call_dealloc(FrameCallObject* self) {
    PyObject_GC_UnTrack(self);
    frame_call_clear(self);
    Py_CLEAR(self->code);
    PyObject_GC_Del(self);
}

// The code that `inner` goes on with in `table`: pairs of CodeRefs, inner and outer; borrowed, NULL if not
// there.
static PyObject* outer_code_reference(PyObject* table, PyObject* inner) {
    PyObject* code = weak_target(reinterpret_cast<CodeRefObject*>(inner)->reference);
    PyObject* found = nullptr;
    for (Py_ssize_t i = 0; code != nullptr && found == nullptr && i + 1 < PyTuple_GET_SIZE(table); i += 2) {
        auto* reference = reinterpret_cast<CodeRefObject*>(PyTuple_GET_ITEM(table, i));
        PyObject* candidate = weak_target(reference->reference);
        if (candidate == code) found = PyTuple_GET_ITEM(table, i + 1);
        Py_XDECREF(candidate);
    }
    Py_XDECREF(code);
    return found;
}

static PyObject* join_continuation(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count < 2 || !PyTuple_Check(args[0]) || !is_continuation(args[1])) {
        PyErr_SetString(PyExc_TypeError, "join_continuation(table, continuation, *values)");
        return nullptr;
    }
    auto* inner = reinterpret_cast<ContinuationObject*>(args[1]);
    PyObject* reference = inner->function == nullptr || !Py_IS_TYPE(inner->code_reference, &CodeRefType)
                              ? nullptr
                              : outer_code_reference(args[0], inner->code_reference);
    if (reference == nullptr) {
        PyErr_SetString(PyExc_SystemError,
                        "a frame below goes on in code that the frame above does not know");
        return nullptr;
    }
    Py_ssize_t own = count - 2, below = Py_SIZE(inner);
    auto* self = PyObject_GC_NewVar(ContinuationObject, &ContinuationType, own + 1 + below);
    if (self == nullptr) return nullptr;
    self->code_reference = new_reference(reference);
    self->function = nullptr;
    for (Py_ssize_t i = 0; i < own; i++) self->values[i] = new_reference(args[i + 2]);
    self->values[own] = new_reference(inner->function);
    for (Py_ssize_t i = 0; i < below; i++) self->values[own + 1 + i] = or_none(inner->values[i]);
    PyObject_GC_Track(self);
    return reinterpret_cast<PyObject*>(self);
}

// ---- functions of the module
// -----------------------------------------------------------------------------------------

static PyObject* set_callback(PyObject** place, PyObject* callback) {
    if (callback != Py_None && !PyCallable_Check(callback)) {
        PyErr_Format(PyExc_TypeError, "expected a callable or None, not %.200s", Py_TYPE(callback)->tp_name);
        return nullptr;
    }
    PyObject* previous = *place;
    *place = callback == Py_None ? nullptr : new_reference(callback);
    return previous == nullptr ? new_reference(Py_None) : previous;
}

static PyObject* drop_arguments(PyObject*, PyObject*) {
    ContinuationObject* values = this_thread.running_values;
    this_thread.running_values = nullptr;
    if (values != nullptr) release_values(values);
    Py_RETURN_NONE;
}

static PyObject* set_miss_callback(PyObject*, PyObject* callback) {
    return set_callback(&miss_callback, callback);
}

static PyObject* set_classify_callback(PyObject*, PyObject* callback) {
    return set_callback(&classify_callback, callback);
}

PyMethodDef runner_functions[] = {
    {"set_miss_callback", set_miss_callback, METH_O,
     "set_miss_callback(fn) -> previous\n\n"
     "fn(handle, FrameRecord) -> Entry | None is called on a miss, with capture off and room to recurse."},
    {"set_classify_callback", set_classify_callback, METH_O,
     "set_classify_callback(fn) -> previous\n\n"
     "fn(code) -> bool is called once per code object: may its frames be captured?"},
    {"make_continuation", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(make_continuation)),
     METH_FASTCALL,
     "make_continuation(code_ref, *values) -> Continuation\n\n"
     "What generated code returns to go on in a resume code with these values in its argument slots."},
    {"drop_arguments", drop_arguments, METH_NOARGS,
     "drop_arguments() -> None\n\n"
     "For generated code that continues a frame, once its graph has run: what it was called with lives in "
     "its\n"
     "own variables alone."},
    {"make_piece_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(make_piece_call)),
     METH_FASTCALL,
     "make_piece_call(code, function, *values) -> FrameCall\n\n"
     "Called, it runs generated code as a frame of the function, and returns the continuation of that."},
    {"make_rest_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(make_rest_call)), METH_FASTCALL,
     "make_rest_call(code, function, *values) -> FrameCall\n\n"
     "Called, it runs resume code as a frame of the function to its end, and returns the result."},
    {"join_continuation", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(join_continuation)),
     METH_FASTCALL,
     "join_continuation(table, continuation, *values) -> Continuation\n\n"
     "How a frame goes on with these values of its own and a frame below that goes on as `continuation` "
     "says.\n"
     "The table is a tuple of CodeRefs in pairs: code of the frame below, code of both."},
    {nullptr, nullptr, 0, nullptr},
};

int init_runner(PyObject* module) {
    PyTypeObject& f = FrameRecordType;
    f.tp_name = "framehook._C.FrameRecord";
    f.tp_doc =
        "FrameRecord(code, slots, globals, builtins, closure=None, function=None)\n--\n\nA frame about to "
        "run.";
    f.tp_basicsize = sizeof(FrameRecordObject);
    f.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    f.tp_new = frame_record_new;
    f.tp_dealloc = reinterpret_cast<destructor>(frame_record_dealloc);
    f.tp_traverse = reinterpret_cast<traverseproc>(frame_record_traverse);
    f.tp_clear = reinterpret_cast<inquiry>(frame_record_clear);
    f.tp_members = frame_record_members;

    PyTypeObject& r = CodeRefType;
    r.tp_name = "framehook._C.CodeRef";
    r.tp_doc = "CodeRef(code)\n--\n\nA weak reference to a resume code object, as generated code holds it.";
    r.tp_basicsize = sizeof(CodeRefObject);
    r.tp_flags = Py_TPFLAGS_DEFAULT;
    r.tp_new = code_ref_new;
    r.tp_dealloc = reinterpret_cast<destructor>(code_ref_dealloc);
    r.tp_methods = code_ref_methods;

    PyTypeObject& c = ContinuationType;
    c.tp_name = "framehook._C.Continuation";
    c.tp_doc = "What a piece of a frame returns at a break; made by make_continuation().";
    c.tp_basicsize = offsetof(ContinuationObject, values);
    c.tp_itemsize = sizeof(PyObject*);
    c.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    c.tp_dealloc = reinterpret_cast<destructor>(continuation_dealloc);
    c.tp_traverse = reinterpret_cast<traverseproc>(continuation_traverse);
    c.tp_clear = reinterpret_cast<inquiry>(continuation_clear);
    c.tp_members = continuation_members;
    c.tp_getset = continuation_getset;

    PyTypeObject& b = FrameCallType;
    b.tp_name = "framehook._C.FrameCall";
    b.tp_doc = "A call of a frame that has begun; made by make_piece_call() and make_rest_call().";
    b.tp_basicsize = sizeof(FrameCallObject);
    b.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                 Py_TPFLAGS_DISALLOW_INSTANTIATION;
    b.tp_call = PyVectorcall_Call;
    b.tp_vectorcall_offset = offsetof(FrameCallObject, vectorcall);
    b.tp_dealloc = reinterpret_cast<destructor>(frame_call_dealloc);
    b.tp_traverse = reinterpret_cast<traverseproc>(frame_call_traverse);
    b.tp_clear = reinterpret_cast<inquiry>(frame_call_clear);

    for (PyTypeObject* type : {&FrameRecordType, &CodeRefType, &ContinuationType, &FrameCallType}) {
        if (PyModule_AddType(module, type) < 0) return -1;
    }
    return PyModule_AddFunctions(module, runner_functions);
}

}  // namespace framehook
