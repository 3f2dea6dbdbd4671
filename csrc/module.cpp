// The extension module framehook._C: puts the pieces together, nothing else.
#include <pybind11/pybind11.h>

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

PYBIND11_MODULE(_C, module) {
    module.doc() = "The C++ core of framehook: hook, cache, guard programs, runner.";
    PyObject* raw = module.ptr();
    if (!framehook::init_cpython() || framehook::init_cache(raw) < 0 || framehook::init_hook(raw) < 0 ||
        framehook::init_runner(raw) < 0 || framehook::init_callable(raw) < 0 || init_guard_program(raw) < 0) {
        throw pybind11::error_already_set();
    }
    module.def(
        "build_info", &build_info,
        "build_info() -> dict\n\nVersions of Python and torch (None: without) that this was built against.");
}
