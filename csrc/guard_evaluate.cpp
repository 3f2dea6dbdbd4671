// Evaluation of guard programs.
//
// Why borrowed pointers and skipped blocks are sound
//
// 1. One evaluation is atomic.  Until every check has passed, no Python runs and the GIL is not given up:
//    lookups walk the tables themselves (cpython.h), members are read from C structs, comparison is by
//    identity or between exact built-in values, the collector is off where it could run in an allocation,
//    and references are dropped at the end.  So no object seen during an evaluation can die during it.
//    Predicates (Python) run last, on references of their own, when no register is read any more.
// 2. A register is written by one instruction only.  Registers of fetches outside of a block are written in
//    every evaluation before they are read.  Registers of a block are kept from the block's last complete
//    run, and are read only if the block was run or skipped in this evaluation.
// 3. A block is skipped only if the dict that its owner holds now has the version recorded when the block
//    last ran to its end.  Versions are unique in the process and move with every change, so it is that same
//    dict and it has held the same objects all the time: the kept pointers are alive and are what a lookup
//    would find.  What a block may hold follows from these pointers and from immutable values alone
//    (identity, equality with an immutable constant, a type that cannot be reassigned, presence of keys).
//    Everything that can change behind an unchanged dict (an object's type, its `__dict__`, lengths, items,
//    slots, tensors) is checked outside of blocks, top-down from the roots.  The same holds for blocks over
//    a class with the type's version, which moves with every class along the MRO.
// 4. On entering a block whose version differs, the recorded version is forgotten first and recorded anew at
//    the end of the block.  An evaluation that fails half-way leaves blocks that are complete or unversioned.
// 5. Objects named by identity are held weakly; their death clears the program's validity before their memory
//    is reused, so an address never means another object.
//
// 6. Memories (several sets of registers with their versions) are exchanged as a whole between evaluations,
// so
//    2 to 4 hold for each.
//
// Getters of C types that this file does not know may run Python.  A program that needs one is evaluated in
// exact mode for good: registers own their values and no block is skipped.

#include "guard_evaluate.h"

#include <algorithm>
#include <cstring>

namespace framehook {

namespace {

uint64_t dict_block_version(const Instruction& enter, PyObject* owner) {
    if (owner == nullptr) return 0;
    // The order of an OrderedDict moves without its version.
    if (enter.member != 0 && PyODict_Check(owner)) return 0;
    // Where stores go past the version (3.13), comparing value pointers with those seen last would not do: a
    // float freed and another one made at its address look alike.  Such a block is run every time.
    return dict_version_is_reliable(owner) ? dict_version(owner) : 0;
}

// In place of a version: which dict without a reliable one was there, and (in the bits that its alignment
// leaves free) how many times in a row.  No version is as large.
constexpr uint64_t kUnreliable = uint64_t{1} << 63;
constexpr uint64_t kTimesSeen = 15;

uint64_t unreliable_mark(PyObject* dict) {
    return kUnreliable | reinterpret_cast<uintptr_t>(dict);
}

uint64_t block_version(const Instruction& enter, PyObject* owner) {
    return enter.operation == kENTER_TYPE ? type_version(owner) : dict_block_version(enter, owner);
}

// Whether the block may be skipped; if not, its version is forgotten.
bool enters_unchanged(Instruction& enter, PyObject* dict) {
    const uint64_t version = dict_block_version(enter, dict);
    if (version == enter.version && version != 0) [[likely]]
        return true;
    if (dict == nullptr || dict_version_is_reliable(dict)) {
        enter.version = 0;
    } else if ((enter.version & ~kTimesSeen) != unreliable_mark(dict)) {
        enter.version = unreliable_mark(dict);
    } else if ((++enter.version & kTimesSeen) == kTimesSeen) {
        // An object that stays: it is read for the last time.
        make_dict_version_reliable(dict);
        enter.version = 0;
    }
    return false;
}

// kExact: registers own what they hold and no block is skipped, so Python may run in getters.
// On failure `*pc_out` is the instruction that failed.
template <bool kExact>
Verdict run(Program& program, const Arguments& frame, PyObject** registers, std::vector<PyObject*>& owned,
            size_t* pc_out) {
    Instruction* const code = program.instructions.data();
    size_t pc = 0;
    registers[kGlobalsRegister] = frame.globals;
    registers[kBuiltinsRegister] = frame.builtins;
    auto put = [&](uint32_t index, PyObject* value) {
        if constexpr (kExact) {
            if (value != nullptr) {
                Py_INCREF(value);
                owned.push_back(value);
            }
        }
        registers[index] = value;
    };
#define REQUIRE(condition)           \
    if (!(condition)) [[unlikely]] { \
        goto fail;                   \
    }
    for (;; pc++) {
        Instruction& in = code[pc];
        if constexpr (!kExact) {
            // Most likely what the register held last time.
            __builtin_prefetch(registers[code[pc + kPrefetchDistance].a]);
        }
        switch (in.operation) {
            case kLOCAL: {
                REQUIRE(static_cast<Py_ssize_t>(in.x) < frame.slot_count);
                PyObject* value = frame.slots[in.x];
                REQUIRE(value != nullptr);
                put(in.b, value);
                break;
            }
            case kCELL: {
                REQUIRE(frame.closure != nullptr &&
                        static_cast<Py_ssize_t>(in.x) < PyTuple_GET_SIZE(frame.closure));
                put(in.b, PyTuple_GET_ITEM(frame.closure, in.x));
                break;
            }
            case kTYPE_OF:
                REQUIRE(registers[in.a] != nullptr);
                put(in.b, reinterpret_cast<PyObject*>(Py_TYPE(registers[in.a])));
                break;
            case kDICT_OF:
                REQUIRE(registers[in.a] != nullptr);
                put(in.b, instance_dict(registers[in.a]));
                break;
            case kENTER_OBJECT:
                for (;; pc++) {
                    Instruction& each = code[pc];
                    PyObject* object = registers[each.a];
                    REQUIRE(object != nullptr);
                    REQUIRE(each.object == nullptr ||
                            reinterpret_cast<PyObject*>(Py_TYPE(object)) == each.object);
                    if constexpr (!kExact) {
                        __builtin_prefetch(registers[code[pc + kPrefetchDistance].a]);
                        if (each.may_look_ahead) prefetch_instance_dict(registers[code[pc + kLookAhead].a]);
                    }
                    PyObject* dict = instance_dict(object);
                    put(each.b, dict);
                    if (kExact || !enters_unchanged(each, dict)) {
                        pc = each.x - 1;
                        break;
                    }
                    if (code[pc + 1].operation != kENTER_OBJECT) break;
                }
                break;
            case kENTER_DICT:
                for (;; pc++) {
                    Instruction& each = code[pc];
                    PyObject* dict = registers[each.a];
                    REQUIRE(dict == nullptr || PyDict_Check(dict));
                    if constexpr (!kExact) __builtin_prefetch(registers[code[pc + kPrefetchDistance].a]);
                    if (kExact || !enters_unchanged(each, dict)) {
                        pc = each.x - 1;
                        break;
                    }
                    if (code[pc + 1].operation != kENTER_DICT) break;
                }
                break;
            case kENTER_TYPE: {
                PyObject* type = registers[in.a];
                REQUIRE(type != nullptr && PyType_Check(type));
                if constexpr (!kExact) {
                    uint64_t version = type_version(type);
                    if (version == in.version && version != 0) break;
                    in.version = 0;
                    if (version == 0) type_assign_version(type);
                }
                pc = in.x - 1;
                break;
            }
            case kLEAVE:
                if constexpr (!kExact) {
                    Instruction& enter = code[in.x];
                    const uint64_t version = block_version(enter, registers[in.a]);
                    if (version != 0 || (enter.version & kUnreliable) == 0) enter.version = version;
                }
                pc = in.x;
                break;
            case kKEY: {
                PyObject* value = nullptr;
                REQUIRE(registers[in.a] != nullptr);
                REQUIRE(dict_find(registers[in.a], in.object, in.hash, &in.x, &value) == Lookup::kFound);
                put(in.b, value);
                break;
            }
            case kITEM: {
                PyObject* owner = registers[in.a];
                REQUIRE(owner != nullptr);
                PyObject* value = nullptr;
                if (PyDict_Check(owner)) {
                    REQUIRE(dict_find(owner, in.object, in.hash, &in.x, &value) == Lookup::kFound);
                } else {
                    REQUIRE(PyLong_Check(in.object));
                    const bool is_list = PyList_Check(owner);
                    REQUIRE(is_list || PyTuple_Check(owner) || is_deque(owner));
                    Py_ssize_t index = PyLong_AsSsize_t(in.object);
                    if (index < 0) {
                        PyErr_Clear();
                        index += Py_SIZE(owner);
                    }
                    REQUIRE(index >= 0 && index < Py_SIZE(owner));
                    if (is_list) {
                        value = PyList_GET_ITEM(owner, index);
                    } else if (PyTuple_Check(owner)) {
                        value = PyTuple_GET_ITEM(owner, index);
                    } else {
                        // Past whatever a subclass defines; the deque keeps the item alive.
                        value = deque_item(owner, index);
                    }
                    REQUIRE(value != nullptr);
                }
                put(in.b, value);
                break;
            }
            case kMEMBER: {
                PyObject* value = nullptr;
                Fetch fetch = fetch_member(registers[in.a], static_cast<Member>(in.member), in.object,
                                           in.hash, kExact, &value);
                if (fetch == Fetch::kNeedsExact) {
                    *pc_out = pc;
                    return Verdict::kNeedsExact;
                }
                REQUIRE(fetch != Fetch::kMissing);
                if (fetch == Fetch::kNew) {
                    owned.push_back(value);
                    registers[in.b] = value;
                } else {
                    put(in.b, value);
                }
                break;
            }
            case kCLASS_ATTR: {
                PyObject* type = registers[in.a];
                REQUIRE(type != nullptr && PyType_Check(type));
                PyObject* value = nullptr;
                REQUIRE(type_find(type, in.object, in.hash, &value) == Lookup::kFound);
                put(in.b, value);
                break;
            }
            case kCELL_CONTENTS: {
                PyObject* cell = registers[in.a];
                REQUIRE(cell != nullptr && PyCell_Check(cell) && PyCell_GET(cell) != nullptr);
                put(in.b, PyCell_GET(cell));
                break;
            }
            case kTYPE_IS:
                REQUIRE(registers[in.a] != nullptr);
                REQUIRE(reinterpret_cast<PyObject*>(Py_TYPE(registers[in.a])) == in.object);
                break;
            case kIS:
                REQUIRE(registers[in.a] == in.object);
                break;
            case kNOT_NONE:
                REQUIRE(registers[in.a] != nullptr && registers[in.a] != Py_None);
                break;
            case kEQUALS:
                REQUIRE(registers[in.a] != nullptr && values_equal(in.object, registers[in.a]));
                break;
            case kLENGTH:
                REQUIRE(length_of(registers[in.a]) == in.number);
                break;
            case kDICT_LENGTH:
                for (;; pc++) {
                    const Instruction& each = code[pc];
                    __builtin_prefetch(registers[code[pc + kPrefetchDistance].a]);
                    REQUIRE(reinterpret_cast<PyDictObject*>(registers[each.a])->ma_used == each.number);
                    if (code[pc + 1].operation != kDICT_LENGTH) break;
                }
                break;
            case kITEMS_ARE: {
                PyObject* tuple = registers[in.a];
                const std::vector<PyObject*>& items = in.keys->keys;
                REQUIRE(tuple != nullptr && PyTuple_Check(tuple));
                REQUIRE(static_cast<size_t>(PyTuple_GET_SIZE(tuple)) == items.size());
                PyObject* const* found = reinterpret_cast<PyTupleObject*>(tuple)->ob_item;
                REQUIRE(std::equal(items.begin(), items.end(), found));
                break;
            }
            case kKEYS:
                REQUIRE(keys_match(*in.keys, registers[in.a]));
                break;
            case kMEMBERS:
                REQUIRE(members_match(*in.keys, registers[in.a]));
                break;
            case kHAS_KEY:
            case kNO_KEY: {
                PyObject* dict = registers[in.a];
                Lookup found = Lookup::kAbsent;
                if (dict != nullptr) {
                    PyObject* value = nullptr;
                    REQUIRE(PyDict_Check(dict));
                    found = dict_find(dict, in.object, in.hash, &in.x, &value);
                }
                REQUIRE(found == (in.operation == kHAS_KEY ? Lookup::kFound : Lookup::kAbsent));
                break;
            }
            case kNO_CLASS_ATTR: {
                PyObject* type = registers[in.a];
                PyObject* value = nullptr;
                REQUIRE(type != nullptr && PyType_Check(type));
                REQUIRE(type_find(type, in.object, in.hash, &value) == Lookup::kAbsent);
                break;
            }
            case kTENSOR:
                for (;; pc++) {
                    const Instruction& each = code[pc];
                    if constexpr (!kExact) {
                        __builtin_prefetch(registers[code[pc + kPrefetchDistance].a]);
                        const Instruction& later = code[pc + kLookAhead];
                        if (each.may_look_ahead) tensor_prefetch(later.tensor, registers[later.a]);
                    }
                    REQUIRE(registers[each.a] != nullptr &&
                            tensor_check_matches(each.tensor, registers[each.a]));
                    if (code[pc + 1].operation != kTENSOR) break;
                }
                break;
            case kSTATE:
                REQUIRE(state_snapshot_matches(in.object));
                break;
            case kSAME:
                REQUIRE(registers[in.a] == registers[in.b]);
                break;
            case kDISTINCT: {
                Distinct& distinct = *in.distinct;
                for (size_t i = 0; i < distinct.registers.size(); i++) {
                    distinct.current[i] = registers[distinct.registers[i]];
                    REQUIRE(distinct.current[i] != nullptr);
                }
                REQUIRE(are_distinct(distinct));
                break;
            }
            case kDISJOINT: {
                Disjoint& disjoint = *in.disjoint;
                for (size_t i = 0; i < disjoint.registers.size(); i++) {
                    disjoint.current[i] = registers[disjoint.registers[i]];
                    REQUIRE(disjoint.current[i] != nullptr);
                }
                REQUIRE(disjoint_check_matches(disjoint.check, disjoint.current.data()));
                break;
            }
            case kOVERLAPS:
                REQUIRE(registers[in.a] != nullptr && registers[in.b] != nullptr);
                REQUIRE(tensors_overlap_at(registers[in.a], registers[in.b], in.number));
                break;
            case kRELATION:
                REQUIRE(relation_holds(*in.relation, registers));
                break;
            case kCELL_EMPTY: {
                PyObject* cell = registers[in.a];
                REQUIRE(cell != nullptr && PyCell_Check(cell) && PyCell_GET(cell) == nullptr);
                break;
            }
            case kPREDICATE:
                break;
            case kEND:
                return Verdict::kHolds;
            default:
                goto fail;
        }
    }
#undef REQUIRE
fail:
    *pc_out = pc;
    return Verdict::kFails;
}

}  // namespace

void release(std::vector<PyObject*>& owned) {
    if (owned.empty()) return;
    // Dropping a reference may run Python that evaluates this very program.
    std::vector<PyObject*> taken;
    taken.swap(owned);
    for (PyObject* object : taken) Py_DECREF(object);
    taken.clear();
    if (owned.empty()) owned.swap(taken);  // keep the capacity
}

PyObject* tuple_of(const std::vector<uint32_t>& indices, PyObject* const* registers) {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(indices.size()));
    if (tuple == nullptr) return nullptr;
    for (size_t i = 0; i < indices.size(); i++) {
        PyObject* value = registers[indices[i]];
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), Py_NewRef(value != nullptr ? value : Py_None));
    }
    return tuple;
}

bool harvest(Program& program, PyObject* const* registers, Harvest& out) {
    if (!program.inputs.empty()) {
        const auto count = static_cast<Py_ssize_t>(program.inputs.size());
        out.inputs = PyList_New(count);
        if (out.inputs == nullptr) return false;
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject* value = registers[program.inputs[static_cast<size_t>(i)]];
            if (value == nullptr) return false;
            PyList_SET_ITEM(out.inputs, i, Py_NewRef(value));
        }
    }
    for (const Predicate& predicate : program.predicates) {
        out.arguments.push_back(tuple_of(predicate.registers, registers));
        if (out.arguments.back() == nullptr) return false;
    }
    return true;
}

bool run_predicates(Program& program, const Harvest& gathered, size_t* failed) {
    for (size_t i = 0; i < gathered.arguments.size(); i++) {
        // The program may be freed by what a predicate does, but not while its caller holds it.
        PyObject* result = PyObject_Call(program.predicates[i].callable, gathered.arguments[i], nullptr);
        int holds = result != nullptr ? PyObject_IsTrue(result) : -1;
        Py_XDECREF(result);
        if (holds < 0) PyErr_Clear();
        if (holds != 1) {
            *failed = i;
            return false;
        }
    }
    return true;
}

Verdict run_exact(Program& program, const Arguments& arguments, std::vector<PyObject*>& registers,
                  std::vector<PyObject*>& owned, size_t* pc_out) {
    registers.assign(program.registers.size(), nullptr);
    for (const auto& [index, object] : program.fixed) registers[index] = object;
    return run<true>(program, arguments, registers.data(), owned, pc_out);
}

void prepare_memories(Program& program) {
    Memories& memories = program.memories;
    std::unordered_map<uint32_t, uint32_t> slot_of;
    for (size_t i = 0; i < program.instructions.size(); i++) {
        const Instruction& in = program.instructions[i];
        if (in.operation == kLOCAL) slot_of[in.b] = in.x;
        if (in.operation == kENTER_OBJECT || in.operation == kENTER_DICT || in.operation == kENTER_TYPE) {
            memories.enters.push_back(static_cast<uint32_t>(i));
        }
        if (in.operation == kENTER_OBJECT && memories.slot < 0 && slot_of.count(in.a) != 0) {
            memories.slot = static_cast<Py_ssize_t>(slot_of[in.a]);
        }
    }
}

namespace {

void save_memory(const Program& program, Memory& memory) {
    memory.object = program.memories.current;
    memory.registers = program.registers;
    memory.versions.clear();
    for (uint32_t index : program.memories.enters) {
        memory.versions.push_back(program.instructions[index].version);
    }
}

// Puts `memory` in the place of what the program remembers, and the other way round.
void exchange(Program& program, Memory& memory) {
    std::swap(program.memories.current, memory.object);
    program.registers.swap(memory.registers);
    const std::vector<uint32_t>& enters = program.memories.enters;
    for (size_t i = 0; i < enters.size(); i++) {
        std::swap(program.instructions[enters[i]].version, memory.versions[i]);
    }
}

// Exchanges what the program remembers when another object has come into its slot.  For an object without a
// memory the present one goes on: blocks that do not concern the object stay valid.
void recall(Program& program, PyObject* object) {
    Memories& memories = program.memories;
    if (object == memories.current) return;
    std::vector<Memory>& others = memories.others;
    auto found = std::find_if(others.begin(), others.end(),
                              [&](const Memory& memory) { return memory.object == object; });
    if (found != others.end()) {
        exchange(program, *found);
        std::rotate(others.begin(), found, found + 1);
        memories.misses = 0;
        return;
    }
    if (memories.current != nullptr) {
        if (++memories.misses > Memories::kPatience) {
            memories.slot = -1;
            others.clear();
            return;
        }
        Memory present;
        save_memory(program, present);
        others.insert(others.begin(), std::move(present));
        if (others.size() >= Memories::kMost) others.pop_back();
    }
    memories.current = object;
}

}  // namespace

bool evaluate(Program& program, const Arguments& arguments, PyObject** inputs_out) {
    if (!program.validity->is_valid) return false;
    const Py_ssize_t slot = program.memories.slot;
    if (slot >= 0 && slot < arguments.slot_count) recall(program, arguments.slots[slot]);
    size_t pc = 0;
    Harvest gathered;
    if (!program.is_exact) {
        Verdict verdict;
        bool complete = false;
        {
            NoCollection no_collection;
            verdict = run<false>(program, arguments, program.registers.data(), program.temporaries, &pc);
            if (verdict == Verdict::kHolds) complete = harvest(program, program.registers.data(), gathered);
        }
        release(program.temporaries);
        if (verdict == Verdict::kNeedsExact) program.is_exact = true;
        if (verdict == Verdict::kFails) return false;
        if (verdict == Verdict::kHolds && !complete) {
            PyErr_Clear();
            return false;
        }
    }
    if (program.is_exact && gathered.inputs == nullptr && gathered.arguments.empty()) {
        std::vector<PyObject*> registers;
        std::vector<PyObject*> owned;
        Verdict verdict = run_exact(program, arguments, registers, owned, &pc);
        bool complete = verdict == Verdict::kHolds && harvest(program, registers.data(), gathered);
        release(owned);
        if (!complete) {
            PyErr_Clear();
            return false;
        }
    }
    if (!gathered.arguments.empty()) {
        size_t failed = 0;
        if (!run_predicates(program, gathered, &failed)) return false;
    }
    *inputs_out = gathered.inputs;
    gathered.inputs = nullptr;
    return true;
}

}  // namespace framehook
