// no_result.cc - must not compile: no function that it gives to the store returns a Result. The
// install test counts the explanations.
#include <lockstep/store.h>

void refused(lockstep::Store& store) {
    (void)store.run([](lockstep::Txn&) {});
    (void)store.spawn([](lockstep::Txn&) { return 1; });
    (void)store.start([] { return lockstep::Error{}; });
}
