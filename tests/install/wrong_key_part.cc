// wrong_key_part.cc - must not compile: each line of main() would make another key than it says.
// The install test counts the refusals.
#include <lockstep/key.h>

int main() {
    int number = 7;
    unsigned long wide = 7;
    lockstep::Key().u32(number);
    lockstep::Key().u8(wide);
    lockstep::Key().i64(wide);
    lockstep::Key().u32(-1);
    lockstep::Key().u8(256);
    lockstep::Key().u8('a');
    lockstep::Key().u8(true);
    lockstep::Key().i64(1.5);
    lockstep::Key().text(nullptr);
}
