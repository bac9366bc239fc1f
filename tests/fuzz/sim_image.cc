// sim_image.cc - making the base images once, and using what a fuzzer has made of them.
#include "tests/fuzz/sim_image.h"

#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz_input.h"
#include "threads/base/rng.h"

namespace lockstep::fuzz {

using threads::SimCrash;
using threads::SimDisk;

FuzzStore::FuzzStore(SimDisk& disk) : SimStore(disk) {
    Options& o = options();
    o.log_bytes = 4 << 20;
    o.transactions_max = 16;
    o.lock_timeout = 20 * kMillisecond;
    if (std::getenv("LOCKSTEP_FUZZ_VERBOSE"))
        o.logger = [](int, std::string_view text) {
            std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
        };
}

namespace {

Result<void> fill(Store& store) {
    Rng rng(7);
    for (int n = 0; n < 12; ++n) {
        TRY(store.run(
            [&](Txn& txn) -> Result<void> {
                const Index index = TRY(store.index("i"));
                const Heap heap = TRY(store.heap("h"));
                for (int k = 0; k < 20; ++k) {
                    const std::string value(rng.below(k == 7 ? 9000 : 300),
                                            static_cast<char>('a' + k));
                    TRY(index.put(txn, "key" + std::to_string(rng.below(400)), value));
                    const RecordId id = TRY(heap.insert(txn, Slice(value).substr(0, 500)));
                    if (k % 5 == 0) TRY(heap.update(txn, id, std::string(1500, 'z')));
                    if (k % 4 == 0) TRY(index.erase(txn, "key" + std::to_string(rng.below(400))));
                }
                return {};
            },
            {.durability = n % 2 ? Durability::durable : Durability::lazy}));
        if (n == 5) TRY(store.checkpoint());
    }
    return {};
}

std::unique_ptr<SimDisk> make_base(bool killed) {
    SimDisk disk;
    std::unique_ptr<SimDisk> result;
    {
        FuzzStore store(disk);
        CHECK(store.open());
        store.on_thread([&] {
            CHECK(store->run([&](Txn& txn) -> Result<void> {
                TRY(store->create_index(txn, "i"));
                TRY(store->create_heap(txn, "h"));
                return {};
            }));
            CHECK(fill(*store));
            // To be rolled back at restart.
            auto loser = store->begin({.durability = Durability::lazy});
            CHECK(loser);
            CHECK(store->index("i")->put(*loser, "loser", std::string(100, 'l')));
            CHECK(store->index("i")->erase(*loser, "key1").has_value());
            CHECK(store->run([&](Txn& txn) { return store->index("i")->put(txn, "last", "x"); }));
            if (killed) result = disk.image(1, SimCrash::keep_all);
            CHECK(loser->abort());
        });
        CHECK(store.close());
    }
    return killed ? std::move(result) : disk.image(1, SimCrash::keep_all);
}

}  // namespace

std::unique_ptr<SimDisk> base_image(bool killed) {
    static const std::unique_ptr<SimDisk> images[2] = {make_base(false), make_base(true)};
    return images[killed]->image(1, SimCrash::keep_all);
}

void open_and_use(SimDisk& disk) {
    FuzzStore store(disk);
    store.options().create = false;
    if (!store.open()) return;
    store.on_thread([&] {
        const auto index = store->index("i");
        const auto heap = store->heap("h");
        (void)store->run([&](Txn& txn) -> Result<void> {
            std::string value;
            if (index) {
                for (Cursor c = index->scan(txn); TRY(c.next());) use(std::string(c.value()));
                for (Cursor c = index->scan(txn, "key2"); TRY(c.prev());) use(std::string(c.key()));
            }
            if (heap)
                TRY(heap->scan(txn, [&](RecordId, Slice text) {
                    use(std::string(text));
                    return true;
                }));
            return {};
        });
        for (int n = 0; index && n < 40; ++n)
            (void)store->run(
                [&](Txn& txn) -> Result<void> {
                    const std::string key = "key" + std::to_string(n * 10);
                    TRY(index->put(txn, key, std::string(static_cast<size_t>(n) * 10, 'n')));
                    if (heap) TRY(heap->insert(txn, key));
                    if (n % 3 == 0) TRY(index->erase(txn, "key" + std::to_string(n)));
                    return {};
                },
                {.durability = Durability::lazy});
    });
    (void)store->verify();
    (void)store.close();
}

}  // namespace lockstep::fuzz
