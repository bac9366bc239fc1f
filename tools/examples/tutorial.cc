// tutorial.cc - the program of the tutorial: keeps measurements of sensors, and reads them.
//
// The comments with arrows mark the parts that the tutorial shows.
#include <lockstep/backup.h>
#include <lockstep/store.h>

#include <cstdio>
#include <string>

using namespace lockstep;

namespace {

// --8<-- [start:keys]
// memcmp orders the keys of an index. Key builds bytes that order as their parts do: first by
// sensor, then by time. A Key converts to a Slice, which is a std::string_view.
Key place(uint32_t sensor, uint64_t time) { return Key().u32(sensor).u64(time); }
// --8<-- [end:keys]

// --8<-- [start:write]
Result<void> add(Store& store, Txn& txn) {
    Index values = LOCKSTEP_TRY(store.open_or_create_index(txn, "values"));
    for (uint32_t sensor = 1; sensor <= 3; ++sensor)
        for (uint64_t time = 0; time < 10; ++time)
            LOCKSTEP_TRY(values.put(txn, place(sensor, time), std::to_string(sensor * 100 + time)));
    return {};
}
// --8<-- [end:write]

// --8<-- [start:read]
Result<void> read(Store& store, Txn& txn) {
    Index values = LOCKSTEP_TRY(store.index("values"));
    std::string value;
    if (LOCKSTEP_TRY(values.get(txn, place(2, 7), value)))
        std::printf("sensor 2 at 7: %s\n", value.c_str());
    // All of sensor 3 from time 8 on. The end of the range is not part of it.
    Cursor cursor = values.scan(txn, place(3, 8), place(4, 0));
    while (LOCKSTEP_TRY(cursor.next()))
        std::printf("sensor 3: %s\n", std::string(cursor.value()).c_str());
    return {};
}
// --8<-- [end:read]

// --8<-- [start:savepoint]
Result<void> correct(Store& store, Txn& txn) {
    Index values = LOCKSTEP_TRY(store.index("values"));
    LOCKSTEP_TRY(values.update(txn, place(1, 0), "corrected"));
    const Savepoint before = LOCKSTEP_TRY(txn.savepoint());
    LOCKSTEP_TRY(values.erase(txn, place(1, 1)));
    LOCKSTEP_TRY(txn.rollback_to(before));  // the erase is undone, the update stays
    return {};
}
// --8<-- [end:savepoint]

// --8<-- [start:errors]
// An error is a value. It names the thing, the reason and the numbers; run() rolls back and hands
// it on.
void refused(Store& store) {
    const Result<void> twice = store.run([&](Txn& txn) -> Result<void> {
        return LOCKSTEP_TRY(store.index("values")).insert(txn, place(1, 0), "again");
    });
    if (!twice && twice.error().code == ErrorCode::duplicate_key)
        std::printf("refused: %s\n", twice.error().text().c_str());
}
// --8<-- [end:errors]

// --8<-- [start:snapshot]
// A snapshot reads one moment. It takes no lock and waits for no transaction.
Result<uint64_t> count(Store& store) {
    return store.run(
        [&](Txn& txn) -> Result<uint64_t> {
            uint64_t n = 0;
            Cursor cursor = LOCKSTEP_TRY(store.index("values")).scan(txn);
            while (LOCKSTEP_TRY(cursor.next())) ++n;
            return n;
        },
        {.isolation = Isolation::snapshot});
}
// --8<-- [end:snapshot]

// --8<-- [start:concurrent]
// A hundred transactions at once, each on a user thread of the store. A wait for a lock or for the
// log suspends the user thread; the kernel thread runs the others meanwhile.
Result<void> add_at_once(Store& store) {
    Handle<void> handles[100];
    for (uint64_t time = 0; time < 100; ++time)
        handles[time] = store.spawn([&store, time](Txn& txn) -> Result<void> {
            return LOCKSTEP_TRY(store.index("values")).put(txn, place(9, time), "spawned");
        });
    for (auto& handle : handles) LOCKSTEP_TRY(handle.join());
    return {};
}
// --8<-- [end:concurrent]

// --8<-- [start:backup]
Result<void> back_up(Store& store, const std::string& directory) {
    const BackupInfo made = LOCKSTEP_TRY(store.backup(directory));
    std::printf("backup of %llu pages\n", static_cast<unsigned long long>(made.pages));
    const auto faults = LOCKSTEP_TRY(verify_backup(directory));
    for (const std::string& fault : faults) std::puts(fault.c_str());
    return {};
}
// --8<-- [end:backup]

}  // namespace

// --8<-- [start:main]
int main(int argc, char** argv) {
    const std::string directory = argc > 1 ? argv[1] : "tutorial.db";
    Result<Store> store = Store::open(directory);
    if (!store) return std::puts(store.error().text().c_str()), 1;
    const auto work = [&]() -> Result<void> {
        LOCKSTEP_TRY(store->run([&](Txn& txn) { return add(*store, txn); }));
        LOCKSTEP_TRY(store->run([&](Txn& txn) { return read(*store, txn); }));
        LOCKSTEP_TRY(store->run([&](Txn& txn) { return correct(*store, txn); }));
        refused(*store);
        LOCKSTEP_TRY(add_at_once(*store));
        std::printf("%llu values\n", static_cast<unsigned long long>(LOCKSTEP_TRY(count(*store))));
        LOCKSTEP_TRY(back_up(*store, directory + ".backup"));
        return store->close();
    };
    const Result<void> done = work();
    if (!done) std::puts(done.error().text().c_str());
    return done ? 0 : 1;
}
// --8<-- [end:main]
