// Relations between integers and the sizes of tensors, as a program for a small stack machine.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <vector>

namespace framehook {

#define FRAMEHOOK_RELATION_OPERATIONS(X)               \
    X(CONSTANT) /* push the number that follows */     \
    X(INTEGER)  /* push the int in register a */       \
    X(SIZE)     /* push size b of the tensor in a */   \
    X(STRIDE)   /* push stride b of the tensor in a */ \
    X(ADD)                                             \
    X(MULTIPLY)                                        \
    X(FLOOR_DIVIDE)                                    \
    X(MODULO)                                          \
    X(MINIMUM)                                         \
    X(MAXIMUM)                                         \
    X(EQUAL)                                           \
    X(NOT_EQUAL)                                       \
    X(LESS)                                            \
    X(LESS_EQUAL)                                      \
    X(AND)                                             \
    X(OR)                                              \
    X(NOT)

enum RelationOperation : uint8_t {
#define X(name) kRelation##name,
    FRAMEHOOK_RELATION_OPERATIONS(X)
#undef X
        kRelationOperationCount
};

struct Relation {
    std::vector<int64_t> code;  // operations, each with its operands behind it
    std::vector<int64_t> stack;
};

// From (code, ...); false with an exception when it is no program that leaves one number.
bool relation_read(PyObject* code, size_t register_count, Relation& out);
// Whether the relation holds.  False also where a register holds something else, and where a number is too
// large.
bool relation_holds(Relation& relation, PyObject* const* registers);
// The names of the operations in a dict of numbers, as a new reference.
PyObject* relation_operations();

}  // namespace framehook
