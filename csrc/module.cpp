// The extension module framehook._C: puts the pieces together, nothing else.
#include <pybind11/pybind11.h>

#include "builtins.h"
#include "callable.h"

#define STRINGIFY_EXPANDED(x) #x
#define STRINGIFY(x) STRINGIFY_EXPANDED(x)

static pybind11::dict build_info() {
    pybind11::dict info;
    info["python"] = PY_VERSION;
#ifdef FRAMEHOOK_TORCH_VERSION
    info["torch"] = STRINGIFY(FRAMEHOOK_TORCH_VERSION);
#else
    info["torch"] = pybind11::none();
#endif
    return info;
}

// What guard programs rely on, for tests of CPython itself.
static pybind11::object dict_version(const pybind11::object& dict) {
    if (!PyDict_Check(dict.ptr())) throw pybind11::type_error("expected a dict");
    if (!framehook::dict_version_is_reliable(dict.ptr())) return pybind11::none();
    return pybind11::int_(framehook::dict_version(dict.ptr()));
}

static pybind11::object existing_instance_dict(const pybind11::object& object) {
    PyObject* dict = framehook::existing_instance_dict(object.ptr());
    if (dict == nullptr) return pybind11::none();
    return pybind11::reinterpret_borrow<pybind11::object>(dict);
}

// The instance dict of an object that is no class, whatever its class shows as `__dict__`.
static pybind11::object instance_dict(const pybind11::object& object) {
    if (PyType_Check(object.ptr())) return pybind11::none();
    PyObject* dict = PyObject_GenericGetDict(object.ptr(), nullptr);  // makes one where there is none yet
    if (dict == nullptr) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw pybind11::error_already_set();
        PyErr_Clear();
        return pybind11::none();
    }
    return pybind11::reinterpret_steal<pybind11::object>(dict);
}

PYBIND11_MODULE(_C, module) {
    module.doc() = "The C++ core of framehook: hook, cache, guard programs, runner.";
    PyObject* raw = module.ptr();
    if (!framehook::init_cpython() || !framehook::init_builtins() || framehook::init_cache(raw) < 0 ||
        framehook::init_hook(raw) < 0 || framehook::init_runner(raw) < 0 ||
        framehook::init_callable(raw) < 0 || init_guard_program(raw) < 0) {
        throw pybind11::error_already_set();
    }
    module.def("dict_version", &dict_version,
               "dict_version(dict) -> int | None\n\nNone where changes may not move the version.");
    module.def("existing_instance_dict", &existing_instance_dict,
               "existing_instance_dict(object) -> dict | None\n\nThe instance dict if there is one already.");
    module.def(
        "instance_dict", &instance_dict,
        "instance_dict(object) -> dict | None\n\nThe instance dict, which no code of the object's class is "
        "asked for.");
    module.def(
        "build_info", &build_info,
        "build_info() -> dict\n\nVersions of Python and torch (None: without) that this was built against.");
}
