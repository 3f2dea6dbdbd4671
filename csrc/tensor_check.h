// Tensor metadata and memory overlap, packed for comparison.  tensor_check.cpp and torch_state.cpp are the
// only files that include torch headers; built with FRAMEHOOK_WITHOUT_TORCH this one refuses to make tensor
// checks. Nothing here runs Python or dispatches, except the constructors and the functions that describe.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

namespace framehook {

struct TensorCheck;
struct DisjointCheck;

// From the fields of a TensorSpec: (class, dispatch keys, dtype, device, sizes, strides, requires_grad).
// Null with an exception when they do not make sense.
TensorCheck* tensor_check_new(PyObject* fields);
void tensor_check_free(TensorCheck* check);
bool tensor_checks_equal(const TensorCheck* a, const TensorCheck* b);
// The exact class, borrowed.
PyObject* tensor_check_class(const TensorCheck* check);
bool tensor_check_matches(const TensorCheck* check, PyObject* object);
// Starts to load what a check of `object` will read.
void tensor_prefetch(const TensorCheck* check, PyObject* object);

// From (number of inputs, indices of mutated ones, pairs that may overlap).
DisjointCheck* disjoint_check_new(PyObject* fields);
void disjoint_check_free(DisjointCheck* check);
// `tensors`: all inputs, in order.  False also when one of them is not a tensor.
bool disjoint_check_matches(DisjointCheck* check, PyObject* const* tensors);

// Whether the memory of two tensors overlaps with `b` starting `distance` bytes after `a`.
bool tensors_overlap_at(PyObject* a, PyObject* b, Py_ssize_t distance);

// A size or a stride of a tensor; false when `object` is none or has no such dimension.
bool tensor_dimension(PyObject* object, int64_t dimension, bool is_size, int64_t* out);

// `.grad` of a plain tensor or parameter as a new reference (None when unset); null without an exception
// when the object is anything else.
PyObject* tensor_grad(PyObject* tensor);

// Adds tensors_overlap, tensors_distance and dispatch_keys to the module; 0, or -1 with an exception.
int init_tensor_check(PyObject* module);

}  // namespace framehook
