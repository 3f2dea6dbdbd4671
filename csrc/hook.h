// The evaluation function and what decides whether it acts: contexts with capture on, threads with capture
// off.
#pragma once

#include "cache.h"

namespace framehook {

struct ContinuationObject;

// What belongs to one thread.  Only that thread touches it, holding the GIL.
struct ThreadRoom {
    int off_depth;           // > 0: our own code runs, nothing is captured
    bool hook_is_suspended;  // we took the hook out when off_depth left 0
    bool in_miss_callback;   // never entered twice on one thread
    // The next frame of this code is ours to let pass natively; its values move into the frame.
    PyCodeObject* expected_code;
    ContinuationObject* expected_values;
    // What the entry of resume code that runs now was called with, until it lets go of it.
    ContinuationObject* running_values;
    // An evaluation function that we chain to may call us again for the frame that we gave it.
    Frame* chained_frame;
    int chained_level;
    int64_t
        miss_time;  // nanoseconds in the miss callback so far: compiling, which is no part of a call's time
    PyObject* failed_graph_exception;  // identity only: set while it propagates out of generated code
    // The C stack: raise below `stack_hard`, stop capturing below `stack_soft`.
    char* stack_high;
    char* stack_soft;
    char* stack_hard;
};

extern __thread ThreadRoom this_thread;

// Number of contexts in the process that have capture on.
extern long captures_on;
// Number of enter_capture() in the process that have not ended, with a handle or (capture kept off) without.
extern long captures_entered;

// The handle active in the current context, as a new reference; NULL without an exception if none.
HandleObject* active_handle();
// Whether the current context has something to say: an outer handle, or that nothing is captured in it.
bool context_is_claimed();

// Whether the stance of the current context is "force_eager"; asked of the context only while one is in use.
extern bool stance_matters;
bool read_stance();
inline bool stance_is_eager() {
    return __builtin_expect(stance_matters, 0) && read_stance();
}

enum class StackRoom { ample, low, exhausted };
StackRoom measure_stack(ThreadRoom& room, char* here);
inline StackRoom stack_room(ThreadRoom& room) {
    char* here = static_cast<char*>(__builtin_frame_address(0));
    if (__builtin_expect(here > room.stack_soft && room.stack_soft != nullptr, 1)) return StackRoom::ample;
    return measure_stack(room, here);
}
void raise_stack_exhausted();

void begin_capture_off();
void end_capture_off();

// Capture is off on this thread while one of these lives.
class CaptureOff {
  public:
    CaptureOff() { begin_capture_off(); }
    ~CaptureOff() {
        if (thread_may_run_python()) end_capture_off();
    }
    CaptureOff(const CaptureOff&) = delete;
    CaptureOff& operator=(const CaptureOff&) = delete;
};

// Turn capture on for a handle in the current context, or off for NULL; the token (a new reference) ends it.
PyObject* enter_capture(HandleObject* handle);
// Ends it; a pending exception survives.
void exit_capture(PyObject* token);

extern PyMethodDef hook_functions[];
int init_hook(PyObject* module);

}  // namespace framehook
