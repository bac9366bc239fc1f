// copy_stream.cc - see copy_stream.h.
#include "threads/io/copy_stream.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "threads/base/check.h"

namespace lockstep::threads {

namespace {

// From one step to the next; null behind the last buffer. It has room for all of them.
class Passage {
public:
    void push(CopyBuffer* buffer) {
        {
            const std::lock_guard guard(mutex_);
            DCHECK(count_ < waiting_.size());
            waiting_[(first_ + count_++) % waiting_.size()] = buffer;
        }
        pushed_.notify_one();
    }
    CopyBuffer* pop() {
        std::unique_lock guard(mutex_);
        pushed_.wait(guard, [this] { return count_ > 0; });
        DCHECK(first_ < waiting_.size() && count_ <= waiting_.size());
        --count_;
        return waiting_[std::exchange(first_, (first_ + 1) % waiting_.size())];
    }

private:
    std::mutex mutex_;
    std::condition_variable pushed_;
    std::array<CopyBuffer*, CopyStream::kBuffers + 1> waiting_{};  // from first_ on; under mutex_
    size_t first_ = 0, count_ = 0;
};

// The passages between the steps, and what became of each step.
struct Overlap {
    Passage free, full, checked;
    std::atomic<bool> over{false};  // the reader may end
    bool ended = false;             // the looker has had its last buffer
    Result<void> read, looked, written;

    void run_reader(CopyStream::Read step) {
        while (CopyBuffer* const buffer = free.pop()) {
            DCHECK(buffer->bytes != nullptr);
            if (over.load(std::memory_order_relaxed)) break;
            const Result<bool> more = step(*buffer);
            if (!more.has_value()) read = std::unexpected(more.error());
            if (!more.has_value() || !*more) break;
            DCHECK(buffer->size > 0 && buffer->size <= CopyBuffer::kBytes);
            full.push(buffer);
        }
        full.push(nullptr);
    }
    // Behind its end the buffers pass on, so that no step waits for one.
    void run_looker(CopyStream::Look step) {
        while (CopyBuffer* const buffer = full.pop()) {
            DCHECK(buffer->size > 0);
            buffer->dropped = ended;
            if (!ended) {
                const Result<bool> more = step(*buffer);
                if (!more.has_value()) looked = std::unexpected(more.error());
                buffer->dropped = !more.has_value();
                ended = !more.has_value() || !*more;
                if (ended) over.store(true, std::memory_order_relaxed);
            }
            DCHECK(!buffer->dropped || ended);
            checked.push(buffer);
        }
        checked.push(nullptr);
    }
    void run_writer(CopyStream::Write step) {
        while (CopyBuffer* const buffer = checked.pop()) {
            DCHECK(buffer->bytes != nullptr && buffer->size > 0);
            DCHECK(buffer->size <= CopyBuffer::kBytes);
            if (written && !buffer->dropped) {
                written = step(*buffer);
                if (!written) over.store(true, std::memory_order_relaxed);
            }
            free.push(buffer);
        }
    }
    // The writer's buffer came before the looker's, and the looker's before the reader's. What the
    // reader met behind the last buffer is no error.
    Result<void> outcome() const {
        DCHECK(looked || ended);
        if (!written) return written;
        return ended ? looked : read;
    }
};

// A kernel thread that runs `body` and is joined at the end.
template <class Body>
class Helper {
public:
    explicit Helper(Body body) : body_(std::move(body)) {}
    Helper(const Helper&) = delete;
    ~Helper() {
        DCHECK(!started_ || !pthread_equal(thread_, pthread_self()));
        if (started_) pthread_join(thread_, nullptr);
    }
    // False: the system refuses threads.
    bool start() {
        DCHECK(!started_);
        started_ = pthread_create(&thread_, nullptr, main, this) == 0;
        return started_;
    }

private:
    static void* main(void* self) {
        static_cast<Helper*>(self)->body_();
        return nullptr;
    }

    Body body_;
    pthread_t thread_{};
    bool started_ = false;
};

}  // namespace

CopyStream::CopyStream(CopySteps steps, AlignedBuffer memory)
    : steps_(steps), memory_(std::move(memory)) {
    DCHECK(memory_ != nullptr);
    for (size_t i = 0; i < kBuffers; ++i)
        buffers_[i].bytes = memory_.get() + i * CopyBuffer::kBytes;
}

Result<CopyStream> CopyStream::create(CopySteps steps) {
    return CopyStream(steps,
                      TRY(make_aligned_buffer(kBuffers * CopyBuffer::kBytes, PageSize::huge)));
}

Result<void> CopyStream::run(Read read, Look look, Write write) {
    DCHECK(memory_ != nullptr);
    return steps_ == CopySteps::overlap ? overlap(read, look, write) : alternate(read, look, write);
}

Result<void> CopyStream::alternate(Read read, Look look, Write write) {
    CopyBuffer& buffer = buffers_[0];
    DCHECK(buffer.bytes == memory_.get() && buffer.bytes != nullptr);
    for (bool more = true; more;) {
        if (!TRY(read(buffer))) break;
        DCHECK(buffer.size > 0 && buffer.size <= CopyBuffer::kBytes);
        more = TRY(look(buffer));
        TRY(write(buffer));
    }
    return {};
}

Result<void> CopyStream::overlap(Read read, Look look, Write write) {
    DCHECK(steps_ == CopySteps::overlap && buffers_[0].bytes == memory_.get());
    Overlap steps;
    for (CopyBuffer& buffer : buffers_) steps.free.push(&buffer);
    Helper looker([&] { steps.run_looker(look); });
    Helper reader([&] { steps.run_reader(read); });
    if (!looker.start()) return alternate(read, look, write);
    if (!reader.start()) {
        steps.full.push(nullptr);
        steps.run_writer(write);
        return alternate(read, look, write);
    }
    steps.run_writer(write);
    return steps.outcome();
}

}  // namespace lockstep::threads
