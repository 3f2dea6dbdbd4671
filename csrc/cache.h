// The cache: one CodeRecord per code object, in it one HandleCache per handle, in that the entries.
//
// Ownership: a HandleCache belongs to its handle and is listed in its record; whichever of the two dies first
// frees it.  A code object owns its record through co_extra.  Records and handles point at each other without
// counted references and are taken apart before anything is released, because releasing may run Python.
#pragma once

#include <string>
#include <vector>

#include "cpython.h"
#include "guard_program.h"
#include "timing.h"

namespace framehook {

struct CodeRecord;
struct HandleCache;

enum class State : uint8_t { active, skip, skip_recursive, frozen };

enum class Kind : uint8_t {
    unknown,    // not classified yet
    candidate,  // may be captured
    excluded,   // classified as not to be captured, or not a plain function's code
    generated,  // made by us: runs natively and is never looked up
};

struct Counters {
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t fresh_misses = 0;    // a new entry did not hold for the very call it was made for
    uint64_t graph_failures = 0;  // a graph raised before it changed anything; the frame ran eagerly
    uint64_t eager_frames = 0;    // frames that the handle looked up and then ran eagerly
    uint64_t resumes = 0;         // continuations taken
};

struct HandleObject {
    PyObject_HEAD PyObject* weak_references;
    std::vector<HandleCache*>* caches;
    Counters counters;
};

struct EntryObject {
    PyObject_HEAD PyObject* weak_references;
    PyObject* guards;  // GuardProgram, or NULL: always holds
    PyObject* discriminator;
    PyCodeObject* code;
    PyObject* payload;
    PyObject* function;  // for the globals and builtins of the last call; NULL before
    HandleCache* cache;  // where it is filed; NULL if nowhere
    uint64_t hits;
    uint64_t last_hit_lookup;  // value of the cache's lookup counter at the last hit (or when it was added)
    bool takes_inputs;
    bool is_whole;
};

struct HandleCache {
    HandleObject* handle;
    CodeRecord* record;
    std::vector<EntryObject*> entries;  // most recently used first; counted references
    uint64_t lookups = 0;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t changes = 0;  // moves whenever `entries` changes, so that a search notices
    State state = State::active;
    bool is_root = false;  // the user named this very function: no classification
    int whole_entries = 0;
    std::string reason;
    Timing hit_times;    // calls that found an entry, to the end of their frame
    Timing eager_times;  // calls that found none and ran eagerly, from the lookup on
};

struct CodeRecord {
    PyCodeObject* code;  // not counted: the record dies with it
    Kind kind = Kind::unknown;
    State state = State::active;
    bool is_plain_function;  // fast locals, not a generator or coroutine, class or module body
    int slot_count;
    std::string reason;
    std::vector<HandleCache*> caches;
    PyObject* resume_codes = nullptr;  // list; keeps the code of resume functions alive as long as `code`

    HandleCache* find(HandleObject* handle) const {
        for (HandleCache* cache : caches)
            if (cache->handle == handle) return cache;
        return nullptr;
    }
};

// What a search found: both references are counted and belong to the caller.
struct Found {
    EntryObject* entry = nullptr;
    PyObject* inputs = nullptr;  // list or NULL
};

// The values a guard program looks at, borrowed from the frame or call.
struct FrameContext {
    HandleObject* handle;
    PyObject* globals;
    PyObject* builtins;
    PyObject* closure;   // tuple or NULL
    PyObject* function;  // NULL if not known
};

extern PyTypeObject HandleType;
extern PyTypeObject EntryType;

// Number of argument slots: positional, keyword-only, *args, **kwargs.
int argument_slots(PyCodeObject* code);

inline CodeRecord* existing_record(PyCodeObject* code) {
    return static_cast<CodeRecord*>(code_slot(code));
}
CodeRecord* record_of(PyCodeObject* code);                        // made if needed; NULL with an exception
HandleCache* cache_of(CodeRecord* record, HandleObject* handle);  // made if needed

// Whether one entry holds; fills `found` with new references if so.
bool entry_holds(EntryObject* entry, const FrameContext& frame, PyObject* const* slots, Py_ssize_t count,
                 Found* found);
// The first entry that holds, moved to the front; dead entries are removed on the way.
// The caller keeps the handle and the code object alive.  Counts nothing.
bool find_entry(HandleCache* cache, const FrameContext& frame, PyObject* const* slots, Py_ssize_t count,
                Found* found);
void count_hit(HandleCache* cache, EntryObject* entry);
void count_miss(HandleCache* cache);

extern PyMethodDef cache_functions[];
int init_cache(PyObject* module);

}  // namespace framehook
