// Tensor metadata, memory overlap and torch state; the only file that includes torch headers.
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

#    include <ATen/Context.h>
#    include <ATen/FuncTorchTLS.h>
#    include <ATen/PythonTorchFunctionTLS.h>
#    include <ATen/SavedTensorHooks.h>
#    include <ATen/autocast_mode.h>
#    include <c10/core/AutogradState.h>
#    include <c10/core/DefaultDtype.h>
#    include <c10/core/TensorImpl.h>
#    include <c10/core/impl/LocalDispatchKeySet.h>
#    include <c10/core/impl/TorchDispatchModeTLS.h>
#    include <torch/csrc/Device.h>
#    include <torch/csrc/Dtype.h>
#    include <torch/csrc/PyInterpreter.h>
#    include <torch/csrc/autograd/anomaly_mode.h>
#    include <torch/csrc/autograd/python_variable.h>
#    include <torch/csrc/tensor/python_tensor.h>

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

bool tensor_check_matches(const TensorCheck* check, PyObject* object) {
    if (Py_TYPE(object) != check->type) return false;
    const at::Tensor& tensor = THPVariable_Unpack(object);
    const Impl& impl = Impl::of(tensor);
    if (impl.key_set().raw_repr() != check->keys || impl.dtype().toScalarType() != check->dtype ||
        !impl.has_plain_device() || impl.plain_device() != check->device) {
        return false;
    }
    if (check->requires_grad >= 0 && impl.requires_grad() != static_cast<bool>(check->requires_grad))
        return false;
    const size_t count = check->dimensions;
    if (!(check->has_strides ? impl.has_plain_strides() : impl.has_plain_sizes()) ||
        impl.dimensions() != count) {
        return false;
    }
    const int64_t* sizes = impl.sizes_data();
    const int64_t* strides = impl.strides_data();
    const int64_t* shape = check->shape.data();
    if (check->is_static) {
        uint64_t difference = 0;
        for (size_t i = 0; i < count; i++) difference |= static_cast<uint64_t>(sizes[i] ^ shape[i]);
        if (check->has_strides) {
            for (size_t i = 0; i < count; i++)
                difference |= static_cast<uint64_t>(strides[i] ^ shape[count + i]);
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

// ---- State -----------------------------------------------------------------------------------------

// The flags of at::Context lie in one run of plain fields, private; comparing the run is cheaper than thirty
// calls and forgets none.  Naming a private member in an explicit instantiation is allowed.
template <class Tag, auto member>
struct Expose {
    friend constexpr auto private_member(Tag) { return member; }
};
struct FirstFlag {
    friend constexpr auto private_member(FirstFlag);
};
struct LastFlag {
    friend constexpr auto private_member(LastFlag);
};
struct Precisions {
    friend constexpr auto private_member(Precisions);
};
template struct Expose<FirstFlag, &at::Context::enabled_cudnn>;
template struct Expose<LastFlag, &at::Context::allow_fp16_reduction_cpu>;
template struct Expose<Precisions, &at::Context::fp32_precision>;

constexpr size_t kMaximumFlagBytes = 256;
constexpr size_t kMaximumPrecisions = 16;
constexpr size_t kAutocastDevices = 4;
constexpr c10::DeviceType autocast_devices[kAutocastDevices] = {c10::kCPU, c10::kCUDA, c10::kMPS, c10::kXPU};

struct FlagRun {
    const char* begin;
    size_t size;
    const at::Float32Precision* precisions[kMaximumPrecisions];
    size_t precision_count;
};

const FlagRun& flag_run() {
    static const FlagRun run = [] {
        at::Context& context = at::globalContext();
        FlagRun found{};
        found.begin = reinterpret_cast<const char*>(&(context.*private_member(FirstFlag{})));
        const char* last = reinterpret_cast<const char*>(&(context.*private_member(LastFlag{})));
        found.size = static_cast<size_t>(last + 1 - found.begin);
        // Nodes of the map stay where they are and none is ever removed.
        for (const auto& [key, precision] : context.*private_member(Precisions{})) {
            if (found.precision_count < kMaximumPrecisions)
                found.precisions[found.precision_count++] = &precision;
        }
        return found;
    }();
    return run;
}

// The level of forward-mode AD lives in a Python global of torch.autograd.forward_ad.
struct ForwardLevel {
    PyObject* globals = nullptr;
    PyObject* name = nullptr;
    Py_hash_t hash = 0;
    uint32_t hint = UINT32_MAX;
};
ForwardLevel forward_level;

int64_t current_forward_level() {
    if (forward_level.globals == nullptr) return 0;
    PyObject* value = nullptr;
    if (dict_find(forward_level.globals, forward_level.name, forward_level.hash, &forward_level.hint,
                  &value) != Lookup::kFound ||
        !PyLong_CheckExact(value)) {
        return INT64_MIN;
    }
    int overflow = 0;
    return PyLong_AsLongLongAndOverflow(value, &overflow);
}

// Words that are read anew for each comparison; all plain integers.
struct StateWords {
    uint64_t included_keys;  // functorch, Python modes, inference mode
    uint64_t excluded_keys;  // autocast per device, view and inplace tracking
    uint64_t modes;   // one byte each: autograd bits, torch function state, anomaly bits, autocast cache, ...
    uint64_t dtypes;  // default dtype, default dispatch key, autocast dtypes
    uint64_t depths;  // function modes, dispatch modes, functorch or not, saved-tensor hooks: 16 bits each
    int64_t forward_level;
};

// Whether a functorch transform is active.  Its layers are out of reach (their header needs a library that
// torch does not ship), so a snapshot taken inside of one never matches.
bool in_functorch(const c10::impl::LocalDispatchKeySet& local) {
    return local.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

uint64_t clamp_depth(uint64_t depth) {
    return std::min<uint64_t>(depth, 0xFFFF);
}

StateWords read_words() {
    StateWords words;
    const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
    words.included_keys = local.included_.raw_repr();
    words.excluded_keys = local.excluded_.raw_repr();
    const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
    const at::impl::SavedTensorDefaultHooksTLS& hooks = at::SavedTensorDefaultHooks::get_tls_state();
    const uint64_t autograd_bits = autograd.get_grad_mode() | autograd.get_inference_mode() << 1 |
                                   autograd.get_fw_grad_mode() << 2 | autograd.get_view_replay_enabled() << 3;
    const uint64_t anomaly_bits =
        torch::autograd::AnomalyMode::is_enabled() | torch::autograd::AnomalyMode::should_check_nan() << 1;
    const uint64_t hook_bits = hooks.disabled_error_message.has_value() | hooks.is_tracing << 1;
    words.modes = autograd_bits | anomaly_bits << 8 | hook_bits << 16 |
                  static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state()) << 24 |
                  static_cast<uint64_t>(at::autocast::is_autocast_cache_enabled()) << 32;
    words.dtypes = static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) |
                   static_cast<uint64_t>(torch::tensors::get_default_dispatch_key()) << 8;
    for (size_t i = 0; i < kAutocastDevices; i++) {
        words.dtypes |= static_cast<uint64_t>(at::autocast::get_autocast_dtype(autocast_devices[i]))
                        << (24 + 8 * i);
    }
    words.depths = clamp_depth(static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::stack_len())) |
                   clamp_depth(static_cast<uint64_t>(c10::impl::TorchDispatchModeTLS::stack_len())) << 16 |
                   static_cast<uint64_t>(in_functorch(local)) << 32 | clamp_depth(hooks.stack.size()) << 48;
    words.forward_level = current_forward_level();
    return words;
}

// An object on one of the stacks, known by identity; a device context by the device it sets.
struct Held {
    PyObject* address;
    PyObject* keeper;  // weak reference, or the object where there is none
    PyObject* device;  // of a torch.device context, else null
};

PyObject* device_context_type = nullptr;

PyObject* device_of_mode(PyObject* mode) {
    // torch.set_default_device() and `with torch.device(...)` make a new DeviceContext each time.
    if (reinterpret_cast<PyObject*>(Py_TYPE(mode)) != device_context_type) return nullptr;
    PyObject* dict = instance_dict(mode);
    static PyObject* name = PyUnicode_InternFromString("device");
    if (dict == nullptr || name == nullptr) return nullptr;
    PyObject* device = nullptr;
    uint32_t hint = UINT32_MAX;
    if (dict_find(dict, name, PyObject_Hash(name), &hint, &device) != Lookup::kFound) return nullptr;
    return THPDevice_Check(device) ? device : nullptr;
}

void stacked_objects(std::vector<PyObject*>& out) {
    c10::impl::PyInterpreter* interpreter = getPyInterpreter();
    const int64_t functions = at::impl::PythonTorchFunctionTLS::stack_len();
    for (int64_t i = 0; i < functions; i++) {
        out.push_back(at::impl::PythonTorchFunctionTLS::get_stack_at(i)->ptr(interpreter));
    }
    const int64_t dispatches = c10::impl::TorchDispatchModeTLS::stack_len();
    for (int64_t i = 0; i < dispatches; i++) {
        out.push_back(c10::impl::TorchDispatchModeTLS::get_stack_at(i)->ptr(interpreter));
    }
    const auto& hooks = at::SavedTensorDefaultHooks::get_tls_state().stack;
    if (!hooks.empty()) {
        out.push_back(hooks.top().first.ptr(interpreter));
        out.push_back(hooks.top().second.ptr(interpreter));
    }
}

struct Snapshot {
    StateWords words;
    char flags[kMaximumFlagBytes];
    at::Float32Precision precisions[kMaximumPrecisions];
    std::vector<Held> stacked;
};

struct SnapshotObject {
    PyObject_HEAD Snapshot* snapshot;
};

PyTypeObject SnapshotType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool stacks_match(const Snapshot& snapshot) {
    std::vector<PyObject*> now;
    stacked_objects(now);
    if (now.size() != snapshot.stacked.size()) return false;
    for (size_t i = 0; i < now.size(); i++) {
        const Held& held = snapshot.stacked[i];
        if (held.device != nullptr) {
            PyObject* device = device_of_mode(now[i]);
            if (device == nullptr || reinterpret_cast<THPDevice*>(device)->device !=
                                         reinterpret_cast<THPDevice*>(held.device)->device) {
                return false;
            }
        } else if (now[i] != held.address ||
                   (PyWeakref_Check(held.keeper) && held.keeper != now[i] && weakref_is_dead(held.keeper))) {
            return false;
        }
    }
    return (snapshot.words.depths >> 32 & 0xFFFF) == 0;
}

PyObject* snapshot_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":StateSnapshot", const_cast<char**>(names)))
        return nullptr;
    auto* self = reinterpret_cast<SnapshotObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->snapshot = new Snapshot();
    Snapshot& snapshot = *self->snapshot;
    snapshot.words = read_words();
    const FlagRun& run = flag_run();
    std::memcpy(snapshot.flags, run.begin, run.size);
    for (size_t i = 0; i < run.precision_count; i++) snapshot.precisions[i] = *run.precisions[i];
    std::vector<PyObject*> stacked;
    stacked_objects(stacked);
    for (PyObject* object : stacked) {
        PyObject* keeper = PyWeakref_NewRef(object, nullptr);
        if (keeper == nullptr) {
            PyErr_Clear();
            keeper = Py_NewRef(object);
        }
        snapshot.stacked.push_back({object, keeper, Py_XNewRef(device_of_mode(object))});
    }
    return reinterpret_cast<PyObject*>(self);
}

void snapshot_dealloc(PyObject* self) {
    Snapshot* snapshot = reinterpret_cast<SnapshotObject*>(self)->snapshot;
    if (snapshot != nullptr) {
        for (const Held& held : snapshot->stacked) {
            Py_DECREF(held.keeper);
            Py_XDECREF(held.device);
        }
        delete snapshot;
    }
    Py_TYPE(self)->tp_free(self);
}

PyObject* snapshot_matches(PyObject* self, PyObject*) {
    return PyBool_FromLong(state_snapshot_matches(self));
}

PyObject* snapshot_difference(PyObject* self, PyObject*) {
    return state_snapshot_difference(self);
}

PyMethodDef snapshot_methods[] = {
    {"matches", snapshot_matches, METH_NOARGS, "whether process and thread state are as captured"},
    {"difference", snapshot_difference, METH_NOARGS, "list of (name, captured, current) for what differs"},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* snapshot_is_plain(PyObject* self, void*) {
    return PyBool_FromLong(reinterpret_cast<SnapshotObject*>(self)->snapshot->words.depths == 0);
}

PyGetSetDef snapshot_getters[] = {
    {"is_plain", snapshot_is_plain, nullptr,
     "no torch function or dispatch mode, functorch transform or saved-tensor hook was active", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// ---- State in words --------------------------------------------------------------------------------

PyObject* dtype_object(uint64_t scalar_type) {
    return Py_NewRef(
        reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<c10::ScalarType>(scalar_type))));
}

bool append(PyObject* list, const char* name, PyObject* captured, PyObject* current) {
    PyObject* item =
        captured != nullptr && current != nullptr ? Py_BuildValue("(sOO)", name, captured, current) : nullptr;
    Py_XDECREF(captured);
    Py_XDECREF(current);
    const bool done = item != nullptr && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

bool say_bit(PyObject* list, const char* name, uint64_t captured, uint64_t current, unsigned shift) {
    const bool was = captured >> shift & 1;
    const bool is = current >> shift & 1;
    return was == is || append(list, name, PyBool_FromLong(was), PyBool_FromLong(is));
}

bool say_number(PyObject* list, const char* name, int64_t captured, int64_t current) {
    return captured == current ||
           append(list, name, PyLong_FromLongLong(captured), PyLong_FromLongLong(current));
}

bool say_dtype(PyObject* list, const char* name, uint64_t captured, uint64_t current) {
    return captured == current || append(list, name, dtype_object(captured), dtype_object(current));
}

bool say_words(PyObject* list, const StateWords& was, const StateWords& is) {
    static const char* const autocast_names[kAutocastDevices] = {"autocast on cpu", "autocast on cuda",
                                                                 "autocast on mps", "autocast on xpu"};
    static const char* const autocast_dtype_names[kAutocastDevices] = {
        "autocast dtype on cpu", "autocast dtype on cuda", "autocast dtype on mps", "autocast dtype on xpu"};
    if (!say_bit(list, "grad mode", was.modes, is.modes, 0) ||
        !say_bit(list, "inference mode", was.modes, is.modes, 1) ||
        !say_bit(list, "forward-mode grad", was.modes, is.modes, 2) ||
        !say_bit(list, "view replay", was.modes, is.modes, 3) ||
        !say_bit(list, "anomaly mode", was.modes, is.modes, 8) ||
        !say_bit(list, "anomaly check for NaN", was.modes, is.modes, 9) ||
        !say_bit(list, "saved-tensor hooks disabled", was.modes, is.modes, 16) ||
        !say_number(list, "torch function disabled", was.modes >> 24 & 0xFF, is.modes >> 24 & 0xFF) ||
        !say_bit(list, "autocast cache", was.modes, is.modes, 32) ||
        !say_dtype(list, "default dtype", was.dtypes & 0xFF, is.dtypes & 0xFF) ||
        !say_number(list, "default tensor type", was.dtypes >> 8 & 0xFFFF, is.dtypes >> 8 & 0xFFFF) ||
        !say_number(list, "torch function modes", was.depths & 0xFFFF, is.depths & 0xFFFF) ||
        !say_number(list, "torch dispatch modes", was.depths >> 16 & 0xFFFF, is.depths >> 16 & 0xFFFF) ||
        !say_bit(list, "functorch transform", was.depths, is.depths, 32) ||
        !say_number(list, "saved-tensor hooks", was.depths >> 48, is.depths >> 48) ||
        !say_number(list, "forward AD level", was.forward_level, is.forward_level)) {
        return false;
    }
    for (size_t i = 0; i < kAutocastDevices; i++) {
        const c10::DispatchKeySet key(
            at::autocast::get_autocast_dispatch_key_from_device_type(autocast_devices[i]));
        const bool was_on = (was.excluded_keys & key.raw_repr()) == 0;
        const bool is_on = (is.excluded_keys & key.raw_repr()) == 0;
        if (was_on != is_on &&
            !append(list, autocast_names[i], PyBool_FromLong(was_on), PyBool_FromLong(is_on))) {
            return false;
        }
        if (!say_dtype(list, autocast_dtype_names[i], was.dtypes >> (24 + 8 * i) & 0xFF,
                       is.dtypes >> (24 + 8 * i) & 0xFF)) {
            return false;
        }
    }
    return true;
}

}  // namespace

bool is_state_snapshot(PyObject* object) {
    return Py_TYPE(object) == &SnapshotType;
}

bool state_snapshot_matches(PyObject* object) {
    const Snapshot& snapshot = *reinterpret_cast<SnapshotObject*>(object)->snapshot;
    const StateWords now = read_words();
    if (std::memcmp(&now, &snapshot.words, sizeof now) != 0) return false;
    const FlagRun& run = flag_run();
    if (std::memcmp(snapshot.flags, run.begin, run.size) != 0) return false;
    for (size_t i = 0; i < run.precision_count; i++) {
        if (*run.precisions[i] != snapshot.precisions[i]) return false;
    }
    return now.depths == 0 || stacks_match(snapshot);
}

PyObject* state_snapshot_difference(PyObject* object) {
    const Snapshot& snapshot = *reinterpret_cast<SnapshotObject*>(object)->snapshot;
    PyObject* list = PyList_New(0);
    if (list == nullptr) return nullptr;
    bool done = say_words(list, snapshot.words, read_words());
    const FlagRun& run = flag_run();
    for (size_t i = 0; done && i < run.size; i++) {
        if (snapshot.flags[i] != run.begin[i]) {
            done = append(list, "torch.backends flags", PyLong_FromLong(snapshot.flags[i]),
                          PyLong_FromLong(run.begin[i]));
        }
    }
    for (size_t i = 0; done && i < run.precision_count; i++) {
        done = say_number(list, "float32 precision", static_cast<int64_t>(snapshot.precisions[i]),
                          static_cast<int64_t>(*run.precisions[i]));
    }
    if (done && PyList_GET_SIZE(list) == 0 && !stacks_match(snapshot)) {
        done = append(list, "active modes", Py_NewRef(Py_None), Py_NewRef(Py_None));
    }
    if (!done) Py_CLEAR(list);
    return list;
}

int init_tensor_check(PyObject* module) {
    if (flag_run().size > kMaximumFlagBytes) {
        PyErr_SetString(PyExc_ImportError, "framehook does not know the flags of this torch");
        return -1;
    }
    PyObject* devices = PyImport_ImportModule("torch.utils._device");
    if (devices == nullptr) return -1;
    device_context_type = PyObject_GetAttrString(devices, "DeviceContext");
    Py_DECREF(devices);
    if (device_context_type == nullptr) return -1;
    PyObject* forward_ad = PyImport_ImportModule("torch.autograd.forward_ad");
    if (forward_ad == nullptr) return -1;
    forward_level.globals = Py_NewRef(PyModule_GetDict(forward_ad));
    Py_DECREF(forward_ad);
    forward_level.name = PyUnicode_InternFromString("_current_level");
    if (forward_level.name == nullptr) return -1;
    forward_level.hash = PyObject_Hash(forward_level.name);
    SnapshotType.tp_name = "framehook._C.StateSnapshot";
    SnapshotType.tp_doc = "Process and thread state that changes the results of torch operations.";
    SnapshotType.tp_basicsize = sizeof(SnapshotObject);
    SnapshotType.tp_flags = Py_TPFLAGS_DEFAULT;
    SnapshotType.tp_new = snapshot_new;
    SnapshotType.tp_dealloc = snapshot_dealloc;
    SnapshotType.tp_methods = snapshot_methods;
    SnapshotType.tp_getset = snapshot_getters;
    if (PyType_Ready(&SnapshotType) < 0) return -1;
    if (PyModule_AddObjectRef(module, "StateSnapshot", reinterpret_cast<PyObject*>(&SnapshotType)) < 0)
        return -1;
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

PyTypeObject SnapshotType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* snapshot_matches(PyObject*, PyObject*) {
    Py_RETURN_TRUE;
}

PyObject* snapshot_difference(PyObject* self, PyObject*) {
    return state_snapshot_difference(self);
}

PyMethodDef snapshot_methods[] = {
    {"matches", snapshot_matches, METH_NOARGS, "whether process and thread state are as captured"},
    {"difference", snapshot_difference, METH_NOARGS, "list of (name, captured, current) for what differs"},
    {nullptr, nullptr, 0, nullptr},
};

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
PyObject* tensor_grad(PyObject*) {
    return nullptr;
}
bool is_state_snapshot(PyObject* object) {
    return Py_TYPE(object) == &SnapshotType;
}
bool state_snapshot_matches(PyObject*) {
    return true;
}
PyObject* state_snapshot_difference(PyObject*) {
    return PyList_New(0);
}

int init_tensor_check(PyObject* module) {
    SnapshotType.tp_name = "framehook._C.StateSnapshot";
    SnapshotType.tp_doc = "Without torch there is no state: always matches.";
    SnapshotType.tp_basicsize = sizeof(PyObject);
    SnapshotType.tp_flags = Py_TPFLAGS_DEFAULT;
    SnapshotType.tp_new = PyType_GenericNew;
    SnapshotType.tp_methods = snapshot_methods;
    if (PyType_Ready(&SnapshotType) < 0) return -1;
    return PyModule_AddObjectRef(module, "StateSnapshot", reinterpret_cast<PyObject*>(&SnapshotType));
}

}  // namespace framehook

#endif
