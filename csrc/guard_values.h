// Comparing and reaching plain values without running Python: what the instructions of a guard program do.
#pragma once

#include <vector>

#include "cpython.h"

namespace framehook {

// Same exact type and same value, for immutable values (0.0 and -0.0 differ, NaN by bits); anything else by
// identity.
bool values_equal(PyObject* expected, PyObject* got);

// len() of what C code can measure; -1 for anything else.  Null (no instance dict) has no keys.
Py_ssize_t length_of(PyObject* object);

// Whether an object is a collections.deque or of a subclass.
bool is_deque(PyObject* object);
// A borrowed item of a deque, past what a subclass defines; null where the index is out of range.
PyObject* deque_item(PyObject* deque, Py_ssize_t index);

// The keys of a dict or the members of a set, in order; what is no plain value is compared by identity.
struct Keys {
    std::vector<PyObject*> keys;
    std::vector<bool> by_value;
};
bool keys_match(const Keys& expected, PyObject* dict);
bool members_match(const Keys& expected, PyObject* set);

// Pairwise different objects.
struct Distinct {
    std::vector<uint32_t> registers;
    std::vector<PyObject*> verified;  // addresses last found pairwise different; equal ones are so again
    std::vector<PyObject*> current;
    std::vector<PyObject*> table;
};
bool are_distinct(Distinct& distinct);

// Names whose value can be read from a C struct without calling a getter.
enum Member : uint8_t {
    kOtherMember,
    kCode,
    kMapping,
    kGlobals,
    kDefaults,
    kKwDefaults,
    kClosure,
    kSelf,
    kFunc,
    kGrad,
    kMro,
    kBases,
    kName,
    kQualname,
};
Member member_kind(PyObject* name);

enum class Fetch { kBorrowed, kNew, kMissing, kNeedsExact };

// The attribute `name` that the type of `object` serves from C.  kNeedsExact: only a getter knows, and
// getters may not be called (they may run Python).
Fetch fetch_member(PyObject* object, Member kind, PyObject* name, Py_hash_t hash, bool may_call_getters,
                   PyObject** out);

}  // namespace framehook
