// Relations between integers and sizes: no Python runs here, and what cannot be computed exactly does not
// hold.
#include "relation.h"

#include "tensor_check.h"

namespace framehook {

namespace {

// How many numbers follow an operation, take from the stack, and leave there.
struct Shape {
    int operands;
    int taken;
};

Shape shape_of(int64_t operation) {
    switch (operation) {
        case kRelationCONSTANT:
        case kRelationINTEGER:
            return {1, 0};
        case kRelationSIZE:
        case kRelationSTRIDE:
            return {2, 0};
        case kRelationNOT:
            return {0, 1};
        default:
            return {0, 2};
    }
}

bool integer_of(PyObject* object, int64_t* out) {
    if (object == nullptr || !PyLong_CheckExact(object)) return false;
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    *out = value;
    return overflow == 0;
}

// As Python divides: rounded down.
bool floor_divide(int64_t a, int64_t b, int64_t* quotient, int64_t* rest) {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *quotient -= 1;
        *rest += b;
    }
    return true;
}

bool compute(int64_t operation, int64_t a, int64_t b, int64_t* out) {
    int64_t other;
    switch (operation) {
        case kRelationADD:
            return !__builtin_add_overflow(a, b, out);
        case kRelationMULTIPLY:
            return !__builtin_mul_overflow(a, b, out);
        case kRelationFLOOR_DIVIDE:
            return floor_divide(a, b, out, &other);
        case kRelationMODULO:
            return floor_divide(a, b, &other, out);
        case kRelationMINIMUM:
            *out = a < b ? a : b;
            return true;
        case kRelationMAXIMUM:
            *out = a < b ? b : a;
            return true;
        case kRelationEQUAL:
            *out = a == b;
            return true;
        case kRelationNOT_EQUAL:
            *out = a != b;
            return true;
        case kRelationLESS:
            *out = a < b;
            return true;
        case kRelationLESS_EQUAL:
            *out = a <= b;
            return true;
        case kRelationAND:
            *out = a != 0 && b != 0;
            return true;
        case kRelationOR:
            *out = a != 0 || b != 0;
            return true;
        default:
            return false;
    }
}

}  // namespace

bool relation_read(PyObject* code, size_t register_count, Relation& out) {
    if (!PyTuple_Check(code)) {
        PyErr_SetString(PyExc_TypeError, "a relation is a tuple of numbers");
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code); i++) {
        int64_t number = PyLong_AsLongLong(PyTuple_GET_ITEM(code, i));
        if (number == -1 && PyErr_Occurred()) return false;
        out.code.push_back(number);
    }
    int64_t depth = 0, deepest = 0;
    bool fits = true;
    for (size_t at = 0; fits && at < out.code.size();) {
        const int64_t operation = out.code[at];
        fits = operation >= 0 && operation < kRelationOperationCount;
        if (!fits) break;
        const Shape shape = shape_of(operation);
        fits = depth >= shape.taken && at + static_cast<size_t>(shape.operands) < out.code.size();
        if (fits && operation != kRelationCONSTANT && shape.operands > 0) {
            fits = out.code[at + 1] >= 0 && static_cast<size_t>(out.code[at + 1]) < register_count;
        }
        depth += 1 - shape.taken;
        deepest = depth > deepest ? depth : deepest;
        at += 1 + static_cast<size_t>(shape.operands);
    }
    if (!fits || depth != 1) {
        PyErr_SetString(PyExc_ValueError, "a relation leaves one number");
        return false;
    }
    out.stack.resize(static_cast<size_t>(deepest));
    return true;
}

bool relation_holds(Relation& relation, PyObject* const* registers) {
    const int64_t* code = relation.code.data();
    const int64_t* end = code + relation.code.size();
    int64_t* top = relation.stack.data();  // behind the last number
    while (code < end) {
        const int64_t operation = *code;
        switch (operation) {
            case kRelationCONSTANT:
                *top++ = code[1];
                code += 2;
                break;
            case kRelationINTEGER:
                if (!integer_of(registers[code[1]], top++)) return false;
                code += 2;
                break;
            case kRelationSIZE:
            case kRelationSTRIDE: {
                PyObject* tensor = registers[code[1]];
                const bool is_size = operation == kRelationSIZE;
                if (tensor == nullptr || !tensor_dimension(tensor, code[2], is_size, top++)) return false;
                code += 3;
                break;
            }
            case kRelationNOT:
                top[-1] = top[-1] == 0;
                code++;
                break;
            default:
                top--;
                if (!compute(operation, top[-1], top[0], &top[-1])) return false;
                code++;
        }
    }
    return relation.stack[0] != 0;
}

PyObject* relation_operations() {
    PyObject* names = PyDict_New();
    if (names == nullptr) return nullptr;
    const char* const words[] = {
#define X(name) #name,
        FRAMEHOOK_RELATION_OPERATIONS(X)
#undef X
    };
    for (int i = 0; i < kRelationOperationCount; i++) {
        PyObject* number = PyLong_FromLong(i);
        if (number == nullptr || PyDict_SetItemString(names, words[i], number) < 0) {
            Py_XDECREF(number);
            Py_DECREF(names);
            return nullptr;
        }
        Py_DECREF(number);
    }
    return names;
}

}  // namespace framehook
