#include "guard_values.h"

#include <structmember.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor_check.h"

namespace framehook {

namespace {

bool bits_equal(double a, double b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

bool values_equal(PyObject* expected, PyObject* got) {
    if (expected == got) return true;
    PyTypeObject* type = Py_TYPE(expected);
    if (Py_TYPE(got) != type) return false;
    const unsigned long flags = type->tp_flags;
    if (flags & Py_TPFLAGS_UNICODE_SUBCLASS) return PyUnicode_Compare(expected, got) == 0;
    if (flags & Py_TPFLAGS_LONG_SUBCLASS) {
        PyObject* equal = PyLong_Type.tp_richcompare(expected, got, Py_EQ);
        Py_XDECREF(equal);  // a singleton
        return equal == Py_True;
    }
    if (PyFloat_Check(expected)) return bits_equal(PyFloat_AS_DOUBLE(expected), PyFloat_AS_DOUBLE(got));
    if (flags & Py_TPFLAGS_TUPLE_SUBCLASS) {
        Py_ssize_t size = PyTuple_GET_SIZE(expected);
        if (PyTuple_GET_SIZE(got) != size) return false;
        for (Py_ssize_t i = 0; i < size; i++) {
            if (!values_equal(PyTuple_GET_ITEM(expected, i), PyTuple_GET_ITEM(got, i))) return false;
        }
        return true;
    }
    if (flags & Py_TPFLAGS_BYTES_SUBCLASS) {
        Py_ssize_t size = PyBytes_GET_SIZE(expected);
        return PyBytes_GET_SIZE(got) == size &&
               std::memcmp(PyBytes_AS_STRING(expected), PyBytes_AS_STRING(got), size) == 0;
    }
    if (PyComplex_Check(expected)) {
        Py_complex a = reinterpret_cast<PyComplexObject*>(expected)->cval;
        Py_complex b = reinterpret_cast<PyComplexObject*>(got)->cval;
        return bits_equal(a.real, b.real) && bits_equal(a.imag, b.imag);
    }
    if (type == &PyFrozenSet_Type) {
        if (PySet_GET_SIZE(expected) != PySet_GET_SIZE(got)) return false;
        // In the same order, too: it is what iterating gives, and equal sets may differ in it.
        SetWalk members(expected);
        SetWalk others(got);
        while (PyObject* member = members.next()) {
            if (!values_equal(member, others.next())) return false;
        }
        return true;
    }
    if (type == &PySlice_Type) {
        auto* a = reinterpret_cast<PySliceObject*>(expected);
        auto* b = reinterpret_cast<PySliceObject*>(got);
        return values_equal(a->start, b->start) && values_equal(a->stop, b->stop) &&
               values_equal(a->step, b->step);
    }
    if (type == &PyRange_Type || std::strcmp(type->tp_name, "torch.device") == 0) {
        if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) return false;
        PyObject* equal = type->tp_richcompare(expected, got, Py_EQ);
        if (equal == nullptr) PyErr_Clear();
        Py_XDECREF(equal);
        return equal == Py_True;
    }
    return false;
}

static PyTypeObject* deque_type(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    while (type != nullptr && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
           !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) {
        type = type->tp_base;
    }
    return type != nullptr && std::strcmp(type->tp_name, "collections.deque") == 0 ? type : nullptr;
}

bool is_deque(PyObject* object) {
    return deque_type(object) != nullptr;
}

PyObject* deque_item(PyObject* deque, Py_ssize_t index) {
    PyObject* item = deque_type(deque)->tp_as_sequence->sq_item(deque, index);
    if (item == nullptr) {
        PyErr_Clear();
        return nullptr;
    }
    Py_DECREF(item);
    return item;
}

Py_ssize_t length_of(PyObject* object) {
    if (object == nullptr) return 0;
    const unsigned long flags = Py_TYPE(object)->tp_flags;
    if (flags & Py_TPFLAGS_DICT_SUBCLASS) return reinterpret_cast<PyDictObject*>(object)->ma_used;
    if (flags & (Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS | Py_TPFLAGS_BYTES_SUBCLASS)) {
        return Py_SIZE(object);
    }
    if (flags & Py_TPFLAGS_UNICODE_SUBCLASS) return PyUnicode_GET_LENGTH(object);
    if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
    if (is_deque(object)) return Py_SIZE(object);
    return -1;
}

bool keys_match(const Keys& expected, PyObject* dict) {
    if (dict == nullptr) return expected.keys.empty();
    if (!PyDict_Check(dict)) return false;
    if (static_cast<size_t>(reinterpret_cast<PyDictObject*>(dict)->ma_used) != expected.keys.size())
        return false;
    DictKeyWalk walk(dict);
    for (size_t i = 0; i < expected.keys.size(); i++) {
        PyObject* key = walk.next();
        if (key == expected.keys[i]) continue;
        if (key == nullptr || !expected.by_value[i] || !values_equal(expected.keys[i], key)) return false;
    }
    return walk.next() == nullptr;
}

bool members_match(const Keys& expected, PyObject* set) {
    if (set == nullptr || !PyAnySet_Check(set)) return false;
    if (static_cast<size_t>(PySet_GET_SIZE(set)) != expected.keys.size()) return false;
    SetWalk walk(set);
    for (size_t i = 0; i < expected.keys.size(); i++) {
        PyObject* member = walk.next();
        if (member == expected.keys[i]) continue;
        if (!expected.by_value[i] || !values_equal(expected.keys[i], member)) return false;
    }
    return true;
}

bool are_distinct(Distinct& distinct) {
    const size_t count = distinct.current.size();
    if (distinct.verified.size() == count &&
        std::memcmp(distinct.verified.data(), distinct.current.data(), count * sizeof(PyObject*)) == 0) {
        return true;
    }
    std::fill(distinct.table.begin(), distinct.table.end(), nullptr);
    const size_t mask = distinct.table.size() - 1;
    for (PyObject* object : distinct.current) {
        size_t slot = (reinterpret_cast<size_t>(object) * 0x9E3779B97F4A7C15u >> 32) & mask;
        while (distinct.table[slot] != nullptr) {
            if (distinct.table[slot] == object) return false;
            slot = (slot + 1) & mask;
        }
        distinct.table[slot] = object;
    }
    distinct.verified = distinct.current;
    return true;
}

Member member_kind(PyObject* name) {
    static const std::pair<const char*, Member> names[] = {
        {"__code__", kCode},         {"__globals__", kGlobals},
        {"__defaults__", kDefaults}, {"__kwdefaults__", kKwDefaults},
        {"__closure__", kClosure},   {"__self__", kSelf},
        {"__func__", kFunc},         {"grad", kGrad},
        {"__mro__", kMro},           {"__bases__", kBases},
        {"__name__", kName},         {"__qualname__", kQualname},
        {"<mapping>", kMapping},
    };
    for (const auto& [text, kind] : names) {
        if (PyUnicode_CompareWithASCIIString(name, text) == 0) return kind;
    }
    return kOtherMember;
}

namespace {

// Types of which all getters (but the audited ones that fetch_member reads itself) are plain C.
bool has_plain_getters(PyTypeObject* type) {
    return type == &PyFunction_Type || type == &PyCode_Type || type == &PyCFunction_Type ||
           type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type || type == &PyComplex_Type ||
           std::strcmp(type->tp_name, "torch.dtype") == 0 || std::strcmp(type->tp_name, "torch.device") == 0;
}

Fetch or_none(PyObject* value, PyObject** out) {
    *out = value != nullptr ? value : Py_None;
    return Fetch::kBorrowed;
}

}  // namespace

// The mapping that a mappingproxy shows, which has no name of its own: the one object that it refers to.
static PyObject* mapping_behind(PyObject* proxy) {
    if (Py_TYPE(proxy) != &PyDictProxy_Type) return nullptr;
    PyObject* found = nullptr;
    PyDictProxy_Type.tp_traverse(
        proxy,
        [](PyObject* object, void* place) {
            *static_cast<PyObject**>(place) = object;
            return 0;
        },
        &found);
    return found;
}

Fetch fetch_member(PyObject* object, Member kind, PyObject* name, Py_hash_t hash, bool may_call_getters,
                   PyObject** out) {
    if (object == nullptr) return Fetch::kMissing;
    if (PyFunction_Check(object)) {
        auto* function = reinterpret_cast<PyFunctionObject*>(object);
        switch (kind) {
            case kCode:
                return or_none(function->func_code, out);
            case kGlobals:
                return or_none(function->func_globals, out);
            case kDefaults:
                return or_none(function->func_defaults, out);
            case kKwDefaults:
                return or_none(function->func_kwdefaults, out);
            case kClosure:
                return or_none(function->func_closure, out);
            case kName:
                return or_none(function->func_name, out);
            case kQualname:
                return or_none(function->func_qualname, out);
            default:
                break;
        }
    } else if (PyMethod_Check(object)) {
        if (kind == kSelf) return or_none(PyMethod_GET_SELF(object), out);
        if (kind == kFunc) return or_none(PyMethod_GET_FUNCTION(object), out);
    } else if (kind == kSelf && PyCFunction_Check(object)) {
        return or_none(PyCFunction_GET_SELF(object), out);
    } else if (PyType_Check(object)) {
        if (kind == kMro) return or_none(reinterpret_cast<PyTypeObject*>(object)->tp_mro, out);
        if (kind == kBases) return or_none(type_bases(object), out);
        if (kind == kName || kind == kQualname) {
            auto* type = reinterpret_cast<PyTypeObject*>(object);
            *out = kind == kName ? PyType_GetName(type) : PyType_GetQualName(type);
            if (*out != nullptr) return Fetch::kNew;
            PyErr_Clear();
        }
    } else if (kind == kMapping) {
        return or_none(mapping_behind(object), out);
    } else if (kind == kGrad) {
        *out = tensor_grad(object);
        if (*out != nullptr) return Fetch::kNew;
    }
    PyObject* descriptor = nullptr;
    if (type_find(reinterpret_cast<PyObject*>(Py_TYPE(object)), name, hash, &descriptor) != Lookup::kFound) {
        return Fetch::kMissing;
    }
    if (Py_TYPE(descriptor) == &PyMemberDescr_Type) {
        if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor))) return Fetch::kMissing;
        PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
        if (member->type == T_OBJECT || member->type == T_OBJECT_EX) {
            *out = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member->offset);
            if (*out == nullptr && member->type == T_OBJECT) *out = Py_None;
            return *out != nullptr ? Fetch::kBorrowed : Fetch::kMissing;
        }
        *out = PyMember_GetOne(reinterpret_cast<char*>(object), member);
    } else if (Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
        if (!may_call_getters && !has_plain_getters(Py_TYPE(object))) return Fetch::kNeedsExact;
        if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor))) return Fetch::kMissing;
        PyGetSetDef* getset = reinterpret_cast<PyGetSetDescrObject*>(descriptor)->d_getset;
        if (getset->get == nullptr) return Fetch::kMissing;
        *out = getset->get(object, getset->closure);
    } else {
        return Fetch::kMissing;
    }
    if (*out == nullptr) {
        PyErr_Clear();
        return Fetch::kMissing;
    }
    return Fetch::kNew;
}

}  // namespace framehook
