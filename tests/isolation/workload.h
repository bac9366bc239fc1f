// workload.h - random transactions on one index by many user threads; all answers are recorded.
//
// Concepts   The first eight bytes of a row are the number of the write that made it. The rest
//            follows from its key, so a mixture of two rows is noticed. Keys have Zipf's skew.
//            Threads yield between operations, so that transactions mix on one worker too.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include <lockstep/key.h>
#include "tests/isolation/history.h"
#include "threads/base/rng.h"
#include "threads/base/try.h"

namespace lockstep::isolation {

// Draws ranks 0..n-1 with odds proportional to 1 / (r+1)^theta for rank r; theta < 1. Source: J.
// Gray et al., "Quickly generating billion-record synthetic databases", 1994.
class Zipf {
public:
    Zipf(uint32_t n, double theta) : n_(n), theta_(theta) {
        for (uint32_t i = 1; i <= n; ++i) zeta_ += 1 / std::pow(i, theta);
        const double zeta2 = 1 + (n > 1 ? 1 / std::pow(2, theta) : 0);
        eta_ = (1 - std::pow(2.0 / n, 1 - theta)) / (1 - zeta2 / zeta_);
    }
    uint32_t draw(Rng& rng) const {
        const double u = static_cast<double>(rng.next() >> 11) * 0x1.0p-53, uz = u * zeta_;
        if (uz < 1 || n_ == 1) return 0;
        if (uz < 1 + std::pow(0.5, theta_) || n_ == 2) return 1;
        const auto rank =
            static_cast<uint32_t>(n_ * std::pow(eta_ * u - eta_ + 1, 1 / (1 - theta_)));
        return std::min(rank, n_ - 1);
    }

private:
    uint32_t n_;
    double theta_, zeta_ = 0, eta_ = 0;
};

struct WorkloadOptions {
    uint32_t keys = 100;
    double skew = 0.6;
    bool scattered = false;  // hot keys are not adjacent
    uint32_t threads = 24;
    uint32_t value_max = 120;
    double durable = 0.3;  // odds of a durable commit
};

class Workload {
public:
    Workload(Store& store, const Index& index, const WorkloadOptions& options)
        : store_(store), index_(index), options_(options), zipf_(options.keys, options.skew) {}

    // Fills the empty index with every second key.
    void load(Rng rng) {
        std::string key, value;
        uint32_t next = 0;
        const auto done = store_.run([&](Txn& txn) {
            return store_.bulk_load(txn, index_, [&](Slice& k, Slice& v) {
                if (next >= options_.keys) return false;
                Answer a{.kind = Answer::put, .key = next};
                key = Slice(name(next));
                value = text(a, rng);
                next += 2;
                k = key;
                v = value;
                return true;
            });
        });
        EXPECT_TRUE(done) << done.error().text();
    }
    // Runs about `count` transactions and returns when all have ended.
    std::vector<History> run(uint64_t seed, uint64_t count) {
        std::vector<std::vector<History>> parts(options_.threads);
        std::vector<Handle<void>> handles;
        for (uint32_t n = 0; n < options_.threads; ++n)
            handles.push_back(store_.start(
                [this, n, seed, count, &part = parts[n]]() -> Result<void> {
                    Rng rng = Rng(seed).fork(n);
                    for (uint64_t i = 0; i < count / options_.threads + 1; ++i)
                        part.push_back(TRY(transaction(rng)));
                    return {};
                },
                static_cast<int>(n % store_.options().workers)));
        for (auto& handle : handles) {
            const auto ended = handle.join();
            EXPECT_TRUE(ended) << ended.error().text();
        }
        std::vector<History> all;
        for (auto& part : parts) std::ranges::move(part, std::back_inserter(all));
        return all;
    }
    // The whole index in order. No transaction may be active.
    Replay::State content() {
        Replay::State state;
        const auto done = store_.run([&](Txn& txn) -> Result<void> {
            Answer all{.kind = Answer::forward, .key = 0, .key_end = UINT32_MAX};
            TRY(scan(txn, all, SIZE_MAX));
            state.insert(all.rows.begin(), all.rows.end());
            return {};
        });
        EXPECT_TRUE(done) << done.error().text();
        return state;
    }

private:
    Result<History> transaction(Rng& rng) {
        History history;
        history.isolation = rng.chance(0.8)   ? Isolation::serializable
                            : rng.chance(0.5) ? Isolation::repeatable_read
                                              : Isolation::read_committed;
        Txn txn = TRY(store_.begin(
            {.isolation = history.isolation,
             .durability = rng.chance(options_.durable) ? Durability::durable : Durability::lazy}));
        std::optional<Savepoint> point;
        Result<void> done;
        for (uint64_t n = 1 + rng.below(10); n > 0 && done; --n) {
            done = operation(txn, history, point, rng);
            if (rng.chance(0.4)) yield();
        }
        if (!done && done.error().code != ErrorCode::deadlock) return std::unexpected(done.error());
        const bool commits = done && !rng.chance(0.1);
        history.place = places_.fetch_add(1);  // the transaction holds all its locks now
        history.committed = commits;
        if (!commits) TRY(txn.abort());
        else TRY(txn.commit());
        return history;
    }

    Result<void> operation(Txn& txn, History& history, std::optional<Savepoint>& point, Rng& rng) {
        static constexpr Answer::Kind kKinds[] = {
            Answer::get,    Answer::get,     Answer::get,      Answer::insert,    Answer::insert,
            Answer::update, Answer::update,  Answer::put,      Answer::erase,     Answer::erase,
            Answer::patch,  Answer::forward, Answer::backward, Answer::savepoint, Answer::rollback};
        Answer a{.kind = kKinds[rng.below(std::size(kKinds))], .key = key(rng)};
        switch (a.kind) {
            case Answer::get: {
                static constexpr Access kAccess[] = {Access::read, Access::read, Access::update,
                                                     Access::write};
                std::string text;
                a.found = TRY(index_.get(txn, name(a.key), text, kAccess[rng.below(4)]));
                if (a.found) a.value = number(a.key, text);
                break;
            }
            case Answer::insert: {
                const auto in = index_.insert(txn, name(a.key), text(a, rng));
                if (!in && in.error().code != ErrorCode::duplicate_key) return in;
                a.found = in.has_value();
                break;
            }
            case Answer::update:
                a.found = TRY(index_.update(txn, name(a.key), text(a, rng)));
                break;
            case Answer::put: TRY(index_.put(txn, name(a.key), text(a, rng))); break;
            case Answer::erase: a.found = TRY(index_.erase(txn, name(a.key))); break;
            case Answer::patch: {
                a.value = values_.fetch_add(1);
                a.found = TRY(
                    index_.patch(txn, name(a.key), 0,
                                 Slice(reinterpret_cast<const char*>(&a.value), sizeof(a.value))));
                break;
            }
            case Answer::forward:
            case Answer::backward:
                a.key_end = a.key + 1 + static_cast<uint32_t>(rng.below(30));
                TRY(scan(txn, a, rng.chance(0.5) ? SIZE_MAX : 1 + rng.below(10)));
                break;
            case Answer::savepoint: point = TRY(txn.savepoint()); break;
            case Answer::rollback:
                if (!point) return {};
                TRY(txn.rollback_to(*point));
                break;
        }
        history.answers.push_back(std::move(a));
        return {};
    }
    Result<void> scan(Txn& txn, Answer& a, size_t limit) {
        Cursor cursor = index_.scan(txn, name(a.key), name(a.key_end));
        while (a.rows.size() < limit &&
               TRY(a.kind == Answer::forward ? cursor.next() : cursor.prev())) {
            uint32_t key;
            std::memcpy(&key, cursor.key().data(), sizeof(key));
            key = __builtin_bswap32(key);
            a.rows.emplace_back(key, number(key, cursor.value()));
        }
        a.cut = a.rows.size() == limit;
        return {};
    }

    uint32_t key(Rng& rng) const {
        const uint32_t rank = zipf_.draw(rng);
        return options_.scattered ? static_cast<uint32_t>(rank * 2654435761ull % options_.keys)
                                  : rank;
    }
    static Key name(uint32_t key) { return Key().u32(key); }
    std::string text(Answer& a, Rng& rng) {
        a.value = values_.fetch_add(1);
        std::string text(8 + rng.below(options_.value_max + 1), ' ');
        std::memcpy(text.data(), &a.value, 8);
        for (size_t i = 8; i < text.size(); ++i) text[i] = static_cast<char>(a.key + i);
        return text;
    }
    static uint64_t number(uint32_t key, Slice text) {
        uint64_t value = 0;
        EXPECT_GE(text.size(), 8u);
        std::memcpy(&value, text.data(), std::min<size_t>(8, text.size()));
        size_t i = 8;
        while (i < text.size() && text[i] == static_cast<char>(key + i)) ++i;
        EXPECT_GE(i, text.size()) << "row of key " << key << " holds strange bytes";
        return value;
    }

    Store& store_;
    const Index index_;
    const WorkloadOptions options_;
    const Zipf zipf_;
    std::atomic<uint64_t> places_{1}, values_{1};
};

}  // namespace lockstep::isolation
