// GuardProgram as Python sees it: construction from a list of instructions, check, failure, counters.

#include "guard_program.h"

#include <algorithm>
#include <chrono>

#include "guard_evaluate.h"

using namespace framehook;

struct GuardProgramObject {
    PyObject_HEAD PyObject* weak_references;
    Program* program;
};

namespace {

PyObject* on_death(PyObject* self, PyObject*) {
    reinterpret_cast<ValidityObject*>(self)->is_valid = false;
    Py_RETURN_NONE;
}

PyMethodDef death_definition = {"on_death", on_death, METH_O, nullptr};

PyTypeObject ValidityType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- Construction ----------------------------------------------------------------------------------

// What to hold so that `object` cannot die unnoticed, borrowed: a namespace lives as long as its module, and
// only the module can be held weakly.
PyObject* owner_of(PyObject* object) {
    if (!PyDict_CheckExact(object)) return object;
    PyObject* name = PyDict_GetItemString(object, "__name__");
    if (name == nullptr || !PyUnicode_CheckExact(name)) return object;
    PyObject* modules = PyImport_GetModuleDict();
    PyObject* module = modules != nullptr ? PyDict_GetItemWithError(modules, name) : nullptr;
    if (module == nullptr) PyErr_Clear();
    return module != nullptr && PyModule_Check(module) && PyModule_GetDict(module) == object ? module
                                                                                             : object;
}

// Keeps a constant: weakly where the object can die and knows weak references, strongly otherwise.
bool hold(Program& program, PyObject* object) {
    PyObject* owner = owner_of(object);
    const bool can_die =
        !(object == Py_None || (PyType_Check(object) &&
                                !(reinterpret_cast<PyTypeObject*>(object)->tp_flags & Py_TPFLAGS_HEAPTYPE)));
    if (can_die && PyType_SUPPORTS_WEAKREFS(Py_TYPE(owner))) {
        if (program.weak.count(object)) return true;
        PyObject* reference = PyWeakref_NewRef(owner, program.death_callback);
        if (reference == nullptr) return false;
        program.weak.emplace(object, reference);
        return true;
    }
    program.strong.push_back(Py_NewRef(object));
    return true;
}

bool hold_strongly(Program& program, PyObject* object) {
    program.strong.push_back(Py_NewRef(object));
    return true;
}

bool read_registers(PyObject* tuple, size_t register_count, std::vector<uint32_t>& out) {
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "registers must be a tuple of int");
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        unsigned long index = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(tuple, i));
        if (index == static_cast<unsigned long>(-1) && PyErr_Occurred()) return false;
        if (index >= register_count) {
            PyErr_SetString(PyExc_ValueError, "register out of range");
            return false;
        }
        out.push_back(static_cast<uint32_t>(index));
    }
    return true;
}

bool set_key(Program& program, Instruction& in, PyObject* key) {
    in.hash = PyObject_Hash(key);
    if (in.hash == -1 && PyErr_Occurred()) return false;
    if (PyUnicode_CheckExact(key)) {
        // Attribute names are interned, so that most lookups end at a pointer comparison.
        Py_INCREF(key);
        PyUnicode_InternInPlace(&key);
        program.strong.push_back(key);
        in.object = key;
        return true;
    }
    in.object = key;
    return is_plain_key(key) ? hold_strongly(program, key) : hold(program, key);
}

// Layers have parameters of the same shapes: alike checks are one, so that it stays in the processor's cache.
TensorCheck* shared_tensor_check(Program& program, PyObject* fields) {
    TensorCheck* check = tensor_check_new(fields);
    if (check == nullptr) return nullptr;
    auto& known = program.tensors;
    auto found = std::find_if(known.begin(), known.end(),
                              [&](const TensorCheck* other) { return tensor_checks_equal(check, other); });
    if (found != known.end()) {
        tensor_check_free(check);
        return *found;
    }
    known.push_back(check);
    return check;
}

bool set_constant(Program& program, Instruction& in, PyObject* constant, size_t register_count) {
    switch (in.operation) {
        case kENTER_OBJECT:
            in.member =
                PyTuple_Check(constant) ? 1 : 0;  // a tuple wraps the class when the block depends on order
            if (in.member) constant = PyTuple_GET_ITEM(constant, 0);
            if (constant == Py_None) return true;
            in.object = constant;
            return hold(program, constant);
        case kENTER_DICT:
            in.member = constant == Py_True ? 1 : 0;
            return true;
        case kTYPE_IS:
        case kIS:
            in.object = constant;
            return hold(program, constant);
        case kEQUALS:
            in.object = constant;
            return hold_strongly(program, constant);
        case kLENGTH:
        case kDICT_LENGTH:
        case kOVERLAPS:
            in.number = PyLong_AsSsize_t(constant);
            return in.number != -1 || !PyErr_Occurred();
        case kKEY:
        case kHAS_KEY:
        case kNO_KEY:
        case kCLASS_ATTR:
        case kNO_CLASS_ATTR:
        case kITEM:
            in.x = UINT32_MAX;
            return set_key(program, in, constant);
        case kMEMBER:
            if (!PyUnicode_Check(constant)) {
                PyErr_SetString(PyExc_TypeError, "a member is named by a str");
                return false;
            }
            in.member = member_kind(constant);
            return set_key(program, in, constant);
        case kITEMS_ARE:
        case kKEYS:
        case kMEMBERS: {
            if (!PyTuple_Check(constant)) {
                PyErr_SetString(PyExc_TypeError, "keys, items and members must be a tuple");
                return false;
            }
            program.key_lists.push_back(std::make_unique<Keys>());
            in.keys = program.key_lists.back().get();
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); i++) {
                PyObject* key = PyTuple_GET_ITEM(constant, i);
                const bool by_value = in.operation != kITEMS_ARE && is_plain_key(key);
                in.keys->keys.push_back(key);
                in.keys->by_value.push_back(by_value);
                if (!(by_value ? hold_strongly(program, key) : hold(program, key))) return false;
            }
            return true;
        }
        case kTENSOR:
            in.tensor = shared_tensor_check(program, constant);
            return in.tensor != nullptr && hold(program, PyTuple_GET_ITEM(constant, 0));
        case kSTATE:
            if (!is_state_snapshot(constant)) {
                PyErr_SetString(PyExc_TypeError, "the constant of a state guard is a StateSnapshot");
                return false;
            }
            in.object = constant;
            return hold_strongly(program, constant);
        case kDISTINCT: {
            program.distincts.push_back(std::make_unique<Distinct>());
            in.distinct = program.distincts.back().get();
            if (!read_registers(constant, register_count, in.distinct->registers)) return false;
            const size_t count = in.distinct->registers.size();
            in.distinct->current.resize(count);
            size_t capacity = 4;
            while (capacity < 2 * count) capacity *= 2;
            in.distinct->table.resize(capacity);
            return true;
        }
        case kDISJOINT: {
            PyObject* registers;
            PyObject* mutated;
            PyObject* exempt;
            if (!PyArg_ParseTuple(constant, "OOO", &registers, &mutated, &exempt)) return false;
            program.disjoints.push_back(std::make_unique<Disjoint>());
            in.disjoint = program.disjoints.back().get();
            if (!read_registers(registers, register_count, in.disjoint->registers)) return false;
            in.disjoint->current.resize(in.disjoint->registers.size());
            PyObject* fields = Py_BuildValue("(nOO)", PyTuple_GET_SIZE(registers), mutated, exempt);
            if (fields == nullptr) return false;
            in.disjoint->check = disjoint_check_new(fields);
            Py_DECREF(fields);
            return in.disjoint->check != nullptr;
        }
        case kRELATION:
            program.relations.push_back(std::make_unique<Relation>());
            in.relation = program.relations.back().get();
            return relation_read(constant, register_count, *in.relation);
        case kPREDICATE: {
            PyObject* callable;
            PyObject* registers;
            if (!PyArg_ParseTuple(constant, "OO", &callable, &registers)) return false;
            Predicate predicate{callable, {}, static_cast<uint32_t>(program.instructions.size())};
            if (!read_registers(registers, register_count, predicate.registers)) return false;
            program.predicates.push_back(std::move(predicate));
            return hold_strongly(program, callable);
        }
        default:
            return true;
    }
}

bool is_check(uint8_t operation) {
    return operation >= kTYPE_IS || operation == kENTER_OBJECT;
}

// In a row of alike instructions, what a later one reads may be followed early if it is there already.
void allow_looking_ahead(Program& program) {
    std::vector<Instruction>& code = program.instructions;
    std::vector<size_t> written(program.registers.size(), 0);  // behind which instruction of the main line
    size_t enter = program.main_size;
    for (size_t pc = code.size(); pc-- > 0;) {
        const Instruction& in = code[pc];
        if (in.operation == kLEAVE) enter = in.x;
        const bool is_in_block = pc > program.main_size;
        const bool writes = in.operation < kTYPE_IS && in.operation != kEND && in.operation != kLEAVE &&
                            in.operation != kENTER_DICT && in.operation != kENTER_TYPE;
        if (writes) written[in.b] = is_in_block ? enter : pc;
    }
    for (size_t pc = 0; pc + kLookAhead < program.main_size; pc++) {
        const Instruction& later = code[pc + kLookAhead];
        code[pc].may_look_ahead =
            later.operation == code[pc].operation && (written[later.a] < pc || later.a < kFixedRegisters);
    }
}

// Finds where the main line ends, checks that blocks are entered from it and go back to it, and adds the
// padding.
bool close_instructions(Program& program) {
    const size_t size = program.instructions.size();
    auto enters = [](const Instruction& in) {
        return in.operation == kENTER_OBJECT || in.operation == kENTER_DICT || in.operation == kENTER_TYPE;
    };
    while (program.main_size < size && program.instructions[program.main_size].operation != kEND) {
        program.main_size++;
    }
    bool fits = program.main_size < size &&
                (program.main_size + 1 == size || program.instructions.back().operation == kLEAVE);
    for (size_t pc = 0; pc < size; pc++) {
        const Instruction& in = program.instructions[pc];
        if (enters(in)) fits = fits && pc < program.main_size && in.x > program.main_size;
        if (in.operation == kLEAVE) {
            fits = fits && pc > program.main_size && in.x < program.main_size &&
                   enters(program.instructions[in.x]);
        }
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "blocks must follow the main line and return to it");
    program.instructions.resize(size + kPrefetchDistance);
    if (fits) allow_looking_ahead(program);
    return fits;
}

bool add_instruction(Program& program, PyObject* item, size_t register_count, size_t instruction_count) {
    int operation;
    unsigned int a, b, x;
    int guard;
    PyObject* constant;
    if (!PyTuple_Check(item) ||
        !PyArg_ParseTuple(item, "iIIIOi", &operation, &a, &b, &x, &constant, &guard)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "an instruction is a tuple (op, a, b, x, constant, guard)");
        return false;
    }
    if (operation < 0 || operation >= kOperationCount || a >= register_count || b >= register_count) {
        PyErr_SetString(PyExc_ValueError, "instruction with an unknown operation or a register out of range");
        return false;
    }
    Instruction in;
    in.operation = static_cast<uint8_t>(operation);
    in.a = a;
    in.b = b;
    in.x = x;
    const bool jumps = in.operation == kENTER_OBJECT || in.operation == kENTER_DICT ||
                       in.operation == kENTER_TYPE || in.operation == kLEAVE;
    if (jumps && x >= instruction_count) {
        PyErr_SetString(PyExc_ValueError, "block without an end");
        return false;
    }
    if (!set_constant(program, in, constant, register_count)) return false;
    program.check_count += is_check(in.operation);
    if (in.operation == kNEVER) program.validity->is_valid = false;
    program.instructions.push_back(in);
    program.guard_of.push_back(guard);
    return true;
}

PyObject* program_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"instructions", "registers", "inputs", "objects", nullptr};
    PyObject* instructions;
    Py_ssize_t register_count;
    PyObject* inputs;
    PyObject* objects;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nO!O!:GuardProgram", const_cast<char**>(names),
                                     &PyList_Type, &instructions, &register_count, &PyTuple_Type, &inputs,
                                     &PyDict_Type, &objects)) {
        return nullptr;
    }
    if (register_count < static_cast<Py_ssize_t>(kFixedRegisters)) {
        PyErr_SetString(PyExc_ValueError, "registers 0 and 1 are globals and builtins");
        return nullptr;
    }
    auto* self = reinterpret_cast<GuardProgramObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->program = new Program();
    Program& program = *self->program;
    program.validity = PyObject_New(ValidityObject, &ValidityType);
    bool complete = program.validity != nullptr;
    if (complete) {
        program.validity->is_valid = true;
        program.death_callback =
            PyCFunction_New(&death_definition, reinterpret_cast<PyObject*>(program.validity));
        complete = program.death_callback != nullptr;
    }
    const auto count = static_cast<size_t>(register_count);
    program.registers.resize(count, nullptr);
    for (Py_ssize_t i = 0; complete && i < PyList_GET_SIZE(instructions); i++) {
        complete = add_instruction(program, PyList_GET_ITEM(instructions, i), count,
                                   static_cast<size_t>(PyList_GET_SIZE(instructions)));
    }
    complete = complete && close_instructions(program) && read_registers(inputs, count, program.inputs);
    PyObject* index_object;
    PyObject* object;
    for (Py_ssize_t position = 0; complete && PyDict_Next(objects, &position, &index_object, &object);) {
        size_t index = PyLong_AsSize_t(index_object);
        complete = index < count && hold(program, object);
        if (complete) program.fixed.emplace_back(static_cast<uint32_t>(index), object);
        if (!complete && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "register out of range");
    }
    if (!complete) {
        Py_DECREF(self);
        return nullptr;
    }
    for (const auto& [index, object] : program.fixed) program.registers[index] = object;
    prepare_memories(program);
    return reinterpret_cast<PyObject*>(self);
}

int program_traverse(PyObject* self, visitproc visit, void* arg) {
    Program* program = reinterpret_cast<GuardProgramObject*>(self)->program;
    if (program == nullptr) return 0;
    for (PyObject* object : program->strong) Py_VISIT(object);
    return 0;
}

int program_clear(PyObject* self) {
    auto* object = reinterpret_cast<GuardProgramObject*>(self);
    Program* program = object->program;
    object->program = nullptr;
    delete program;
    return 0;
}

void program_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    auto* object = reinterpret_cast<GuardProgramObject*>(self);
    if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    program_clear(self);
    Py_TYPE(self)->tp_free(self);
}

// ---- Python interface ------------------------------------------------------------------------------

bool parse_frame(PyObject* args, PyObject** slots_owner, Arguments& frame) {
    PyObject* slots;
    if (!PyArg_ParseTuple(args, "OOOO", &slots, &frame.globals, &frame.builtins, &frame.closure))
        return false;
    *slots_owner = PySequence_Tuple(slots);
    if (*slots_owner == nullptr) return false;
    if (frame.closure == Py_None) frame.closure = nullptr;
    if (frame.closure != nullptr && !PyTuple_Check(frame.closure)) {
        PyErr_SetString(PyExc_TypeError, "closure must be a tuple of cells or None");
        Py_CLEAR(*slots_owner);
        return false;
    }
    frame.slots = reinterpret_cast<PyTupleObject*>(*slots_owner)->ob_item;
    frame.slot_count = PyTuple_GET_SIZE(*slots_owner);
    return true;
}

Program* program_of(PyObject* self) {
    Program* program = reinterpret_cast<GuardProgramObject*>(self)->program;
    if (program == nullptr) PyErr_SetString(PyExc_ReferenceError, "the guard program was cleared");
    return program;
}

PyObject* program_check(PyObject* self, PyObject* args) {
    PyObject* slots;
    Arguments frame{};
    Program* program = program_of(self);
    if (program == nullptr || !parse_frame(args, &slots, frame)) return nullptr;
    PyObject* inputs = nullptr;
    Py_INCREF(self);  // predicates and dropped references may run Python that drops this program
    const bool holds = evaluate(*program, frame, &inputs);
    Py_DECREF(self);
    Py_DECREF(slots);
    if (!holds) Py_RETURN_NONE;
    return inputs != nullptr ? inputs : PyList_New(0);
}

PyObject* program_measure(PyObject* self, PyObject* args) {
    PyObject *slots, *globals, *builtins, *closure;
    Py_ssize_t rounds = 1000;
    if (!PyArg_ParseTuple(args, "O!OOO|n", &PyTuple_Type, &slots, &globals, &builtins, &closure, &rounds)) {
        return nullptr;
    }
    auto* program = reinterpret_cast<GuardProgramObject*>(self);
    PyObject* const* values = reinterpret_cast<PyTupleObject*>(slots)->ob_item;
    double best = 0;
    // The fastest of several batches: the others shared the processor with something else.
    for (int batch = 0; batch < 10; batch++) {
        const auto start = std::chrono::steady_clock::now();
        for (Py_ssize_t i = 0; i < rounds; i++) {
            PyObject* inputs = nullptr;
            if (!guard_program_check(program, values, PyTuple_GET_SIZE(slots), globals, builtins, closure,
                                     &inputs)) {
                PyErr_SetString(PyExc_ValueError, "the guards do not hold");
                return nullptr;
            }
            Py_XDECREF(inputs);
        }
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        const double each = elapsed.count() / static_cast<double>(rounds);
        if (batch == 0 || each < best) best = each;
    }
    return PyFloat_FromDouble(best);
}

PyObject* missing(const char* text) {
    return PyObject_CallFunction(PyExc_LookupError, "s", text);
}

// What was found where instruction `in` failed: a value, or a LookupError that says why there is none.
PyObject* found_at(const Instruction& in, PyObject* const* registers) {
    switch (in.operation) {
        case kSTATE:
            return state_snapshot_difference(in.object);
        case kLOCAL:
        case kCELL:
            return missing("not bound");
        case kKEY:
        case kITEM:
        case kMEMBER:
        case kCLASS_ATTR:
        case kHAS_KEY:
            return missing("missing");
        case kCELL_CONTENTS:
            return missing("empty");
        case kRELATION:
            return missing("does not hold");
        case kNEVER:
            return missing("died");
        case kNO_KEY:
        case kNO_CLASS_ATTR:
            return missing("present");
        case kDISTINCT:
            return tuple_of(in.distinct->registers, registers);
        case kDISJOINT:
            return tuple_of(in.disjoint->registers, registers);
        case kSAME:
        case kOVERLAPS:
            return tuple_of({in.a, in.b}, registers);
        default:
            return registers[in.a] != nullptr ? Py_NewRef(registers[in.a]) : missing("missing");
    }
}

PyObject* dead_guard(const Program& program) {
    for (size_t pc = 0; pc < program.guard_of.size(); pc++) {
        const Instruction& in = program.instructions[pc];
        PyObject* named = in.operation == kTENSOR ? tensor_check_class(in.tensor)
                          : in.operation == kTYPE_IS || in.operation == kIS || in.operation == kENTER_OBJECT
                              ? in.object
                              : nullptr;
        auto held = named != nullptr ? program.weak.find(named) : program.weak.end();
        if (in.operation == kNEVER || (held != program.weak.end() && weakref_is_dead(held->second))) {
            return Py_BuildValue("(iN)", program.guard_of[pc], missing("died"));
        }
    }
    return Py_BuildValue("(iN)", -1, missing("died"));
}

PyObject* program_failure(PyObject* self, PyObject* args) {
    PyObject* slots;
    Arguments frame{};
    Program* program = program_of(self);
    if (program == nullptr || !parse_frame(args, &slots, frame)) return nullptr;
    PyObject* answer = nullptr;
    if (!program->validity->is_valid) {
        answer = dead_guard(*program);
    } else {
        std::vector<PyObject*> registers;
        std::vector<PyObject*> owned;
        size_t pc = 0;
        Verdict verdict = run_exact(*program, frame, registers, owned, &pc);
        if (verdict == Verdict::kFails) {
            PyObject* found = found_at(program->instructions[pc], registers.data());
            if (found != nullptr) answer = Py_BuildValue("(iN)", program->guard_of[pc], found);
        } else {
            Harvest gathered;
            size_t failed = 0;
            if (!harvest(*program, registers.data(), gathered)) {
                PyErr_Clear();
                answer = Py_BuildValue("(iN)", -1, missing("missing"));
            } else if (!run_predicates(*program, gathered, &failed)) {
                answer = Py_BuildValue("(iO)", program->guard_of[program->predicates[failed].pc],
                                       gathered.arguments[failed]);
            } else {
                answer = Py_NewRef(Py_None);
            }
        }
        release(owned);
    }
    Py_DECREF(slots);
    return answer;
}

PyObject* get_size(PyObject* self, void*) {
    Program* program = program_of(self);
    return program != nullptr ? PyLong_FromSize_t(program->guard_of.size()) : nullptr;
}

PyObject* get_fallbacks(PyObject* self, void*) {
    Program* program = program_of(self);
    return program != nullptr ? PyLong_FromSize_t(program->predicates.size()) : nullptr;
}

PyObject* get_checks(PyObject* self, void*) {
    Program* program = program_of(self);
    return program != nullptr ? PyLong_FromSsize_t(program->check_count) : nullptr;
}

PyObject* get_is_valid(PyObject* self, void*) {
    return PyBool_FromLong(guard_program_is_valid(reinterpret_cast<GuardProgramObject*>(self)));
}

PyMethodDef program_methods[] = {
    {"check", program_check, METH_VARARGS,
     "check(slots, globals, builtins, closure) -> list of inputs, or None when a guard fails"},
    {"failure", program_failure, METH_VARARGS,
     "failure(slots, globals, builtins, closure) -> (guard index, value found or LookupError), or None"},
    {"measure", program_measure, METH_VARARGS,
     "measure(slots, globals, builtins, closure, rounds=1000) -> seconds that one evaluation takes"},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef program_getters[] = {
    {"size", get_size, nullptr, "number of instructions", nullptr},
    {"fallbacks", get_fallbacks, nullptr, "number of instructions that call Python", nullptr},
    {"checks", get_checks, nullptr, "number of instructions that compare", nullptr},
    {"is_valid", get_is_valid, nullptr, "false once an object named by the guards has died", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

PyTypeObject GuardProgramType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool guard_program_check(GuardProgramObject* program, PyObject* const* slots, Py_ssize_t slot_count,
                         PyObject* globals, PyObject* builtins, PyObject* closure,
                         PyObject** inputs_list_out) {
    *inputs_list_out = nullptr;
    if (program->program == nullptr) return false;
    if (closure == Py_None) closure = nullptr;
    Py_INCREF(program);  // predicates and dropped references may run Python that drops this program
    const bool holds = evaluate(*program->program, Arguments{slots, slot_count, globals, builtins, closure},
                                inputs_list_out);
    Py_DECREF(program);
    return holds;
}

bool guard_program_is_valid(GuardProgramObject* program) {
    return program->program != nullptr && program->program->validity->is_valid;
}

int init_guard_program(PyObject* module) {
    ValidityType.tp_name = "framehook._C.Validity";
    ValidityType.tp_basicsize = sizeof(ValidityObject);
    ValidityType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    GuardProgramType.tp_name = "framehook._C.GuardProgram";
    GuardProgramType.tp_doc = "Guards of one cache entry, lowered to instructions over registers.";
    GuardProgramType.tp_basicsize = sizeof(GuardProgramObject);
    GuardProgramType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    GuardProgramType.tp_weaklistoffset = offsetof(GuardProgramObject, weak_references);
    GuardProgramType.tp_new = program_new;
    GuardProgramType.tp_dealloc = program_dealloc;
    GuardProgramType.tp_traverse = program_traverse;
    GuardProgramType.tp_clear = program_clear;
    GuardProgramType.tp_methods = program_methods;
    GuardProgramType.tp_getset = program_getters;
    if (PyType_Ready(&ValidityType) < 0 || PyType_Ready(&GuardProgramType) < 0) return -1;
    if (PyModule_AddObjectRef(module, "GuardProgram", reinterpret_cast<PyObject*>(&GuardProgramType)) < 0)
        return -1;
    PyObject* operations = PyDict_New();
    if (operations == nullptr) return -1;
#define X(name)                                                                                  \
    {                                                                                            \
        PyObject* number = PyLong_FromLong(k##name);                                             \
        if (number == nullptr || PyDict_SetItemString(operations, #name, number) < 0) return -1; \
        Py_DECREF(number);                                                                       \
    }
    FRAMEHOOK_GUARD_OPERATIONS(X)
#undef X
    PyObject* relations = relation_operations();
    if (relations == nullptr) return -1;
    const int added = PyModule_AddObjectRef(module, "RELATION_OPERATIONS", relations);
    Py_DECREF(relations);
    if (added < 0) return -1;
    if (PyModule_AddObjectRef(module, "GUARD_OPERATIONS", operations) < 0) return -1;
    Py_DECREF(operations);
    return init_tensor_check(module) < 0 ? -1 : init_torch_state(module);
}
