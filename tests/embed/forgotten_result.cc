// forgotten_result.cc - must not compile with -Werror=unused-result: it drops a Result. Without
// FORGET it must.
#include <lockstep/store.h>

void checkpoint(lockstep::Store& store) {
#ifdef FORGET
    store.checkpoint();
#else
    (void)store.checkpoint();
#endif
}
