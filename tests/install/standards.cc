// standards.cc - an application in C++20 or later, with macros of its own that have common names.
// The install test builds it with each compiler and standard, warnings being errors, and runs it.
#define TRY(x) this application has a TRY of its own
#define CHECK(x) this application has a CHECK of its own
#define X this application has an X of its own
#include <lockstep/coroutine.h>
#include <lockstep/store.h>
#include <lockstep/sync.h>

#include <coroutine>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

using namespace lockstep;

namespace {

Result<int> half(int n) {
    if (n % 2 != 0) return fail(ErrorCode::bad_argument, "odd number", static_cast<uint64_t>(n));
    return n / 2;
}
Result<int> quarter(int n) { return LOCKSTEP_TRY(half(LOCKSTEP_TRY(half(n)))); }
Result<std::unique_ptr<int>> boxed(int n) { return std::make_unique<int>(LOCKSTEP_TRY(half(n))); }

bool is_wide(RecordId, Slice record) { return record.size() > 100; }

// A coroutine that runs by itself.
struct Detached {
    struct promise_type {
        Detached get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};

Detached sum_up(Store& store, Channel<Resume>& loop, Channel<int>& sums) {
    auto first = store.start([]() -> Result<int> { return half(40); });
    auto second = store.start([]() -> Result<int> { return half(4); });
    const Result<int> on_worker = co_await first;
    const Result<int> on_loop =
        co_await resume_on(second, [&](Resume resume) { (void)loop.send(resume); });
    (void)sums.send(on_worker.value_or(0) + on_loop.value_or(0));
}

// Continuations in each form; main() runs the loop.
Result<void> follow(Store& store) {
    Channel<Resume> loop(1);
    Channel<int> sums(1);
    sum_up(store, loop, sums);
    (*LOCKSTEP_TRY(loop.receive()))();
    if (LOCKSTEP_TRY(sums.receive()) != 22) return fail(ErrorCode::bad_argument, "wrong sum");
    auto handle = store.start([]() -> Result<std::unique_ptr<int>> { return boxed(8); });
    LOCKSTEP_TRY(
        handle.then([&sums, kept = std::make_unique<int>(1)](Result<std::unique_ptr<int>> box) {
            (void)sums.send(box ? **box + *kept : 0);
        }));
    LOCKSTEP_TRY(handle.cancel());
    LOCKSTEP_TRY(sums.receive());
    if (handle.try_join().value() || cancel_requested()) return fail(ErrorCode::unsupported);
    return {};
}

Result<void> work(const char* path) {
    Store store = LOCKSTEP_TRY(Store::open(path));
    LOCKSTEP_TRY(store.run([&](Txn& txn) -> Result<void> {
        const Index index = LOCKSTEP_TRY(store.open_or_create_index(txn, "numbers"));
        int n = 0;
        std::string key, value;
        LOCKSTEP_TRY(store.bulk_load(txn, index, [&](Slice& k, Slice& v) {
            key = Key().u32(static_cast<uint32_t>(n));
            value = std::to_string(n);
            k = key, v = value;
            return n++ < 1000;
        }));
        const Heap heap = LOCKSTEP_TRY(store.open_or_create_heap(txn, "records"));
        LOCKSTEP_TRY(heap.insert(txn, std::string(101, 'w')));
        return heap.scan(txn, is_wide);
    }));
    const Index index = LOCKSTEP_TRY(store.index("numbers"));
    std::vector<Handle<std::string>> handles;
    for (uint32_t n = 0; n < 8; ++n)
        handles.push_back(store.spawn([=, owned = std::make_unique<uint32_t>(n)](Txn& txn) {
            std::string value;
            const Result<bool> found = index.get(txn, Key().u32(*owned), value);
            return found.has_value() && *found ? Result<std::string>(value)
                                               : fail(ErrorCode::no_such_record);
        }));
    for (uint32_t n = 0; n < 8; ++n)
        if (LOCKSTEP_TRY(handles[n].join()) != std::to_string(n))
            return fail(ErrorCode::no_such_record, "wrong value", n);
    LOCKSTEP_TRY(follow(store));
    const Result<void> lost =
        store.run([](Txn&) -> Result<void> { return fail(ErrorCode::io_error); });
    if (lost || lost.error().code != ErrorCode::io_error) return fail(ErrorCode::unsupported);
    return store.close();
}

}  // namespace

int main(int, char** argv) {
    if (quarter(12).value_or(0) != 3 || quarter(6) || **boxed(8) != 4) return 2;
    const Result<void> done = work(argv[1]);
    if (!done) std::puts(done.error().text().c_str());
    return done ? 0 : 1;
}
