// The instructions of a guard program and their evaluation; guard_evaluate.cpp says why it is sound.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpython.h"
#include "guard_values.h"
#include "relation.h"
#include "tensor_check.h"
#include "torch_state.h"

namespace framehook {

// The operations; `a` is the register read, `b` the register written, `x` as noted.
#define FRAMEHOOK_GUARD_OPERATIONS(X)                                              \
    X(LOCAL)         /* b = argument slot x */                                     \
    X(CELL)          /* b = closure cell x */                                      \
    X(TYPE_OF)       /* b = type of a */                                           \
    X(DICT_OF)       /* b = instance dict of a, or nothing */                      \
    X(ENTER_OBJECT)  /* type of a is the constant; b = its instance dict; enter */ \
    X(ENTER_DICT)    /* a is a dict; enter the block at instruction x */           \
    X(ENTER_TYPE)    /* a is a class; the same for a class */                      \
    X(END)           /* of the main line; blocks follow */                         \
    X(LEAVE)         /* end of the block entered at instruction x */               \
    X(KEY)           /* b = a[constant] of a dict */                               \
    X(ITEM)          /* b = a[constant] of a list, tuple or dict */                \
    X(MEMBER)        /* b = attribute of a served by C */                          \
    X(CLASS_ATTR)    /* b = raw attribute of a class */                            \
    X(CELL_CONTENTS) /* b = contents of cell a */                                  \
    X(TYPE_IS)                                                                     \
    X(IS)                                                                          \
    X(NOT_NONE)                                                                    \
    X(EQUALS)                                                                      \
    X(LENGTH)                                                                      \
    X(DICT_LENGTH) /* of what is known to be a dict */                             \
    X(ITEMS_ARE)   /* a is a tuple of the very objects in the constant */          \
    X(KEYS)                                                                        \
    X(MEMBERS) /* a is a set of the members in the constant, in their order */     \
    X(HAS_KEY)                                                                     \
    X(NO_KEY)                                                                      \
    X(NO_CLASS_ATTR)                                                               \
    X(TENSOR)                                                                      \
    X(STATE)                                                                       \
    X(SAME)     /* a and b are the same object */                                  \
    X(DISTINCT) /* constant: registers */                                          \
    X(DISJOINT) /* constant: (registers, mutated indices, exempt pairs) */         \
    X(OVERLAPS) /* memory of a and b overlaps, b starts constant bytes after a */  \
    X(RELATION) /* between numbers and sizes; constant: a program of relation.h */ \
    X(CELL_EMPTY)                                                                  \
    X(PREDICATE) /* constant: (callable, registers); run after all others */       \
    X(NEVER)     /* fails: an object the guard names is dead already */

enum Operation : uint8_t {
#define X(name) k##name,
    FRAMEHOOK_GUARD_OPERATIONS(X)
#undef X
        kOperationCount
};

struct Disjoint {
    std::vector<uint32_t> registers;
    std::vector<PyObject*> current;
    DisjointCheck* check = nullptr;
    ~Disjoint() { disjoint_check_free(check); }
};

struct Predicate {
    PyObject* callable;
    std::vector<uint32_t> registers;
    uint32_t pc;
};

struct Instruction {
    uint8_t operation = kNEVER;
    uint8_t member = kOtherMember;
    bool may_look_ahead = false;  // the register read kLookAhead further on is written by then
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t x = 0;  // slot, jump target, or the table entry where a key was found last
    union {
        PyObject* object = nullptr;
        TensorCheck* tensor;
        Distinct* distinct;
        Disjoint* disjoint;
        Relation* relation;
        Keys* keys;
    };
    union {
        uint64_t version = 0;
        Py_hash_t hash;
        Py_ssize_t number;
    };
};
static_assert(sizeof(Instruction) == 32);

// Shared by a program and the callbacks of its weak references, so that these do not own the program.
struct ValidityObject {
    PyObject_HEAD bool is_valid;
};

// How far ahead an object is loaded, and what it points at: the walk is bound by memory, not by instructions.
constexpr size_t kPrefetchDistance = 8;
constexpr size_t kLookAhead = 4;

// What evaluations have left behind for one object: registers and the versions of the blocks that wrote them.
struct Memory {
    PyObject* object = nullptr;  // an address to compare with, never followed
    std::vector<PyObject*> registers;
    std::vector<uint64_t> versions;
};

// Models called in turn share an entry, and each would make the versions of the others useless.  So a program
// keeps several memories, chosen by the object in one argument slot.
struct Memories {
    static constexpr size_t kMost = 4;
    static constexpr int kPatience = 32;  // changes of the object in a row that found no memory

    Py_ssize_t slot = -1;         // -1: not kept
    PyObject* current = nullptr;  // whose memory the program holds
    int misses = 0;
    std::vector<uint32_t> enters;  // instructions with a version
    std::vector<Memory> others;    // most recently used first
};

struct Program {
    // The main line, then the blocks, each from where its ENTER points to its LEAVE, which goes back behind
    // the ENTER: so the instructions of a call that skips all blocks lie close together.  Then some that are
    // never executed, so that prefetching may look ahead.
    std::vector<Instruction> instructions;
    size_t main_size = 0;           // up to and without its END
    std::vector<int32_t> guard_of;  // index of the guard an instruction serves, -1: an input only
    std::vector<PyObject*> registers;
    Memories memories;
    std::vector<std::pair<uint32_t, PyObject*>> fixed;  // registers that hold absolute objects
    std::vector<uint32_t> inputs;
    std::vector<PyObject*> strong;
    std::unordered_map<PyObject*, PyObject*> weak;  // object address -> weak reference
    std::vector<PyObject*> temporaries;             // new references fetched in the running evaluation
    std::vector<Predicate> predicates;
    std::vector<std::unique_ptr<Distinct>> distincts;
    std::vector<std::unique_ptr<Disjoint>> disjoints;
    std::vector<std::unique_ptr<Relation>> relations;
    std::vector<std::unique_ptr<Keys>> key_lists;
    std::vector<TensorCheck*> tensors;
    ValidityObject* validity = nullptr;
    PyObject* death_callback = nullptr;
    Py_ssize_t check_count = 0;
    bool is_exact = false;

    ~Program() {
        for (auto* tensor : tensors) tensor_check_free(tensor);
        for (auto& [object, reference] : weak) Py_DECREF(reference);
        for (auto* object : strong) Py_DECREF(object);
        Py_XDECREF(death_callback);
        Py_XDECREF(reinterpret_cast<PyObject*>(validity));
    }
};

constexpr uint32_t kGlobalsRegister = 0;
constexpr uint32_t kBuiltinsRegister = 1;
constexpr uint32_t kFixedRegisters = 2;

struct Arguments {
    PyObject* const* slots;
    Py_ssize_t slot_count;
    PyObject* globals;
    PyObject* builtins;
    PyObject* closure;  // tuple or null
};

enum class Verdict { kHolds, kFails, kNeedsExact };

// What the part that runs no Python hands on.
struct Harvest {
    PyObject* inputs = nullptr;
    std::vector<PyObject*> arguments;  // one tuple per predicate

    ~Harvest() {
        if (!thread_may_run_python()) return;
        Py_XDECREF(inputs);
        for (PyObject* tuple : arguments) Py_XDECREF(tuple);
    }
    Harvest() = default;
    Harvest(const Harvest&) = delete;
    Harvest& operator=(const Harvest&) = delete;
};

// Decides by which argument memories are kept; to be called once the instructions are complete.
void prepare_memories(Program& program);

// Evaluates a program; false with no exception set when a guard fails.  `*inputs_out` as in guard_program.h.
bool evaluate(Program& program, const Arguments& arguments, PyObject** inputs_out);

// Evaluates in exact mode up to the first failure: registers own what they hold (`owned`), no block is
// skipped.
Verdict run_exact(Program& program, const Arguments& arguments, std::vector<PyObject*>& registers,
                  std::vector<PyObject*>& owned, size_t* pc_out);

// Collects inputs and the arguments of predicates; false when one of them is missing or memory ran out.
bool harvest(Program& program, PyObject* const* registers, Harvest& out);

// Runs the predicates; false with `*failed` set when one does not hold (or raises).
bool run_predicates(Program& program, const Harvest& gathered, size_t* failed);

// A new tuple of registers, None where one is empty; null with an exception when memory ran out.
PyObject* tuple_of(const std::vector<uint32_t>& indices, PyObject* const* registers);

// Drops references; may run Python.
void release(std::vector<PyObject*>& owned);

}  // namespace framehook
