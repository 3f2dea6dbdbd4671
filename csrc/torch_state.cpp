// Process and thread state that changes the results of torch operations; with tensor_check.cpp the only file
// that includes torch headers.

#include "torch_state.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "cpython.h"

namespace framehook {

namespace {

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

}  // namespace

}  // namespace framehook

#ifndef FRAMEHOOK_WITHOUT_TORCH

#    include <ATen/Context.h>
#    include <ATen/FuncTorchTLS.h>
#    include <ATen/PythonTorchFunctionTLS.h>
#    include <ATen/SavedTensorHooks.h>
#    include <ATen/autocast_mode.h>
#    include <c10/core/AutogradState.h>
#    include <c10/core/DefaultDtype.h>
#    include <c10/core/impl/LocalDispatchKeySet.h>
#    include <c10/core/impl/TorchDispatchModeTLS.h>
#    include <torch/csrc/Dtype.h>
#    include <torch/csrc/PyInterpreter.h>
#    include <torch/csrc/autograd/anomaly_mode.h>
#    include <torch/csrc/autograd/python_variable.h>
#    include <torch/csrc/tensor/python_tensor.h>

namespace framehook {

namespace {

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

int init_torch_state(PyObject* module) {
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
    return 0;
}

}  // namespace framehook

#else  // FRAMEHOOK_WITHOUT_TORCH

namespace framehook {

namespace {

PyTypeObject SnapshotType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool is_state_snapshot(PyObject* object) {
    return Py_TYPE(object) == &SnapshotType;
}
bool state_snapshot_matches(PyObject*) {
    return true;
}
PyObject* state_snapshot_difference(PyObject*) {
    return PyList_New(0);
}

int init_torch_state(PyObject* module) {
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
