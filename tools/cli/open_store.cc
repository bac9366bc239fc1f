// open_store.cc - the sub-commands that open (and recover) the store: verify, dump.
#include <fmt/core.h>

#include <lockstep/store.h>
#include "threads/base/try.h"
#include "tools/cli/commands.h"

namespace lockstep::cli {
namespace {

Result<Store> open_existing(const std::string& path, uint64_t pool_bytes = 256ull << 20) {
    Options options;
    options.create = false;
    options.pool_bytes = pool_bytes;
    options.logger = [](int level, std::string_view text) {
        fmt::print(stderr, "{}: {}\n", level == 0 ? "error" : "note", text);
    };
    return Store::open(path, options);
}

// Bytes as people can read them: printable ones as they are, others as \xNN.
std::string readable(Slice bytes) {
    std::string out;
    for (const char c : bytes) {
        const auto u = static_cast<unsigned char>(c);
        if (u >= 0x20 && u < 0x7f && c != '\\') out += c;
        else out += fmt::format("\\x{:02x}", u);
    }
    return out;
}

}  // namespace

int verify(const std::string& path, uint64_t pool_bytes) {
    auto store = open_existing(path, pool_bytes);
    if (!store) return complain(path, store.error().text());
    const auto faults = store->verify();
    if (!faults) return complain(path, faults.error().text());
    for (const auto& fault : *faults) fmt::print("{}\n", fault);
    fmt::print("{}: {} pages, {} faults\n", path, store->stats().pages_total, faults->size());
    const auto closed = store->close();
    if (!closed) return complain(path, closed.error().text());
    return faults->empty() ? 0 : 1;
}

int dump_table(const std::string& path, const std::string& table, uint64_t limit) {
    auto store = open_existing(path);
    if (!store) return complain(path, store.error().text());
    uint64_t shown = 0;
    const auto print = [&](std::string_view id, Slice value) {
        fmt::print("{}\t{}\n", id, readable(value));
        return limit == 0 || ++shown < limit;
    };
    auto index = store->index(table);
    const auto done = store->run(
        [&](Txn& txn) -> Result<void> {
            if (index) {
                for (Cursor c = index->scan(txn); TRY(c.next());)
                    if (!print(readable(c.key()), c.value())) break;
                return {};
            }
            const Heap heap = TRY(store->heap(table));
            return heap.scan(txn, [&](RecordId id, Slice record) {
                return print(fmt::format("{}.{}", id.page.value, id.slot.value), record);
            });
        },
        {.isolation = Isolation::read_committed, .read_only = true});
    if (!done) return complain(path + ": " + table, done.error().text());
    return 0;
}

}  // namespace lockstep::cli
