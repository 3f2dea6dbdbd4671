// Tensor metadata and memory overlap; with torch_state.cpp the only file that includes torch headers.
//
// A check must not dispatch: a wrapper subclass or a functorch wrapper may answer sizes(), device() or
// storage() by running Python, or throw.  So the fields are read from TensorImpl itself, and a tensor that
// overrides them does not match.

#include "tensor_check.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "cpython.h"

#ifndef FRAMEHOOK_WITHOUT_TORCH

#    include <torch/headeronly/version.h>

// The fields of TensorImpl and the state of torch below were read in these releases, and compared on them.
#    if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 13 || TORCH_VERSION_MINOR > 14
#        error "framehook supports torch 2.13 and 2.14; these are the headers of another"
#    endif

#    include <c10/core/TensorImpl.h>
#    include <torch/csrc/Device.h>
#    include <torch/csrc/Dtype.h>
#    include <torch/csrc/autograd/python_variable.h>
#    include <torch/csrc/autograd/variable.h>

namespace framehook {

namespace {

// Reads protected fields of TensorImpl; adds none of its own.
struct Impl : c10::TensorImpl {
    static const Impl& of(const at::Tensor& tensor) {
        return *static_cast<const Impl*>(tensor.unsafeGetTensorImpl());
    }
    bool has_plain_sizes() const { return !has_symbolic_sizes_strides_ && sizes_strides_policy_ < 2; }
    bool has_plain_strides() const { return !has_symbolic_sizes_strides_ && sizes_strides_policy_ < 1; }
    bool has_plain_device() const { return !device_policy_ && device_opt_.has_value(); }
    c10::Device plain_device() const { return *device_opt_; }
    size_t dimensions() const { return sizes_and_strides_.size(); }
    const int64_t* sizes_data() const { return sizes_and_strides_.sizes_data(); }
    const int64_t* strides_data() const { return sizes_and_strides_.strides_data(); }
    // Element type, device and the flags of who answers for sizes, strides and device, in one word; the keys
    // come right behind it.
    bool has_metadata_word() const {
        return reinterpret_cast<const char*>(&key_set_) - reinterpret_cast<const char*>(&data_type_) ==
               sizeof(uint64_t);
    }
    uint64_t metadata_word() const {
        uint64_t word;
        std::memcpy(&word, &data_type_, sizeof word);
        return word;
    }
    // Without its virtual call: torch casts in the same way (variable.h, get_autograd_meta).
    bool records_gradient() const {
        auto* meta = static_cast<torch::autograd::AutogradMeta*>(autograd_meta());
        return meta != nullptr && (meta->requires_grad_ || meta->grad_fn_);
    }
    bool has_plain_storage() const { return !storage_access_should_throw_ && unsafe_storage(); }
};

bool is_tensor(PyObject* object) {
    return PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

}  // namespace

// ---- Metadata --------------------------------------------------------------------------------------

struct TensorCheck {
    PyTypeObject* type;  // held by the program
    uint64_t keys;
    c10::ScalarType dtype;
    c10::Device device{c10::kCPU};
    int8_t requires_grad;  // -1: not compared
    bool has_strides;
    bool is_static;  // no symbolic dimension: compare in one go
    uint32_t dimensions;
    // The metadata word of the last tensor that was compared field by field and fits; 0: none yet.
    mutable uint64_t fitting_word = 0;
    std::vector<int64_t> shape;  // sizes, then strides
    std::vector<bool> symbolic;  // the same order
};

namespace {

bool read_dimensions(PyObject* tuple, TensorCheck* check) {
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "sizes and strides are tuples of int or None");
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject* item = PyTuple_GET_ITEM(tuple, i);
        int64_t value = 0;
        if (item != Py_None) {
            value = PyLong_AsLongLong(item);
            if (value == -1 && PyErr_Occurred()) return false;
        }
        check->shape.push_back(value);
        check->symbolic.push_back(item == Py_None);
    }
    return true;
}

}  // namespace

TensorCheck* tensor_check_new(PyObject* fields) {
    PyObject *type, *keys, *dtype, *device, *sizes, *strides, *requires_grad;
    if (!PyArg_ParseTuple(fields, "O!OOOOOO", &PyType_Type, &type, &keys, &dtype, &device, &sizes, &strides,
                          &requires_grad)) {
        return nullptr;
    }
    if (!THPDtype_Check(dtype) || !THPDevice_Check(device) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type),
                          reinterpret_cast<PyTypeObject*>(THPVariableClass))) {
        PyErr_SetString(PyExc_TypeError,
                        "a tensor guard names a tensor class, a torch.dtype and a torch.device");
        return nullptr;
    }
    auto check = std::make_unique<TensorCheck>();
    check->type = reinterpret_cast<PyTypeObject*>(type);
    check->keys = PyLong_AsUnsignedLongLong(keys);
    if (PyErr_Occurred()) return nullptr;
    check->dtype = reinterpret_cast<THPDtype*>(dtype)->scalar_type;
    check->device = reinterpret_cast<THPDevice*>(device)->device;
    check->requires_grad = requires_grad == Py_None ? -1 : requires_grad == Py_True ? 1 : 0;
    check->has_strides = strides != Py_None;
    if (!read_dimensions(sizes, check.get())) return nullptr;
    check->dimensions = static_cast<uint32_t>(check->shape.size());
    if (check->has_strides) {
        if (!read_dimensions(strides, check.get())) return nullptr;
        if (check->shape.size() != 2 * size_t{check->dimensions}) {
            PyErr_SetString(PyExc_ValueError, "sizes and strides differ in number");
            return nullptr;
        }
    }
    check->is_static =
        std::find(check->symbolic.begin(), check->symbolic.end(), true) == check->symbolic.end();
    return check.release();
}

void tensor_check_free(TensorCheck* check) {
    delete check;
}

bool tensor_checks_equal(const TensorCheck* a, const TensorCheck* b) {
    return a->type == b->type && a->keys == b->keys && a->dtype == b->dtype && a->device == b->device &&
           a->requires_grad == b->requires_grad && a->has_strides == b->has_strides &&
           a->dimensions == b->dimensions && a->shape == b->shape && a->symbolic == b->symbolic;
}

void tensor_prefetch(const TensorCheck* check, PyObject* object) {
    if (object == nullptr || Py_TYPE(object) != check->type) return;
    const char* impl = reinterpret_cast<const char*>(THPVariable_Unpack(object).unsafeGetTensorImpl());
    __builtin_prefetch(impl + 64);
    __builtin_prefetch(impl + 128);
}

PyObject* tensor_check_class(const TensorCheck* check) {
    return reinterpret_cast<PyObject*>(check->type);
}

// Whether element type, device and the flags that say who answers for sizes, strides and device are right.
static bool metadata_fits(const TensorCheck* check, const Impl& impl) {
    return impl.dtype().toScalarType() == check->dtype && impl.has_plain_device() &&
           impl.plain_device() == check->device &&
           (check->has_strides ? impl.has_plain_strides() : impl.has_plain_sizes());
}

bool tensor_check_matches(const TensorCheck* check, PyObject* object) {
    if (Py_TYPE(object) != check->type) return false;
    const at::Tensor& tensor = THPVariable_Unpack(object);
    const Impl& impl = Impl::of(tensor);
    if (impl.key_set().raw_repr() != check->keys) return false;
    const uint64_t word = impl.metadata_word();
    if (word != check->fitting_word) {
        if (!metadata_fits(check, impl)) return false;
        if (impl.has_metadata_word()) check->fitting_word = word;
    }
    if (check->requires_grad >= 0 && impl.records_gradient() != static_cast<bool>(check->requires_grad))
        return false;
    const size_t count = check->dimensions;
    if (impl.dimensions() != count) return false;
    const int64_t* sizes = impl.sizes_data();
    const int64_t* strides = impl.strides_data();
    const int64_t* shape = check->shape.data();
    if (check->is_static) {
        int64_t difference = 0;
        if (check->has_strides) {
            const int64_t* wanted = shape + count;
            for (size_t i = 0; i < count; i++) difference |= (sizes[i] ^ shape[i]) | (strides[i] ^ wanted[i]);
        } else {
            for (size_t i = 0; i < count; i++) difference |= sizes[i] ^ shape[i];
        }
        return difference == 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!check->symbolic[i] && sizes[i] != shape[i]) return false;
        if (check->has_strides && !check->symbolic[count + i] && strides[i] != shape[count + i]) return false;
    }
    return true;
}

PyObject* tensor_grad(PyObject* object) {
    if (!THPVariable_CheckExact(object)) return nullptr;
    try {
        // Not Tensor::grad(), which warns on non-leaf tensors.
        const at::Tensor& grad = THPVariable_Unpack(object).unsafeGetTensorImpl()->grad();
        if (!grad.defined()) return Py_NewRef(Py_None);
        PyObject* wrapped = THPVariable_Wrap(grad);
        if (wrapped == nullptr) PyErr_Clear();
        return wrapped;
    } catch (...) {
        PyErr_Clear();
        return nullptr;
    }
}

// ---- Overlap ---------------------------------------------------------------------------------------

namespace {

// The bytes that a tensor may touch.
struct Extent {
    uintptr_t begin = 0;
    uintptr_t end = 0;              // begin == end: none
    const void* storage = nullptr;  // identity, for tensors without data (meta)
    const Impl* impl = nullptr;
    bool is_known = false;  // false: no plain storage, may touch anything
};

Extent extent_of(PyObject* object) {
    Extent extent;
    extent.impl = &Impl::of(THPVariable_Unpack(object));
    const Impl& impl = *extent.impl;
    if (!impl.has_plain_strides() || !impl.has_plain_storage()) return extent;
    const c10::Storage& storage = impl.unsafe_storage();
    extent.is_known = true;
    extent.storage = storage.unsafeGetStorageImpl();
    // Reading the pointer through a const path: the mutable one would materialize a copy-on-write storage.
    extent.begin = reinterpret_cast<uintptr_t>(storage.unsafeGetStorageImpl()->data_ptr().get()) +
                   static_cast<uintptr_t>(impl.storage_offset()) * impl.itemsize();
    int64_t last = 0;
    for (size_t i = 0; i < impl.dimensions(); i++) {
        const int64_t size = impl.sizes_data()[i];
        if (size == 0) {
            extent.end = extent.begin;
            return extent;
        }
        last += (size - 1) * impl.strides_data()[i];
    }
    extent.end = extent.begin + static_cast<uintptr_t>(last + 1) * impl.itemsize();
    return extent;
}

// A tensor seen as equal dense runs of `run` bytes that start at multiples of `step` (0: one run only).
struct Runs {
    uint64_t run;
    uint64_t step;
};

Runs runs_of(const Impl& impl) {
    std::vector<std::pair<int64_t, int64_t>> dimensions;  // (stride, size)
    for (size_t i = 0; i < impl.dimensions(); i++) {
        if (impl.sizes_data()[i] != 1) dimensions.emplace_back(impl.strides_data()[i], impl.sizes_data()[i]);
    }
    std::sort(dimensions.begin(), dimensions.end());
    int64_t run = 1;
    uint64_t step = 0;
    for (const auto& [stride, size] : dimensions) {
        if (step == 0 && stride <= run) {
            run = std::max(run, (size - 1) * stride + run);
        } else {
            step = std::gcd(step, static_cast<uint64_t>(stride));
        }
    }
    return {static_cast<uint64_t>(run) * impl.itemsize(), step * impl.itemsize()};
}

// Exact for dense tensors and for interleaved slices of one base (columns, chunks of the last dimension);
// otherwise says that extents which meet overlap.
bool extents_overlap(const Extent& a, const Extent& b) {
    if (a.impl == b.impl) return a.begin != a.end || !a.is_known;
    if (!a.is_known || !b.is_known) return true;
    if (a.begin == a.end || b.begin == b.end) return false;
    // Without data only a shared storage says anything: addresses are then offsets.
    const bool has_data = a.impl->unsafe_storage().unsafeGetStorageImpl()->data_ptr().get() != nullptr &&
                          b.impl->unsafe_storage().unsafeGetStorageImpl()->data_ptr().get() != nullptr;
    if (!has_data && a.storage != b.storage) return false;
    if (a.end <= b.begin || b.end <= a.begin) return false;
    const Runs first = runs_of(*a.impl);
    const Runs second = runs_of(*b.impl);
    const uint64_t step = std::gcd(first.step, second.step);
    if (step == 0) return true;
    // All runs of a start at a.begin and all runs of b at b.begin, modulo step.
    const uint64_t distance =
        (b.begin >= a.begin ? (b.begin - a.begin) % step : (step - (a.begin - b.begin) % step) % step);
    return !(first.run <= distance && distance + second.run <= step);
}

}  // namespace

struct DisjointCheck {
    std::vector<bool> is_mutated;
    std::vector<std::pair<uint32_t, uint32_t>> exempt;  // sorted, first < second
    std::vector<uintptr_t> verified;  // extents last found disjoint; equal ones are so again
    std::vector<uintptr_t> current;
    std::vector<Extent> extents;
    std::vector<uint32_t> order;
};

DisjointCheck* disjoint_check_new(PyObject* fields) {
    Py_ssize_t count;
    PyObject *mutated, *exempt;
    if (!PyArg_ParseTuple(fields, "nO!O!", &count, &PyTuple_Type, &mutated, &PyTuple_Type, &exempt))
        return nullptr;
    auto check = std::make_unique<DisjointCheck>();
    check->is_mutated.resize(static_cast<size_t>(count));
    check->current.resize(2 * static_cast<size_t>(count));
    check->extents.resize(static_cast<size_t>(count));
    check->order.resize(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mutated); i++) {
        Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(mutated, i));
        if (index < 0 || index >= count) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "index of a mutated input out of range");
            return nullptr;
        }
        check->is_mutated[static_cast<size_t>(index)] = true;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(exempt); i++) {
        unsigned int first, second;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(exempt, i), "II", &first, &second)) return nullptr;
        check->exempt.emplace_back(std::min(first, second), std::max(first, second));
    }
    std::sort(check->exempt.begin(), check->exempt.end());
    return check.release();
}

void disjoint_check_free(DisjointCheck* check) {
    delete check;
}

bool disjoint_check_matches(DisjointCheck* check, PyObject* const* tensors) {
    const size_t count = check->extents.size();
    bool all_known = true;
    for (size_t i = 0; i < count; i++) {
        if (!is_tensor(tensors[i])) return false;
        Extent& extent = check->extents[i];
        extent = extent_of(tensors[i]);
        all_known = all_known && extent.is_known;
        check->current[2 * i] = extent.begin;
        check->current[2 * i + 1] = extent.end;
    }
    if (all_known && check->verified == check->current) return true;
    auto may_overlap = [&](uint32_t i, uint32_t j) {
        if (!check->is_mutated[i] && !check->is_mutated[j]) return false;
        if (!extents_overlap(check->extents[i], check->extents[j])) return false;
        return !std::binary_search(check->exempt.begin(), check->exempt.end(),
                                   std::make_pair(std::min(i, j), std::max(i, j)));
    };
    bool extents_met = !all_known;
    if (!all_known) {
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t j = i + 1; j < count; j++) {
                if (may_overlap(i, j)) return false;
            }
        }
        return true;
    }
    // By address, so that only neighbours need to be compared.
    std::iota(check->order.begin(), check->order.end(), 0u);
    std::sort(check->order.begin(), check->order.end(),
              [&](uint32_t i, uint32_t j) { return check->extents[i].begin < check->extents[j].begin; });
    for (size_t i = 0; i < count; i++) {
        const Extent& extent = check->extents[check->order[i]];
        for (size_t j = i + 1; j < count && check->extents[check->order[j]].begin < extent.end; j++) {
            extents_met = true;
            if (may_overlap(check->order[i], check->order[j])) return false;
        }
    }
    // Only extents that do not meet at all are disjoint whatever the strides are next time.
    if (!extents_met) check->verified = check->current;
    return true;
}

bool tensors_overlap_at(PyObject* a, PyObject* b, Py_ssize_t distance) {
    if (!is_tensor(a) || !is_tensor(b)) return false;
    Extent first = extent_of(a);
    Extent second = extent_of(b);
    return extents_overlap(first, second) && static_cast<Py_ssize_t>(second.begin - first.begin) == distance;
}

bool tensor_dimension(PyObject* object, int64_t dimension, bool is_size, int64_t* out) {
    if (!is_tensor(object)) return false;
    const c10::TensorImpl* impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
    if (impl->has_symbolic_sizes_strides() || dimension < 0 || dimension >= impl->dim()) return false;
    *out = (is_size ? impl->sizes() : impl->strides())[static_cast<size_t>(dimension)];
    return true;
}

namespace {

bool parse_pair(PyObject* args, PyObject** a, PyObject** b) {
    if (!PyArg_ParseTuple(args, "OO", a, b)) return false;
    if (!is_tensor(*a) || !is_tensor(*b)) {
        PyErr_SetString(PyExc_TypeError, "expected two tensors");
        return false;
    }
    return true;
}

PyObject* py_tensors_overlap(PyObject*, PyObject* args) {
    PyObject *a, *b;
    if (!parse_pair(args, &a, &b)) return nullptr;
    return PyBool_FromLong(extents_overlap(extent_of(a), extent_of(b)));
}

PyObject* py_tensors_distance(PyObject*, PyObject* args) {
    PyObject *a, *b;
    if (!parse_pair(args, &a, &b)) return nullptr;
    return PyLong_FromSsize_t(static_cast<Py_ssize_t>(extent_of(b).begin - extent_of(a).begin));
}

PyObject* py_dispatch_keys(PyObject*, PyObject* tensor) {
    if (!is_tensor(tensor)) {
        PyErr_SetString(PyExc_TypeError, "expected a tensor");
        return nullptr;
    }
    return PyLong_FromUnsignedLongLong(
        THPVariable_Unpack(tensor).unsafeGetTensorImpl()->key_set().raw_repr());
}

PyMethodDef functions[] = {
    {"tensors_overlap", py_tensors_overlap, METH_VARARGS,
     "tensors_overlap(a, b) -> bool: whether the memory of two tensors may overlap; the predicate that "
     "disjointness guards use"},
    {"tensors_distance", py_tensors_distance, METH_VARARGS,
     "tensors_distance(a, b) -> int: bytes from the start of a to the start of b"},
    {"dispatch_keys", py_dispatch_keys, METH_O, "dispatch_keys(tensor) -> int: the raw dispatch key set"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int init_tensor_check(PyObject* module) {
    return PyModule_AddFunctions(module, functions);
}

}  // namespace framehook

#else  // FRAMEHOOK_WITHOUT_TORCH

namespace framehook {

namespace {

void* no_torch() {
    PyErr_SetString(PyExc_RuntimeError, "framehook was built without torch");
    return nullptr;
}

}  // namespace

struct TensorCheck {};
struct DisjointCheck {};

TensorCheck* tensor_check_new(PyObject*) {
    return static_cast<TensorCheck*>(no_torch());
}
void tensor_check_free(TensorCheck*) {}
bool tensor_checks_equal(const TensorCheck*, const TensorCheck*) {
    return false;
}
void tensor_prefetch(const TensorCheck*, PyObject*) {}
PyObject* tensor_check_class(const TensorCheck*) {
    return nullptr;
}
bool tensor_check_matches(const TensorCheck*, PyObject*) {
    return false;
}
DisjointCheck* disjoint_check_new(PyObject*) {
    return static_cast<DisjointCheck*>(no_torch());
}
void disjoint_check_free(DisjointCheck*) {}
bool disjoint_check_matches(DisjointCheck*, PyObject* const*) {
    return false;
}
bool tensors_overlap_at(PyObject*, PyObject*, Py_ssize_t) {
    return false;
}
bool tensor_dimension(PyObject*, int64_t, bool, int64_t*) {
    return false;
}
PyObject* tensor_grad(PyObject*) {
    return nullptr;
}

int init_tensor_check(PyObject*) {
    return 0;
}

}  // namespace framehook

#endif
