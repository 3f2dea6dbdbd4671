// The PEP 523 evaluation function: installed only while some context has capture on, out of the way while our
// own code runs, chaining to whatever evaluation function was there before.
#include "hook.h"

#include <pthread.h>

#include <algorithm>
#include <memory>

#include "runner.h"

namespace framehook {

__thread ThreadRoom this_thread;
long captures_on = 0;
long captures_entered = 0;

// ---- installing and removing -----------------------------------------------------------------------------

static PyObject* evaluate_frame(PyThreadState* ts, Frame* frame, int throwflag);

// What stood below us each time we put ourselves on top.  Usually one: CPython's own evaluation.  More only
// if somebody installed a function above ours and left it there; that one probably chains to us, so when we
// go on top of it again, the frames it hands down must go to the function below that.
static constexpr int chain_limit = 16;
static _PyFrameEvalFunction chain[chain_limit];
static int chain_length = 0;

static _PyFrameEvalFunction chained_at(int level) {
    int index = chain_length - 1 - level;
    return index >= 0 ? chain[index] : _PyEval_EvalFrameDefault;
}

static bool hook_is_on_top() {
    return current_eval_function() == evaluate_frame;
}

static void install_hook() {
    _PyFrameEvalFunction current = current_eval_function();
    if (current == evaluate_frame) return;
    if (chain_length == 0 || chain[chain_length - 1] != current) {
        if (chain_length == chain_limit) std::copy(chain + 1, chain + chain_length--, chain);
        chain[chain_length++] = current;
    }
    set_eval_function(evaluate_frame);
}

// Puts back what was there.  If somebody installed a function above ours it is theirs to remove: we stay
// reachable through it, and hand every frame down.
static void remove_hook() {
    if (!hook_is_on_top()) return;
    set_eval_function(chained_at(0));
    if (chain_length > 0) chain_length--;
}

// ---- capture off, per thread
// -------------------------------------------------------------------------------

// How many of the contexts counted in captures_on were entered on this thread.  Shared with the tokens, which
// may be closed on another thread.
static thread_local std::shared_ptr<long> entered_here;

void begin_capture_off() {
    ThreadRoom& room = this_thread;
    if (room.off_depth++ > 0 || captures_on == 0) return;
    // With any evaluation function set, CPython stops inlining Python calls, and the tracer and compiled
    // graphs are Python.  If no other thread needs the hook, take it out for as long as capture is off here.
    if (entered_here != nullptr && *entered_here == captures_on && hook_is_on_top()) {
        remove_hook();
        room.hook_is_suspended = true;
    }
}

void end_capture_off() {
    ThreadRoom& room = this_thread;
    if (--room.off_depth > 0 || !room.hook_is_suspended) return;
    room.hook_is_suspended = false;
    if (captures_on > 0) install_hook();
}

// ---- capture on, per context
// -------------------------------------------------------------------------------

// What the context variable holds.  Contexts are copied (tasks, callbacks), so the end of a capture is marked
// in the state itself.
struct CaptureStateObject {
    PyObject_HEAD HandleObject* handle;  // NULL: nothing is captured in this context
    CaptureStateObject* outer;
    bool has_ended;
};

static PyTypeObject CaptureStateType = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject* active_variable;  // ContextVar

static int capture_state_traverse(CaptureStateObject* self, visitproc visit, void* arg) {
    Py_VISIT(self->handle);
    Py_VISIT(self->outer);
    return 0;
}

static int capture_state_clear(CaptureStateObject* self) {
    Py_CLEAR(self->handle);
    Py_CLEAR(self->outer);
    return 0;
}

static void capture_state_dealloc(CaptureStateObject* self) {
    PyObject_GC_UnTrack(self);
    capture_state_clear(self);
    PyObject_GC_Del(self);
}

// The innermost state of this context that has not ended, as a new reference.
static CaptureStateObject* live_state() {
    PyObject* value = nullptr;
    if (PyContextVar_Get(active_variable, nullptr, &value) < 0) {
        PyErr_Clear();
        return nullptr;
    }
    if (value == Py_None) Py_CLEAR(value);
    auto* state = reinterpret_cast<CaptureStateObject*>(value);
    while (state != nullptr && state->has_ended) {
        CaptureStateObject* outer = state->outer;
        Py_XINCREF(outer);
        Py_DECREF(state);
        state = outer;
    }
    return state;
}

HandleObject* active_handle() {
    CaptureStateObject* state = live_state();
    if (state == nullptr) return nullptr;
    HandleObject* handle = state->handle;
    Py_XINCREF(handle);
    Py_DECREF(state);
    return handle;
}

bool context_is_claimed() {
    CaptureStateObject* state = live_state();
    Py_XDECREF(state);
    return state != nullptr;
}

// ---- stances
// -------------------------------------------------------------------------------------------------------

bool stance_matters = false;
static PyObject* stance_variable;  // ContextVar, while some block has a stance; else NULL
static bool process_is_eager = false;

// Blocks are lists: [name, or None once it has ended; the block around it, or None].
bool read_stance() {
    PyObject* block = nullptr;
    if (stance_variable == nullptr || PyContextVar_Get(stance_variable, Py_None, &block) < 0) {
        PyErr_Clear();
        return process_is_eager;
    }
    bool is_eager = process_is_eager;
    for (PyObject* each = block; PyList_CheckExact(each) && PyList_GET_SIZE(each) == 2;
         each = PyList_GET_ITEM(each, 1)) {
        PyObject* name = PyList_GET_ITEM(each, 0);
        if (!PyUnicode_Check(name)) continue;
        is_eager = PyUnicode_CompareWithASCIIString(name, "force_eager") == 0;
        break;
    }
    Py_DECREF(block);
    return is_eager;
}

static PyObject* watch_stance(PyObject*, PyObject* args) {
    PyObject* variable;
    int is_eager;
    if (!PyArg_ParseTuple(args, "Op:watch_stance", &variable, &is_eager)) return nullptr;
    if (variable != Py_None && !PyContextVar_CheckExact(variable)) {
        PyErr_SetString(PyExc_TypeError, "expected a ContextVar or None");
        return nullptr;
    }
    PyObject* previous = stance_variable;
    stance_variable = variable == Py_None ? nullptr : variable;
    Py_XINCREF(stance_variable);
    process_is_eager = is_eager != 0;
    stance_matters = process_is_eager || stance_variable != nullptr;
    Py_XDECREF(previous);
    Py_RETURN_NONE;
}

struct CaptureTokenObject {
    PyObject_HEAD CaptureStateObject* state;  // NULL once closed
    std::shared_ptr<long>* counted;           // the counter of the thread that entered; NULL without a handle
};

static PyTypeObject CaptureTokenType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// Everything about the end but the context variable.
static void end_capture(CaptureTokenObject* token) {
    CaptureStateObject* state = token->state;
    token->state = nullptr;
    captures_entered--;
    state->has_ended = true;
    if (token->counted != nullptr) {
        (**token->counted)--;
        delete token->counted;
        token->counted = nullptr;
        if (--captures_on == 0) remove_hook();
    }
    Py_CLEAR(state->handle);
    Py_DECREF(state);
}

// False with an exception set.
static bool set_active(PyObject* value) {
    PyObject* variable_token = PyContextVar_Set(active_variable, value);
    Py_XDECREF(variable_token);
    return variable_token != nullptr;
}

PyObject* enter_capture(HandleObject* handle) {
    auto* state = PyObject_GC_New(CaptureStateObject, &CaptureStateType);
    if (state == nullptr) return nullptr;
    Py_XINCREF(handle);
    state->handle = handle;
    state->has_ended = false;
    state->outer = live_state();
    PyObject_GC_Track(state);
    auto* token = PyObject_New(CaptureTokenObject, &CaptureTokenType);
    if (token == nullptr || !set_active(reinterpret_cast<PyObject*>(state))) {
        if (token != nullptr) PyObject_Free(token);
        Py_DECREF(state);
        return nullptr;
    }
    token->state = state;
    token->counted = nullptr;
    captures_entered++;
    if (handle != nullptr) {
        if (entered_here == nullptr) entered_here = std::make_shared<long>(0);
        token->counted = new std::shared_ptr<long>(entered_here);
        ++*entered_here;
        captures_on++;
        if (!this_thread.hook_is_suspended) install_hook();
    }
    return reinterpret_cast<PyObject*>(token);
}

void exit_capture(PyObject* object) {
    auto* token = reinterpret_cast<CaptureTokenObject*>(object);
    if (token->state == nullptr) return;
    PyObject* pending = take_exception();
    PyObject* innermost = nullptr;
    if (PyContextVar_Get(active_variable, nullptr, &innermost) < 0) PyErr_Clear();
    bool is_innermost = innermost == reinterpret_cast<PyObject*>(token->state);
    end_capture(token);
    // In another context, or with an inner capture still on, the ended state is ignored where it stands.
    // Set, not reset: that may delete, and on 3.11 a garbage collection in the midst of PyContextVar_Reset
    // can have the variable remember, without a reference, the value that is about to go.
    if (is_innermost) {
        CaptureStateObject* outer = live_state();
        if (!set_active(outer == nullptr ? Py_None : reinterpret_cast<PyObject*>(outer))) PyErr_Clear();
        Py_XDECREF(outer);
    }
    Py_XDECREF(innermost);
    restore_exception(pending);
}

static void capture_token_dealloc(CaptureTokenObject* token) {
    if (token->state != nullptr) end_capture(token);  // a generator with a capture inside was dropped
    PyObject_Free(token);
}

// ---- the C stack
// -------------------------------------------------------------------------------------------

// Under the hook each Python call takes C stack.  Once a good part of it is used we stop capturing and step
// aside, so that CPython inlines calls again and deep recursion ends as it would have without us: more than
// the recursion limit allows unless the user raised it.  Where the hook has to stay (another thread needs it,
// a compiled function calls itself) the last quarter is kept for C code that recurses on its own, which
// CPython's limit for such recursion counts on.
static constexpr size_t generous_use = size_t{1} << 20;
static constexpr size_t largest_reserve = size_t{2} << 20;
static constexpr size_t believable_stack = size_t{256} << 20;

static void read_stack_bounds(ThreadRoom& room) {
    room.stack_high = room.stack_soft = room.stack_hard = reinterpret_cast<char*>(1);  // unknown: never low
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* low = nullptr;
    size_t size = 0;
    int failed = pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    if (failed != 0 || size == 0) return;
    char* high = static_cast<char*>(low) + size;
    size = std::min(size, believable_stack);  // "unlimited" ends wherever the next mapping is
    room.stack_high = high;
    room.stack_soft = high - std::max(size / 8, std::min(size / 2, generous_use));
    room.stack_hard = high - size + std::min(size / 4, largest_reserve);
}

StackRoom measure_stack(ThreadRoom& room, char* here) {
    if (room.stack_soft == nullptr) read_stack_bounds(room);
    // Above `stack_high`, or further down than any limit: a stack that somebody else made.
    if (here > room.stack_soft || here > room.stack_high) return StackRoom::ample;
    if (here < room.stack_high - believable_stack) return StackRoom::ample;
    return here > room.stack_hard ? StackRoom::low : StackRoom::exhausted;
}

void raise_stack_exhausted() {
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up");
}

// ---- the evaluation function
// ---------------------------------------------------------------------------------

// Evaluate as if we were not here.
static PyObject* pass(PyThreadState* ts, Frame* frame, int throwflag, int level = 0) {
    _PyFrameEvalFunction next = chained_at(level);
    if (next == _PyEval_EvalFrameDefault) return evaluate_frame_by(next, ts, frame, throwflag);
    ThreadRoom& room = this_thread;
    Frame* outer_frame = room.chained_frame;
    int outer_level = room.chained_level;
    room.chained_frame = frame;
    room.chained_level = level;
    PyObject* result = evaluate_frame_by(next, ts, frame, throwflag);
    room.chained_frame = outer_frame;
    room.chained_level = outer_level;
    return result;
}

static PyObject* refuse(PyThreadState* ts, Frame* frame) {
    raise_stack_exhausted();
    // A generator is in the middle of something: let it see the exception.
    if (frame_belongs_to_generator(frame)) return evaluate_frame_by(_PyEval_EvalFrameDefault, ts, frame, 1);
    finish_unrun_frame(ts, frame);
    return nullptr;
}

static PyObject* pass_with_capture_off(PyThreadState* ts, Frame* frame, int throwflag) {
    CaptureOff off;
    return pass(ts, frame, throwflag);
}

static PyObject* pass_timed(PyThreadState* ts, Frame* frame, PyCodeObject* code, HandleObject* handle) {
    Py_INCREF(code);
    int64_t missing = this_thread.miss_time;
    int64_t start = clock_now();
    PyObject* result = pass(ts, frame, 0);
    int64_t nanoseconds = clock_now() - start;
    missing = this_thread.miss_time - missing;
    CodeRecord* record = existing_record(code);
    HandleCache* cache = record == nullptr ? nullptr : record->find(handle);
    // What was compiled inside is taken off; where it is the most of it, the rest says little.
    if (result != nullptr && cache != nullptr && missing < nanoseconds / 2)
        cache->eager_times.add(cache->lookups, nanoseconds - missing);
    PyObject* pending = result == nullptr ? take_exception() : nullptr;
    Py_DECREF(code);
    if (result == nullptr) restore_exception(pending);
    return result;
}

// May the record's frames be captured under this handle?  1, 0, or -1 with an exception.
static int may_capture(CodeRecord* record, HandleObject* handle) {
    if (!record->is_plain_function || record->kind == Kind::generated) return 0;
    int accepted = is_candidate(record);
    if (accepted != 0) return accepted;
    HandleCache* cache = record->find(handle);
    return cache != nullptr && cache->is_root;
}

static PyObject* evaluate_captured(PyThreadState* ts, Frame* frame, PyCodeObject* code,
                                   HandleObject* handle) {
    // First of all: whether code may be captured is asked of Python, and a tool would see that.
    if (frame_is_observed(ts, code)) return pass(ts, frame, 0);
    CodeRecord* record = record_of(code);
    int accepted = record == nullptr ? -1 : may_capture(record, handle);
    if (accepted < 0) {
        finish_unrun_frame(ts, frame);
        return nullptr;
    }
    if (accepted == 0 || !frame_is_plain_call(frame)) {
        // Classifying may have found out that nothing below is to be captured.
        if (record->state == State::skip_recursive) return pass_with_capture_off(ts, frame, 0);
        return pass(ts, frame, 0);
    }
    FrameView view = view_frame(frame);
    FrameContext context{handle, view.globals, view.builtins, view.closure, view.function};
    PyObject* result = nullptr;
    HandleCache* cache = cache_of(record, handle);
    uint64_t hits = cache->hits, misses = cache->misses;
    bool is_timed = is_sampled(hits);
    int64_t start = is_timed ? clock_now() : 0, missing = this_thread.miss_time;
    // The frame keeps the code, and the caller the handle, so the cache is still there behind this.
    switch (run_frame(context, record, view.slots, record->slot_count, &result)) {
        case Outcome::eager:
            if (cache->misses > misses && is_sampled(cache->misses - 1))
                return pass_timed(ts, frame, code, handle);
            return pass(ts, frame, 0);
        case Outcome::eager_recursive:
            return pass_with_capture_off(ts, frame, 0);
        case Outcome::result:
            // Calls of itself or compiles inside would count: those are left out.
            if (is_timed && result != nullptr && cache->hits == hits + 1 && cache->misses == misses &&
                this_thread.miss_time == missing)
                cache->hit_times.add(cache->lookups, clock_now() - start);
            break;
    }
    if (!finish_unrun_frame(ts, frame)) Py_CLEAR(result);
    return result;
}

static PyObject* evaluate_frame(PyThreadState* ts, Frame* frame, int throwflag) {
    ThreadRoom& room = this_thread;
    StackRoom stack = stack_room(room);
    if (__builtin_expect(stack != StackRoom::ample, 0)) {
        if (stack == StackRoom::exhausted) return refuse(ts, frame);
        if (room.off_depth == 0) return pass_with_capture_off(ts, frame, throwflag);
    }
    if (room.chained_frame == frame) return pass(ts, frame, throwflag, room.chained_level + 1);
    if (throwflag || room.off_depth > 0 || interpreter_is_finalizing()) return pass(ts, frame, throwflag);
    if (captures_on == 0) {
        remove_hook();  // somebody put us back after we had left
        return pass(ts, frame, throwflag);
    }

    PyCodeObject* code = frame_code(frame);
    CodeRecord* record = existing_record(code);
    if (record != nullptr) {
        if (room.expected_code == code) {
            room.expected_code = nullptr;
            release_values(room.expected_values);
            return pass(ts, frame, 0);
        }
        // Generated code is ours: nobody that we chain to has a use for its frames.
        if (record->kind == Kind::generated) return evaluate_frame_by(_PyEval_EvalFrameDefault, ts, frame, 0);
        if (record->state == State::skip_recursive) return pass_with_capture_off(ts, frame, 0);
        if (record->kind == Kind::excluded && record->caches.empty()) return pass(ts, frame, 0);
        if (record->state == State::skip) return pass(ts, frame, 0);
    }
    if (stance_is_eager()) return pass(ts, frame, 0);
    HandleObject* handle = active_handle();
    if (handle == nullptr) return pass(ts, frame, 0);
    PyObject* result = evaluate_captured(ts, frame, code, handle);
    // After the last use of the handle by this frame; releasing it may run Python, so keep the exception out.
    if (result == nullptr) {
        PyObject* pending = take_exception();
        Py_DECREF(handle);
        restore_exception(pending);
    } else {
        Py_DECREF(handle);
    }
    return result;
}

// ---- functions of the module
// -----------------------------------------------------------------------------------

static PyObject* py_enter_capture(PyObject*, PyObject* handle) {
    if (handle == Py_None) return enter_capture(nullptr);
    if (!PyObject_TypeCheck(handle, &HandleType)) {
        PyErr_Format(PyExc_TypeError, "expected a Handle or None, not %.200s", Py_TYPE(handle)->tp_name);
        return nullptr;
    }
    return enter_capture(reinterpret_cast<HandleObject*>(handle));
}

static PyObject* py_exit_capture(PyObject*, PyObject* token) {
    if (!Py_IS_TYPE(token, &CaptureTokenType)) {
        PyErr_Format(PyExc_TypeError, "expected a token of enter_capture(), not %.200s",
                     Py_TYPE(token)->tp_name);
        return nullptr;
    }
    exit_capture(token);
    Py_RETURN_NONE;
}

static PyObject* py_active_handle(PyObject*, PyObject*) {
    HandleObject* handle = active_handle();
    if (handle == nullptr) Py_RETURN_NONE;
    return reinterpret_cast<PyObject*>(handle);
}

static PyObject* py_capture_off(PyObject*, PyObject*) {
    PyObject* state = PyLong_FromLong(this_thread.off_depth);
    if (state != nullptr) begin_capture_off();
    return state;
}

static PyObject* py_capture_on(PyObject*, PyObject* argument) {
    long depth = PyLong_AsLong(argument);
    if (depth == -1 && PyErr_Occurred()) return nullptr;
    if (depth < 0 || depth > this_thread.off_depth) {
        PyErr_SetString(PyExc_ValueError, "not a state that capture_off() returned on this thread");
        return nullptr;
    }
    while (this_thread.off_depth > depth) end_capture_off();
    Py_RETURN_NONE;
}

static PyObject* py_is_capture_off(PyObject*, PyObject*) {
    return PyBool_FromLong(this_thread.off_depth > 0);
}

static PyObject* py_is_hook_installed(PyObject*, PyObject*) {
    return PyBool_FromLong(hook_is_on_top());
}

PyMethodDef hook_functions[] = {
    {"enter_capture", py_enter_capture, METH_O,
     "enter_capture(handle) -> CaptureToken\n\n"
     "Turn capture on for a handle in the current context; None turns it off there."},
    {"exit_capture", py_exit_capture, METH_O,
     "exit_capture(token) -> None\n\nEnd what enter_capture() began; a second time does nothing."},
    {"active_handle", py_active_handle, METH_NOARGS,
     "active_handle() -> Handle | None\n\nThe handle that captures in the current context."},
    {"capture_off", py_capture_off, METH_NOARGS,
     "capture_off() -> int\n\nTurn capture off on this thread; returns the state for capture_on()."},
    {"capture_on", py_capture_on, METH_O,
     "capture_on(state) -> None\n\nBack to the state that capture_off() returned."},
    {"is_capture_off", py_is_capture_off, METH_NOARGS,
     "is_capture_off() -> bool\n\nWhether capture is off on this thread."},
    {"watch_stance", watch_stance, METH_VARARGS,
     "watch_stance(variable, is_eager) -> None\n\n"
     "Everything runs eagerly where is_eager, or the blocks in the ContextVar (None: there are none), say "
     "so."},
    {"is_hook_installed", py_is_hook_installed, METH_NOARGS,
     "is_hook_installed() -> bool\n\nWhether the interpreter's evaluation function is ours right now."},
    {nullptr, nullptr, 0, nullptr},
};

int init_hook(PyObject* module) {
    PyTypeObject& s = CaptureStateType;
    s.tp_name = "framehook._C.CaptureState";
    s.tp_basicsize = sizeof(CaptureStateObject);
    s.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    s.tp_dealloc = reinterpret_cast<destructor>(capture_state_dealloc);
    s.tp_traverse = reinterpret_cast<traverseproc>(capture_state_traverse);
    s.tp_clear = reinterpret_cast<inquiry>(capture_state_clear);
    if (PyType_Ready(&CaptureStateType) < 0) return -1;

    PyTypeObject& t = CaptureTokenType;
    t.tp_name = "framehook._C.CaptureToken";
    t.tp_doc = "What enter_capture() returns; dropping it ends the capture.";
    t.tp_basicsize = sizeof(CaptureTokenObject);
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    t.tp_dealloc = reinterpret_cast<destructor>(capture_token_dealloc);
    if (PyModule_AddType(module, &CaptureTokenType) < 0) return -1;

    active_variable = PyContextVar_New("framehook.active", nullptr);
    if (active_variable == nullptr) return -1;
    return PyModule_AddFunctions(module, hook_functions);
}

}  // namespace framehook
