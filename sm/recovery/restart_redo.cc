// restart_redo.cc - repeats history: parts go from the log reader to partitions, one user thread
// each, on all workers.
//
// Concepts   A partition owns the pages whose number maps to it. So the parts of one page are
//            applied in log order without any further rule.
//            The first part of a page since the checkpoint brings the page with it (image or fresh:
//            PC-3). So redo does not read the volume's copy, which may be old, new or torn. It
//            reads the page only if the pool had to evict it again.
//            Batches of parts are copied out of the reader's buffer; a few batches per partition
//            bound the memory.
// Invariants RC-1 (recovery.h) A part is applied only if the page's lsn is below the record's end.
//                 A page whose state comes from its own part goes back to that record's time;
//                 everything after it is in the log as well.
// Blocking   feed() parks while a partition is behind; partitions park for pages.
#include <atomic>

#include "sm/buffer/buffer_pool.h"
#include "sm/recovery/recovery_parts.h"
#include "sm/space/space_map.h"
#include "threads/base/check.h"
#include "threads/base/memory_reserve.h"

namespace lockstep::sm {

namespace {

constexpr uint32_t kPartitionsPerWorker = 4, kBatchesAhead = 4;
constexpr size_t kBatchBytes = 64 * 1024;

// A part in a batch; image and payload follow, each padded to 8 bytes.
struct Item {
    uint64_t begin, end;
    uint32_t page, image_bytes, payload_bytes;
    uint8_t action, flags;
    uint16_t unused;
};
static_assert(sizeof(Item) % 8 == 0 && std::is_trivially_copyable_v<Item>);

struct Batch {
    Batch* next = nullptr;
    std::vector<std::byte> bytes;
};

struct Partition {
    SpinLock lock;
    Batch* first = nullptr;  // under lock: full batches, oldest first
    Batch* last = nullptr;
    Batch* spare = nullptr;       // under lock: empty ones
    bool closed = false;          // under lock: nothing follows
    threads::Semaphore ready{0};  // full batches, and one for the end
    threads::Semaphore free_batches{kBatchesAhead};
    Batch* filling = nullptr;  // the reader's

    void assert_state() const {  // under lock
        DCHECK((first == nullptr) == (last == nullptr));
        DCHECK(last == nullptr || last->next == nullptr);
    }
};

}  // namespace

struct ParallelRedo::Impl {
    RestartEnv& env;
    RecoveryReport& report;
    std::vector<std::unique_ptr<Batch>> batches;
    std::vector<std::unique_ptr<Partition>> partitions;
    threads::Semaphore done{0};
    size_t started = 0;
    std::atomic<bool> failed{false};
    SpinLock error_lock;
    Error error{};  // the first; under error_lock
    std::atomic<uint64_t> parts{0};
    uint64_t file_pages = 0;  // the volume is known to be at least that long
    uint64_t reads_before = 0;

    Impl(RestartEnv& e, RecoveryReport& r) : env(e), report(r) {}
    Batch* take_spare(Partition& partition);
    void send(Partition& partition);
    void run(Partition& partition);
    Result<void> apply(const Batch& batch);
    Result<bool> apply(const Item& item, const PartView& part);
    void note(const Error& e) {
        SpinGuard guard(error_lock);
        if (!failed.exchange(true)) error = e;
    }
};

ParallelRedo::ParallelRedo(RestartEnv& env, RecoveryReport& report)
    : impl_(std::make_shared<Impl>(env, report)) {}
ParallelRedo::~ParallelRedo() = default;

Result<void> ParallelRedo::start() {
    Impl& r = *impl_;
    const uint32_t workers = r.env.runtime->workers();
    r.reads_before = r.env.pool->stats().reads;
    for (uint32_t i = 0; i < workers * kPartitionsPerWorker; ++i) {
        TRY(MemoryReserve::require());
        auto partition = std::make_unique<Partition>();
        for (uint32_t b = 0; b < kBatchesAhead + 2; ++b) {
            r.batches.push_back(std::make_unique<Batch>());
            r.batches.back()->next = std::exchange(partition->spare, r.batches.back().get());
        }
        partition->filling = r.take_spare(*partition);
        r.partitions.push_back(std::move(partition));
    }
    for (uint32_t i = 0; i < r.partitions.size(); ++i) {
        // The shared pointer keeps everything alive if start or the reader fails half-way.
        auto spawned = r.env.runtime->spawn(i % workers, "redo",
                                            [impl = impl_, i] { impl->run(*impl->partitions[i]); });
        if (!spawned) {
            r.note(spawned.error());
            (void)finish();
            return std::unexpected(spawned.error());
        }
        ++r.started;
    }
    return {};
}

Batch* ParallelRedo::Impl::take_spare(Partition& partition) {
    SpinGuard guard(partition.lock);
    Batch* batch = partition.spare;
    CHECK(batch);  // bounded by `free_batches`
    partition.spare = batch->next;
    batch->next = nullptr;
    DCHECK(batch->bytes.empty());
    return batch;
}

// Hands the batch being filled to the partition.
void ParallelRedo::Impl::send(Partition& partition) {
    partition.free_batches.acquire(1, kNever, threads::ParkReason::event);
    {
        SpinGuard guard(partition.lock);
        partition.assert_state();
        DCHECK(!partition.closed && partition.filling->next == nullptr);
        (partition.last ? partition.last->next : partition.first) = partition.filling;
        partition.last = partition.filling;
    }
    partition.ready.release();
    partition.filling = take_spare(partition);
}

Result<void> ParallelRedo::feed(const txn::LogRecordView& record) {
    Impl& r = *impl_;
    if (record.header->kind < txn::kSmLogKindFirst) return {};
    uint32_t cursor = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) {
        if (part.page.value >= r.file_pages) {
            // The crash may have lost the file's length.
            TRY(r.env.space->ensure_size(part.page));
            r.file_pages = r.env.space->pages_total();
        }
        Partition& partition =
            *r.partitions[(part.page.value * 0x9e3779b1u >> 8) % r.partitions.size()];
        std::vector<std::byte>& bytes = partition.filling->bytes;
        const Item item{record.lsn.value,
                        record.end().value,
                        part.page.value,
                        static_cast<uint32_t>(part.image.size()),
                        static_cast<uint32_t>(part.payload.size()),
                        static_cast<uint8_t>(part.action),
                        part.flags,
                        0};
        size_t at = bytes.size();
        bytes.resize(at + sizeof item + txn::log_align(item.image_bytes) +
                     txn::log_align(item.payload_bytes));
        DCHECK(at % 8 == 0 && item.begin < item.end);
        std::memcpy(&bytes[at], &item, sizeof item);
        at += sizeof item;
        if (item.image_bytes) std::memcpy(&bytes[at], part.image.data(), item.image_bytes);
        at += txn::log_align(item.image_bytes);
        if (item.payload_bytes) std::memcpy(&bytes[at], part.payload.data(), item.payload_bytes);
        if (bytes.size() >= kBatchBytes) r.send(partition);
    }
    if (r.failed.load(std::memory_order_relaxed)) {
        SpinGuard guard(r.error_lock);
        return std::unexpected(r.error);
    }
    return {};
}

Result<void> ParallelRedo::finish() {
    Impl& r = *impl_;
    for (auto& partition : r.partitions) {
        if (!partition->filling->bytes.empty() && !r.failed.load()) r.send(*partition);
        {
            SpinGuard guard(partition->lock);
            partition->closed = true;
        }
        partition->ready.release();
    }
    DCHECK(r.started <= r.partitions.size());
    r.done.acquire(r.started, kNever, threads::ParkReason::event);
    r.report.parts_redone = r.parts.load();
    r.report.pages_read = r.env.pool->stats().reads - r.reads_before;
    if (!r.failed.load()) return {};
    return std::unexpected(r.error);
}

void ParallelRedo::Impl::run(Partition& partition) {
    for (;;) {
        partition.ready.acquire(1, kNever, threads::ParkReason::event);
        Batch* batch;
        {
            SpinGuard guard(partition.lock);
            partition.assert_state();
            batch = partition.first;
            if (!batch && partition.closed) break;
            CHECK(batch);
            partition.first = batch->next;
            if (!partition.first) partition.last = nullptr;
        }
        if (!failed.load(std::memory_order_relaxed)) {
            if (auto applied = apply(*batch); !applied) note(applied.error());
        }
        DCHECK(!batch->bytes.empty());
        batch->bytes.clear();
        {
            SpinGuard guard(partition.lock);
            batch->next = std::exchange(partition.spare, batch);
        }
        partition.free_batches.release();
        threads::yield();  // the other partitions and the reader of this worker
    }
    done.release();
}

Result<void> ParallelRedo::Impl::apply(const Batch& batch) {
    uint64_t applied = 0;
    for (size_t at = 0; at < batch.bytes.size();) {
        Item item;
        std::memcpy(&item, &batch.bytes[at], sizeof item);
        at += sizeof item;
        PartView part{PageId{item.page},
                      static_cast<PageAction>(item.action),
                      item.flags,
                      {reinterpret_cast<const char*>(batch.bytes.data() + at), item.image_bytes},
                      {}};
        at += txn::log_align(item.image_bytes);
        part.payload = {reinterpret_cast<const char*>(batch.bytes.data() + at), item.payload_bytes};
        at += txn::log_align(item.payload_bytes);
        DCHECK(at <= batch.bytes.size());
        applied += TRY(apply(item, part));
    }
    parts.fetch_add(applied, std::memory_order_relaxed);
    return {};
}

Result<bool> ParallelRedo::Impl::apply(const Item& item, const PartView& part) {
    BufferPool& pool = *env.pool;
    const bool brings_page = (part.flags & kPartFresh) || !part.image.empty();
    const bool known = !brings_page || pool.resident(part.page) != nullptr;
    if (!known) pool.written_lsns().forget(part.page);  // LW-3
    ExclusivePage page = TRY(known ? pool.fix_exclusive(part.page) : pool.fix_new(part.page));
    if (!TRY(redo_part(*page.mutable_page(), known, part, Lsn{item.end}))) return false;
    DCHECK(page->id() == part.page);
    pool.mark_dirty(page, Lsn{item.begin}, Lsn{item.end});
    // As the forward path does: its content is of no use.
    if (part.action == PageAction::page_free) pool.drop(std::move(page));
    return true;
}

}  // namespace lockstep::sm
