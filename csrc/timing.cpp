// Samples of how long calls take.
#include "timing.h"

#include <chrono>

namespace framehook {

int64_t clock_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

void Timing::add(uint64_t lookup, int64_t nanoseconds) {
    if (samples_.size() < most_samples) {
        samples_.push_back({lookup, nanoseconds});
    } else {
        samples_[count_ % most_samples] = {lookup, nanoseconds};
    }
    least_ = count_ == 0 || nanoseconds < least_ ? nanoseconds : least_;
    total_ += nanoseconds;
    count_++;
}

void Timing::clear() {
    *this = Timing();
}

PyObject* Timing::describe() const {
    constexpr double second = 1e-9;
    PyObject* samples = PyList_New(0);
    if (samples == nullptr) return nullptr;
    size_t size = samples_.size();
    size_t first = size < most_samples ? 0 : count_ % most_samples;  // the oldest
    for (size_t i = 0; i < size; i++) {
        const Sample& each = samples_[(first + i) % size];
        PyObject* pair = Py_BuildValue("(Kd)", each.lookup, static_cast<double>(each.nanoseconds) * second);
        if (pair == nullptr || PyList_Append(samples, pair) < 0) {
            Py_XDECREF(pair);
            Py_DECREF(samples);
            return nullptr;
        }
        Py_DECREF(pair);
    }
    return Py_BuildValue("(KddN)", count_, static_cast<double>(total_) * second,
                         static_cast<double>(least_) * second, samples);
}

}  // namespace framehook
