// lock_mode.cc - names of lock modes, made at compile time for all 128 sets of rights.
#include "txn/lock/lock_mode.h"

namespace lockstep::txn {
namespace {

struct ModeNames {
    char text[128][48] = {};

    constexpr ModeNames() {
        for (unsigned m = 0; m < 128; ++m) {
            unsigned at = 0;
            unsigned rest = m;
            const auto add = [&](const char* token) {
                if (at) text[m][at++] = '+';
                while (*token) text[m][at++] = *token++;
            };
            if (m == 0) add("none");
            const unsigned six = static_cast<unsigned>(LockMode::SIX);
            if ((rest & six) == six) {
                add("SIX");
                rest &= ~six;
            }
            constexpr const char* kRights[] = {"IS", "IX", "S", "U", "X", "gap_read", "gap_insert"};
            for (unsigned bit = 0; bit < 7; ++bit)
                if (rest & (1u << bit)) add(kRights[bit]);
        }
    }
};
constexpr ModeNames kNames;

}  // namespace

const char* lock_mode_name(LockMode mode) { return kNames.text[static_cast<uint8_t>(mode) & 127]; }

}  // namespace lockstep::txn
