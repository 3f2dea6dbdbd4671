// How long calls take: a few samples for each function, so that nobody pays for them.
#pragma once

#include <cstdint>
#include <vector>

#include "cpython.h"

namespace framehook {

// Monotonic time in nanoseconds.
int64_t clock_now();

// The first few calls are measured, and then one of each 64.
inline bool is_sampled(uint64_t calls) {
    return calls < 8 || (calls & 63) == 0;
}

struct Sample {
    uint64_t lookup;  // number of the lookup that it was
    int64_t nanoseconds;
};

// The last samples of one kind, and all of them summed up.
class Timing {
  public:
    void add(uint64_t lookup, int64_t nanoseconds);
    void clear();
    // (count, seconds in all, least seconds, [(lookup, seconds), ...])
    PyObject* describe() const;

  private:
    static constexpr size_t most_samples = 128;

    uint64_t count_ = 0;
    int64_t total_ = 0;
    int64_t least_ = 0;
    std::vector<Sample> samples_;  // a ring once it is full
};

}  // namespace framehook
