// version_table_sweep.cc - frees versions that no snapshot needs, and makes room beyond the limit.
#include "sm/version/version_table.h"
#include "threads/base/limits.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

void VersionTable::drop(VersionGroup& group) {
    {
        Queue& queue = queues_[group.queue];
        const SpinGuard guard(queue.lock);
        queue.remove(group);
    }
    dispose(&group);
}

void VersionTable::dispose(VersionGroup* group) {
    const size_t bytes = group->bytes;
    DCHECK(bytes_.load() >= VersionPool::bytes_of(bytes));
    bytes_.fetch_sub(VersionPool::bytes_of(bytes), std::memory_order_relaxed);
    for (Version* v = group->first(); v != nullptr; v = group->next(*v)) {
        DCHECK(!v->linked && v->writer != nullptr);
        txn::Outcome::drop(v->writer);
    }
    const VersionPool::Taken memory{group, group->of_heap};
    const uint32_t taker = group->queue;
    group->~VersionGroup();
    // close() frees from outside.
    const uint32_t here = threads::current() != nullptr ? threads::worker_index() : workers_;
    pool_.give(taker, here, memory, bytes);
}

// Takes the group's versions that no snapshot needs out of their chains. Whether a writer is active
// is read before the bounds of the snapshots: the commit record of one that is not has its place
// (snapshot_set.cc).
VersionTable::Fate VersionTable::judge(VersionGroup& group, Sweep& sweep) {
    const bool renewed = group.renewed.exchange(false, std::memory_order_relaxed);
    bool active = false, needed = false, free = false;
    for (Version* v = group.first(); v != nullptr; v = group.next(*v)) {
        VersionBucket& bucket = bucket_of(v->hash);
        const SpinGuard guard(bucket.lock);
        ++sweep.looked;
        if (!v->linked) continue;
        if (v->writer->active()) {
            active = true;
        } else if (snapshots_.needs_before(*v->writer)) {
            needed = true;
        } else {
            bucket.unlink(*v);
            ++sweep.unlinked;
            free = group.let_go();
        }
    }
    if (free) return Fate::free;
    return active || (needed && renewed) ? Fate::later : Fate::stays;
}

// VT-3. Groups with a version whose writer has not ended, and those renewed since they were queued,
// go to the end of the queue, so they hold up none. A group stays first that a writer has just
// dropped: the writer waits for the queue.
size_t VersionTable::sweep_queue(Queue& queue, size_t most) {
    DCHECK(most != 0);
    Sweep sweep;
    VersionGroup* gone = nullptr;
    {
        const SpinGuard guard(queue.lock);
        while (sweep.looked < most && queue.first != nullptr) {
            VersionGroup& group = *queue.first;
            const Fate fate = judge(group, sweep);
            if (fate == Fate::stays) break;
            queue.remove(group);
            if (fate == Fate::later) {
                queue.push(group, group);
                continue;
            }
            group.behind = gone;
            gone = &group;
        }
    }
    while (gone != nullptr) {
        VersionGroup* const next = gone->behind;
        dispose(gone);
        gone = next;
    }
    return sweep.unlinked;
}

size_t VersionTable::sweep(size_t most) {
    size_t freed = 0;
    for (uint32_t i = 0; queues_ && i < workers_; ++i) freed += sweep_queue(queues_[i], most);
    return freed;
}

void VersionTable::keep_key(const RecordName& name) {
    if (erased_.add(name.object, name.key) && bytes() > limit_) [[unlikely]]
        relieve();
}

size_t VersionTable::sweep_keys(size_t most) {
    return erased_.sweep(most, [this](const RecordName& name) { return has(name); });
}

// VT-4.
void VersionTable::relieve() {
    DCHECK(queues_ != nullptr && period_.load() != 0);
    if (sweep(limits::versions_relieved()) + sweep_keys(limits::versions_relieved()) != 0 ||
        bytes() <= limit_)
        return;
    if (!expel_oldest()) give_up();
}

bool VersionTable::expel_oldest() {
    const bool expelled = snapshots_.expel_oldest();
    if (expelled) expelled_.fetch_add(1, std::memory_order_relaxed);
    return expelled;
}

// A snapshot that gets its place meanwhile looks at incomplete_ behind that. It sees the mark, or
// it is expelled here.
void VersionTable::give_up() {
    incomplete_.store(true);
    while (expel_oldest()) {}
}

}  // namespace lockstep::sm
