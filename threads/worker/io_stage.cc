// io_stage.cc - packets in, batches out, results back.
#include "threads/worker/io_stage.h"

#include <cstring>

#include "threads/thread/thread.h"

namespace lockstep::threads {

namespace {

constexpr size_t kLog = static_cast<size_t>(IoClass::log),
                 kDemand = static_cast<size_t>(IoClass::demand_read),
                 kAhead = static_cast<size_t>(IoClass::read_ahead),
                 kWriteBack = static_cast<size_t>(IoClass::write_back);

size_t class_of(const IoRequest& request) { return static_cast<size_t>(request.io_class); }

bool place_before(const IoRequest& a, const IoRequest& b) {
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.file != b.file) return a.file < b.file;
    return a.offset < b.offset;
}

}  // namespace

// A transfer of neighbours. Its members are linked by `next`, in order of offset.
struct IoStage::Carrier {
    IoRequest request;
    iovec pieces[kIoPiecesMax];
    IoRequest* members = nullptr;
    Carrier* next_free = nullptr;
};

IoStage::IoStage(std::unique_ptr<IoQueue> queue, const Clock& clock)
    : queue_(std::move(queue)),
      clock_(clock),
      stage_({.capacity = kCapacity}),
      log_stage_({.capacity = kLogCapacity}),
      carriers_(new Carrier[kCarriers]) {
    for (uint32_t i = 0; i < kCarriers; ++i) {
        carriers_[i].next_free = carriers_free_;
        carriers_free_ = &carriers_[i];
    }
}

// Destroys the queue first: it may still touch requests on the device.
IoStage::~IoStage() { queue_.reset(); }

// Every admitted packet is in a line or on the device; the others are in awaiting_admission_.
inline void IoStage::assert_state() const {
    DCHECK(queued_ == lines_[kLog].length + lines_[kDemand].length + lines_[kAhead].length +
                          lines_[kWriteBack].length);
    DCHECK(on_device_[kDemand] <= kDemandMax && on_device_[kAhead] <= kReadAheadMax);
    DCHECK(on_device_[kWriteBack] <= kWriteBackMax);
    DCHECK(lines_[kLog].length + on_device_[kLog] <= kLogCapacity);
    DCHECK(queued_ - lines_[kLog].length + on_device_[kDemand] + on_device_[kAhead] +
               on_device_[kWriteBack] <=
           kCapacity);
    DCHECK((awaiting_admission_ == nullptr) == (awaiting_count_ == 0));
}

void IoStage::add(IoRequest& request) {
    assert_state();
    request.same = nullptr;
    request.alone = false;
    if (!stage_of(request).try_admit()) {
        if (current() == nullptr) {
            request.next = awaiting_admission_;
            awaiting_admission_ = &request;
            ++awaiting_count_;
            return;
        }
        stage_of(request).admit(kNever, ParkReason::io);
    }
    enter(request);
    if (mode_ == IoMode::one_by_one) return wait_alone(request);
    if (queued() >= kBatchMax) submit();
}

bool IoStage::try_add(IoRequest& request) {
    assert_state();
    if (!stage_of(request).try_admit()) return false;
    request.same = nullptr;
    request.alone = false;
    enter(request);
    return true;
}

void IoStage::enter(IoRequest& packet) {
    const size_t c = class_of(packet);
    packet.assert_state();
    DCHECK(packet.same == nullptr && !packet.alone);
    packets_[c].add();
    bytes_[c].add(io_bytes(packet));
    stage_of(packet).enqueue(lines_[c], packet, clock_.now());
    ++queued_;
}

// Completions run here, on the stack of the requester.
[[gnu::cold, gnu::noinline]] void IoStage::wait_alone(IoRequest& packet) {
    for (submit(); !packet.complete; submit()) queue_->wait(kNever);
}

// Admits the requests in awaiting_admission_, in order of arrival.
void IoStage::admit_waiting() {
    IoRequest* oldest = nullptr;
    for (IoRequest* r = std::exchange(awaiting_admission_, nullptr); r != nullptr;) {
        IoRequest* next = r->next;
        r->next = oldest;
        oldest = r;
        r = next;
    }
    awaiting_count_ = 0;
    for (IoRequest* r = oldest; r != nullptr;) {
        IoRequest* next = r->next;
        if (stage_of(*r).try_admit()) {
            enter(*r);
        } else {
            r->next = awaiting_admission_;
            awaiting_admission_ = r;
            ++awaiting_count_;
        }
        r = next;
    }
}

// Bit c: a packet of class c waits, and class c is below its limit on the device.
uint32_t IoStage::servable() const {
    const bool busy = on_device_[kLog] + on_device_[kDemand] > 0 || !lines_[kLog].empty() ||
                      !lines_[kDemand].empty();
    uint32_t bits = lines_[kLog].empty() ? 0 : 1u << kLog;
    if (!lines_[kDemand].empty() && on_device_[kDemand] < kDemandMax) bits |= 1u << kDemand;
    if (!lines_[kAhead].empty() && on_device_[kAhead] < kReadAheadMax) bits |= 1u << kAhead;
    if (!lines_[kWriteBack].empty() &&
        on_device_[kWriteBack] < (busy ? kWriteBackMaxBusy : kWriteBackMax))
        bits |= 1u << kWriteBack;
    return bits;
}

IoRequest* IoStage::take(size_t io_class, Nanos now) {
    IoRequest* packet = lines_[io_class].first;
    DCHECK(packet != nullptr && class_of(*packet) == io_class && queued_ > 0);
    stage_of(*packet).take(lines_[io_class], *packet, now);
    --queued_;
    ++on_device_[io_class];
    return packet;
}

bool IoStage::submit() {
    assert_state();
    if (awaiting_admission_ != nullptr) admit_waiting();
    uint32_t classes = servable();
    if (classes == 0) return false;
    const Nanos now = clock_.now();
    StageLine<IoRequest> taken[kIoClasses];
    uint64_t packets = 0;
    for (; classes != 0; classes = servable(), ++packets) {
        const size_t c = classes_.pick(classes);
        IoRequest* packet = take(c, now);
        (taken[c].last != nullptr ? taken[c].last->next : taken[c].first) = packet;
        taken[c].last = packet;
    }
    // IOS-3.
    DCHECK(on_device_[kDemand] <= kDemandMax && on_device_[kAhead] <= kReadAheadMax &&
           on_device_[kWriteBack] <= kWriteBackMax);
    stage_.served_together(packets);
    batches_.add();
    Batch batch;
    arrange_log(taken[kLog].first, batch);
    for (const size_t c : {kDemand, kAhead, kWriteBack}) arrange(taken[c].first, batch);
    depth_.record(on_device_[kLog] + on_device_[kDemand] + on_device_[kAhead] +
                  on_device_[kWriteBack]);
    DCHECK(batch.requests > 0 && batch.requests <= packets);
    DCHECK(batch.last->next == nullptr);
    queue_->submit(batch.first, batch.requests);
    return true;
}

// In order of arrival. One sync serves the following sync requests for its file in the batch.
void IoStage::arrange_log(IoRequest* packets, Batch& batch) {
    IoRequest* sync = nullptr;  // the newest sync
    for (IoRequest* next; packets != nullptr; packets = next) {
        next = packets->next;
        DCHECK(class_of(*packets) == kLog);
        const bool mergeable = packets->kind == IoKind::sync && mode_ == IoMode::staged;
        if (mergeable && sync != nullptr && sync->file == packets->file) {
            packets->same = std::exchange(sync->same, packets);
            merged_[kLog].add();
            continue;
        }
        if (mergeable) sync = packets;
        emit(*packets, batch);
    }
}

void IoStage::arrange(IoRequest* packets, Batch& batch) {
    if (packets == nullptr) return;
    if (mode_ == IoMode::staged && packets->next != nullptr)
        packets = sort_chain(packets, place_before);
    Run run;
    for (IoRequest *r = packets, *next; r != nullptr; r = next) {
        next = r->next;
        const bool equal = run.last != nullptr && mode_ == IoMode::staged &&
                           r->kind == IoKind::read && !place_before(*run.last, *r) &&
                           io_bytes(*run.last) == io_bytes(*r) && !r->alone;
        if (equal) {
            r->same = std::exchange(run.last->same, r);
            merged_[class_of(*r)].add();
            continue;
        }
        if (run.first != nullptr && !(mode_ == IoMode::staged && fits(run, *r)))
            close_run(run, batch);
        r->next = nullptr;
        (run.last != nullptr ? run.last->next : run.first) = r;
        run.last = r;
        run.bytes += io_bytes(*r);
        run.pieces += r->iov_count;
        ++run.packets;
    }
    close_run(run, batch);
}

bool IoStage::fits(const Run& run, const IoRequest& request) {
    const IoRequest &first = *run.first, &last = *run.last;
    return first.kind == request.kind && first.kind != IoKind::sync && !first.durable &&
           !request.durable && first.file == request.file &&
           last.offset + io_bytes(last) == request.offset && !first.alone && !request.alone &&
           run.pieces + request.iov_count <= kIoPiecesMax &&
           run.bytes + io_bytes(request) <= kCarrierBytes;
}

void IoStage::close_run(Run& run, Batch& batch) {
    DCHECK((run.packets == 0) == (run.first == nullptr));
    DCHECK(run.packets <= 1 || run.pieces <= kIoPiecesMax);
    if (run.packets > 1 && carriers_free_ != nullptr) {
        Carrier& carrier = *carriers_free_;
        carriers_free_ = carrier.next_free;
        joined_[class_of(*run.first)].add(run.packets - 1);
        emit_carrier(carrier, run, batch);
    } else {
        for (IoRequest *r = run.first, *next; r != nullptr; r = next) {
            next = r->next;
            emit(*r, batch);
        }
    }
    run = {};
}

void IoStage::append(IoRequest& request, Batch& batch) {
    request.next = nullptr;
    (batch.last != nullptr ? batch.last->next : batch.first) = &request;
    batch.last = &request;
    ++batch.requests;
}

// Submits a packet unchanged.
void IoStage::emit(IoRequest& packet, Batch& batch) {
    DCHECK(packet.done != on_done);  // once
    transfers_[class_of(packet)].add();
    packet.stage = this;
    packet.then = std::exchange(packet.done, on_done);
    append(packet, batch);
}

void IoStage::emit_carrier(Carrier& carrier, Run& run, Batch& batch) {
    IoRequest& request = carrier.request;
    const IoRequest& first = *run.first;
    request = {};
    request.kind = first.kind;
    request.io_class = first.io_class;
    request.file = first.file;
    request.offset = first.offset;
    request.many = carrier.pieces;
    request.done = on_carrier_done;
    request.user = &carrier;
    request.stage = this;
    carrier.members = run.first;
    for (const IoRequest* r = run.first; r != nullptr; r = r->next)
        for (uint32_t i = 0; i < r->iov_count; ++i) {
            const iovec& piece = io_pieces(*r)[i];
            iovec* last = request.iov_count > 0 ? &carrier.pieces[request.iov_count - 1] : nullptr;
            if (last != nullptr &&
                static_cast<std::byte*>(last->iov_base) + last->iov_len == piece.iov_base)
                last->iov_len += piece.iov_len;
            else carrier.pieces[request.iov_count++] = piece;
        }
    request.assert_state();
    DCHECK(io_bytes(request) == run.bytes);
    transfers_[class_of(request)].add();
    append(request, batch);
}

void IoStage::off_device(const IoRequest& request) {
    DCHECK(on_device_[class_of(request)] > 0);
    --on_device_[class_of(request)];
}

// The request has its result. Merged requests get a copy before the owner may reuse the memory.
void IoStage::deliver(IoRequest& request) {
    for (IoRequest *r = std::exchange(request.same, nullptr), *next; r != nullptr; r = next) {
        next = r->same;
        DCHECK(class_of(*r) == class_of(request) && r->kind == request.kind);
        DCHECK(r->file == request.file && r->offset == request.offset);
        r->result = request.result;
        if (r->kind == IoKind::read && request.result > 0)
            copy_pieces(request, *r, static_cast<uint64_t>(request.result));
        off_device(*r);
        stage_of(*r).finish();
        io_finish(*r);
    }
    off_device(request);
    stage_of(request).finish();
    io_finish(request);
}

void IoStage::on_done(IoRequest* request) {
    DCHECK(request->stage != nullptr && request->then != on_done);
    request->done = request->then;
    request->stage->deliver(*request);
}

void IoStage::on_carrier_done(IoRequest* request) {
    Carrier& carrier = *static_cast<Carrier*>(request->user);
    IoStage& stage = *request->stage;
    IoRequest* members = std::exchange(carrier.members, nullptr);
    const int64_t result = request->result;
    DCHECK(members != nullptr && result <= static_cast<int64_t>(io_bytes(*request)));
    carrier.next_free = std::exchange(stage.carriers_free_, &carrier);
    if (result < 0) stage.split_.add();
    int64_t before = 0;  // bytes of earlier members
    for (IoRequest *r = members, *next; r != nullptr; r = next) {
        next = r->next;
        // IOS-1: submitting each member alone shows which one is faulty.
        if (result < 0) {
            stage.off_device(*r);
            r->alone = true;
            ++stage.queued_;
            stage.stage_of(*r).requeue(stage.lines_[class_of(*r)], *r, stage.clock_.now());
            continue;
        }
        const auto bytes = static_cast<int64_t>(io_bytes(*r));
        // A read may have met the end of the file.
        r->result = std::clamp<int64_t>(result - before, 0, bytes);
        before += bytes;
        stage.deliver(*r);
    }
    DCHECK(before >= result);  // the members' bytes are the carrier's
    stage.assert_state();
}

// Many short sleeps cost more than they gain. With many requests on the device, a sleep ends when
// several have completed. Not while the log is written, because many threads wait for it.
size_t IoStage::wait(Nanos deadline) {
    queue_->gather(on_device_[kLog] > 0 ? 1 : queue_->in_flight() / kGatherShare);
    return queue_->wait(deadline);
}

void IoStage::add_stats(IoStats& stats) const {
    stats.stage.add(stage_.stats());
    stats.stage.add(log_stage_.stats());
    for (size_t c = 0; c < kIoClasses; ++c) {
        IoClassStats& s = stats.classes[c];
        s.packets += packets_[c].get();
        s.bytes += bytes_[c].get();
        s.merged += merged_[c].get();
        s.joined += joined_[c].get();
        s.transfers += transfers_[c].get();
    }
    stats.batches += batches_.get();
    stats.submissions += queue_->submissions();
    stats.split += split_.get();
    stats.depth.add(depth_.snapshot());
}

std::string IoStage::verify_idle() const {
    if (!idle()) return "the I/O stage is not empty";
    const std::string fault = stage_.verify(0, 0);
    return fault.empty() ? log_stage_.verify(0, 0) : fault;
}

}  // namespace lockstep::threads
