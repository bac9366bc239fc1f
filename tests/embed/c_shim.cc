// c_shim.cc - the functions of c_shim.h over the C++ interface.
#include <embed/c_shim.h>

#include <lockstep/store.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;

struct lockstep_store {
    Store store;
    Index table;
};

namespace {

// The text belongs to the kernel thread that calls. So it is set after run() has returned, and
// never on a user thread.
thread_local std::string last_error;

template <class T>
int report(const Result<T>& result) {
    if (result) return 0;
    last_error = result.error().text();
    return static_cast<int>(result.error().code);
}

void forget_values(lockstep_operation* operations, size_t count) {
    for (size_t n = 0; n < count; ++n)
        if (operations[n].kind == LOCKSTEP_GET)
            std::free(std::exchange(operations[n].value, nullptr));
}

Result<void> perform(const Index& table, Txn& txn, lockstep_operation& o) {
    const Slice key(o.key, o.key_bytes);
    std::string value;
    switch (o.kind) {
        case LOCKSTEP_INSERT: return table.insert(txn, key, {o.value, o.value_bytes});
        case LOCKSTEP_PUT: return table.put(txn, key, {o.value, o.value_bytes});
        case LOCKSTEP_ERASE: o.found = LOCKSTEP_TRY(table.erase(txn, key)); return {};
        case LOCKSTEP_GET: break;
        default: return fail(ErrorCode::bad_argument, "kind", static_cast<uint64_t>(o.kind));
    }
    o.found = LOCKSTEP_TRY(table.get(txn, key, value));
    o.value_bytes = value.size();
    o.value = static_cast<char*>(std::malloc(value.size() + 1));
    if (o.value == nullptr) return fail(ErrorCode::out_of_memory, "value");
    std::memcpy(o.value, value.c_str(), value.size() + 1);
    return {};
}

}  // namespace

extern "C" {

lockstep_store* lockstep_open(const char* path) {
    Result<Store> store = Store::open(path);
    if (report(store) != 0) return nullptr;
    Result<Index> table = store->run(
        [&](Txn& txn) -> Result<Index> { return store->open_or_create_index(txn, "table"); });
    if (report(table) != 0) return nullptr;
    return new lockstep_store{std::move(*store), *table};
}

int lockstep_close(lockstep_store* store) {
    const int status = report(store->store.close());
    delete store;
    return status;
}

int lockstep_apply(lockstep_store* store, lockstep_operation* operations, size_t count) {
    for (size_t n = 0; n < count; ++n)
        if (operations[n].kind == LOCKSTEP_GET) operations[n].value = nullptr;
    const int status = report(store->store.run([&](Txn& txn) -> Result<void> {
        forget_values(operations, count);  // of an attempt that a deadlock has ended
        for (size_t n = 0; n < count; ++n) LOCKSTEP_TRY(perform(store->table, txn, operations[n]));
        return {};
    }));
    if (status != 0) forget_values(operations, count);
    return status;
}

int lockstep_scan(lockstep_store* store, const char* low, size_t low_bytes,
                  int (*each)(void*, const char*, size_t, const char*, size_t), void* context) {
    // A callback of another language needs a large stack, and may block: it runs on the caller's.
    std::string from(low, low_bytes);
    for (bool more = true; more;) {
        std::vector<std::pair<std::string, std::string>> rows;
        const int status = report(store->store.run([&](Txn& txn) -> Result<void> {
            rows.clear();
            Cursor cursor = store->table.scan(txn, from);
            while (rows.size() < 256 && LOCKSTEP_TRY(cursor.next()))
                rows.emplace_back(cursor.key(), cursor.value());
            return {};
        }));
        if (status != 0) return status;
        for (const auto& [key, value] : rows)
            if (!each(context, key.data(), key.size(), value.data(), value.size())) return 0;
        more = rows.size() == 256;
        if (more) from = rows.back().first + '\0';  // the next possible key
    }
    return 0;
}

const char* lockstep_error_text(void) { return last_error.c_str(); }

void lockstep_free(char* value) { std::free(value); }

}  // extern "C"
