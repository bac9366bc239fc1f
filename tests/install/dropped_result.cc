// dropped_result.cc - must not compile: each line of main() drops an error. The install test counts
// the three refusals.
#include <lockstep/store.h>

int main() {
    auto store = lockstep::Store::open("never_opened");
    lockstep::Store::open("dropped");  // a Result<Store>
    store->checkpoint();               // a Result<void>
    store->run([](lockstep::Txn&) -> lockstep::Result<int> {
        return 1;
    });  // a Result<T> of the application
}
