#include "builtins.h"

#include "cpython.h"

namespace framehook {

// What programs replace for purposes of their own, and no compiler depends on.
static const char* const replaceable[] = {"print", "open", "input",   "__import__", "breakpoint", "help",
                                          "exit",  "quit", "license", "credits",    "copyright",  "_"};

static PyObject* builtins = nullptr;    // the namespace of the module
static PyObject* remembered = nullptr;  // name -> builtin
static uint64_t intact_version = 0;     // of the namespace, when it was last found as remembered

bool init_builtins() {
    PyObject* module = PyImport_ImportModule("builtins");
    if (module == nullptr) return false;
    builtins = Py_NewRef(PyModule_GetDict(module));
    Py_DECREF(module);
    remembered = PyDict_Copy(builtins);
    if (remembered == nullptr) return false;
    for (const char* name : replaceable) {
        if (PyDict_GetItemString(remembered, name) == nullptr) continue;
        if (PyDict_DelItemString(remembered, name) < 0) return false;
    }
    return true;
}

bool builtins_are_replaced() {
    const bool is_versioned = dict_version_is_reliable(builtins);
    if (is_versioned && dict_version(builtins) == intact_version) return false;
    Py_ssize_t position = 0, left = PyDict_GET_SIZE(remembered);
    PyObject *name, *value;
    while (PyDict_Next(builtins, &position, &name, &value)) {
        if (!PyUnicode_CheckExact(name)) return true;  // looking anything up may run its code
        PyObject* known = PyDict_GetItemWithError(remembered, name);
        if (known == nullptr) continue;
        if (known != value) return true;
        left--;
    }
    if (left != 0) return true;
    if (is_versioned) intact_version = dict_version(builtins);
    return false;
}

}  // namespace framehook
