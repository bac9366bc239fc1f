// labels: sim model
// access_matrix_test.cc - each way to read or change a record beside each way to look at it: who
// waits, and what is seen before and after the first one's end.
//
// Concepts   Tables of calls, access modes, isolation levels and states of the record are crossed.
//            The oracle is the model in waits() and in Player: rights S, U and X with U
//            asymmetric, a snapshot takes none, and a read at read_committed meets only X. Where a
//            refused call may keep its lock, both answers count.
#include <cstring>

#include "tests/isolation/stage.h"

namespace lockstep::isolation::access_matrix_test {

constexpr const char* kOld = "old-value";
constexpr const char* kNew = "new-value";

// What a call of the table gets.
struct At {
    Txn& txn;
    const Index& index;
    const std::string& key;
    Access access;
    std::string& seen;
};

struct Call {
    const char* name;
    // What it does to a record that is there, and to one that is not.
    enum Effect : uint8_t { reads, changes, refused, adds, erases } present, absent;
    // True: the record was there, or has been added.
    Result<bool> (*make)(const At&);
};

ByteRange alter(std::span<std::byte> value) {
    std::memcpy(value.data(), kNew, 3);
    return {0, 3};
}
Cursor cursor_of(const At& at, std::string& end) {
    end = at.key + '\0';
    return at.index.scan(at.txn, at.key, end, at.access);
}

Result<bool> get_one(const At& at) { return at.index.get(at.txn, at.key, at.seen, at.access); }
Result<bool> get_many(const At& at) {
    std::byte room[2][32];
    const std::string other = at.key + " other";
    Lookup rows[2] = {{.key = other, .buffer = room[0]}, {.key = at.key, .buffer = room[1]}};
    const size_t found = TRY(at.index.get_many(at.txn, rows, at.access));
    EXPECT_EQ(found, rows[1].found);
    if (found) at.seen.assign(reinterpret_cast<const char*>(room[1]), rows[1].bytes);
    return found == 1;
}
Result<bool> next(const At& at) {
    std::string end;
    Cursor cursor = cursor_of(at, end);
    if (!TRY(cursor.next())) return false;
    at.seen = cursor.value();
    return true;
}
Result<bool> prev(const At& at) {
    std::string end;
    Cursor cursor = cursor_of(at, end);
    if (!TRY(cursor.prev())) return false;
    at.seen = cursor.value();
    return true;
}
constexpr Call kReads[] = {{"get", Call::reads, Call::reads, get_one},
                           {"get_many", Call::reads, Call::reads, get_many},
                           {"next", Call::reads, Call::reads, next},
                           {"prev", Call::reads, Call::reads, prev}};

Result<bool> insert(const At& at) {
    TRY(at.index.insert(at.txn, at.key, kNew));
    return true;
}
Result<bool> insert_many(const At& at) {
    const NewRecord records[] = {{at.key, kNew}};
    TRY(at.index.insert_many(at.txn, records));
    return true;
}
Result<bool> put(const At& at) {
    TRY(at.index.put(at.txn, at.key, kNew));
    return true;
}
Result<bool> update(const At& at) { return at.index.update(at.txn, at.key, kNew); }
Result<bool> patch(const At& at) { return at.index.patch(at.txn, at.key, 0, "new"); }
Result<bool> modify(const At& at) {
    std::byte room[32];
    return at.index.modify(at.txn, at.key, room, alter);
}
Result<bool> modify_many(const At& at) {
    std::byte room[32];
    Lookup rows[1] = {{.key = at.key, .buffer = room}};
    const auto change = [](size_t, std::span<std::byte> value) { return alter(value); };
    return TRY(at.index.modify_many(at.txn, rows, change)) == 1;
}
Result<bool> cursor_patch(const At& at) {
    std::string end;
    Cursor cursor = cursor_of(at, end);
    if (!TRY(cursor.next())) return false;
    return cursor.patch(0, "new");
}
Result<bool> erase(const At& at) { return at.index.erase(at.txn, at.key); }
constexpr Call kWrites[] = {{"insert", Call::refused, Call::adds, insert},
                            {"insert_many", Call::refused, Call::adds, insert_many},
                            {"put", Call::changes, Call::adds, put},
                            {"update", Call::changes, Call::refused, update},
                            {"patch", Call::changes, Call::refused, patch},
                            {"modify", Call::changes, Call::refused, modify},
                            {"modify_many", Call::changes, Call::refused, modify_many},
                            {"cursor.patch", Call::changes, Call::refused, cursor_patch},
                            {"erase", Call::erases, Call::refused, erase}};

enum class Before : uint8_t { present, absent, ghost };
// What a transaction has on the key; `unknown`: perhaps X, perhaps less.
enum class Right : uint8_t { none, S, U, X, unknown };
enum class Waits : uint8_t { no, yes, either };

Right right_of(Call::Effect effect, Isolation isolation, Access access) {
    if (isolation == Isolation::snapshot) return Right::none;
    if (effect == Call::refused) return Right::unknown;
    if (effect != Call::reads) return Right::X;
    if (access == Access::read)
        return isolation == Isolation::read_committed ? Right::none : Right::S;
    return access == Access::update ? Right::U : access == Access::write ? Right::X : Right::S;
}

struct Side {
    const Call* call;
    Isolation isolation;
    Access access;
    Call::Effect effect(bool there) const { return there ? call->present : call->absent; }
    bool refused_at_once() const {
        return isolation == Isolation::snapshot &&
               (call->present != Call::reads || access != Access::read);
    }
};

// The second transaction beside the first one.
Waits waits(const Side& first, const Side& second, bool there) {
    if (first.isolation == Isolation::snapshot || second.isolation == Isolation::snapshot)
        return Waits::no;
    const Call::Effect did = first.effect(there), wants = second.effect(there);
    const Right has = right_of(did, first.isolation, first.access);
    const bool looks = wants == Call::reads, changed = did != Call::reads && did != Call::refused;
    // Locks on what is not there depend on the level and the call.
    if (!there && !changed) {
        const bool gap = first.isolation == Isolation::serializable && did == Call::reads;
        if (wants == Call::adds && gap) return Waits::yes;
        return Waits::either;
    }
    if (changed) return Waits::yes;
    if (has == Right::unknown) return Waits::either;
    if (has == Right::none) return Waits::no;
    if (looks && second.access == Access::read) {
        if (has == Right::S) return Waits::no;
        // At read_committed, U is none of its business; X without a change may be.
        if (second.isolation == Isolation::read_committed)
            return has == Right::U ? Waits::no : Waits::either;
        return Waits::yes;
    }
    // A cursor that patches has the lock of its own access first.
    if (looks && second.access == Access::update) return has == Right::S ? Waits::no : Waits::yes;
    return Waits::yes;
}

constexpr Isolation kLevels[] = {Isolation::serializable, Isolation::repeatable_read,
                                 Isolation::read_committed, Isolation::snapshot};
constexpr Access kModes[] = {Access::read, Access::update, Access::write};

std::string told(const Side& side) {
    constexpr const char* kNames[] = {"serializable", "repeatable_read", "read_committed",
                                      "snapshot"};
    constexpr const char* kAccess[] = {"read", "update", "write"};
    return std::string(side.call->name) + " for " + kAccess[static_cast<int>(side.access)] +
           " at " + kNames[static_cast<int>(side.isolation)];
}

class Matrix {
public:
    void play(const Side& first, const Side& second, Before before, bool commits) {
        SCOPED_TRACE(told(first) + (commits ? ", which commits" : ", which aborts") + "; beside " +
                     told(second) + "; the record is " +
                     (before == Before::present  ? "there"
                      : before == Before::absent ? "not there"
                                                 : "a ghost"));
        prepare(before);
        const bool there = before == Before::present;
        std::optional<std::string> value = there ? std::optional<std::string>(kOld) : std::nullopt;
        // The snapshot of the second one is older than what the first one does.
        Actor& two = begin(second.isolation);
        Actor& one = begin(first.isolation);
        std::string seen_one;
        bool found_one = false;
        tell(one, first, seen_one, found_one);
        ASSERT_FALSE(one.busy());
        judge(first, one, there, found_one, seen_one, value);
        std::string seen;
        bool found = false;
        tell(two, second, seen, found);
        const Waits expected = waits(first, second, there);
        EXPECT_TRUE(expected == Waits::either || two.busy() == (expected == Waits::yes))
            << (two.busy() ? "waits" : "does not wait");
        waited_ += two.busy();
        const bool waits_on = two.busy();
        const auto after = commits ? effect_of(first, there, value) : value;
        if (!waits_on) judge(second, two, there, found, seen, value);
        if (waits_on) end(one, commits);
        if (waits_on) {
            ASSERT_FALSE(two.busy()) << "waits for nobody";
            judge(second, two, after.has_value(), found, seen, after);
        }
        end(two, true);
        if (one.in_transaction()) end(one, commits);
        // The second one changes what it met. Without a wait at most one of the two changes it.
        const auto& met = waits_on ? after : value;
        expect(changes(second, met.has_value()) ? effect_of(second, met.has_value(), met) : after);
        ++played_;
    }
    uint64_t played() const { return played_; }
    uint64_t waited() const { return waited_; }

private:
    static bool changes(const Side& side, bool there) {
        const Call::Effect effect = side.effect(there);
        return side.isolation != Isolation::snapshot && effect != Call::reads &&
               effect != Call::refused;
    }
    static std::optional<std::string> effect_of(const Side& side, bool there,
                                                std::optional<std::string> value) {
        if (!changes(side, there)) return value;
        if (side.effect(there) == Call::erases) return std::nullopt;
        return kNew;
    }
    void prepare(Before before) {
        if (cases_++ % 200 == 0) stage_.reset({{"a", "a"}, {"z", "z"}}, {});
        key_ = "k" + std::to_string(cases_);
        if (before == Before::absent) return;
        stage_.tell(stage_.someone(), [&](Actor& self) -> Result<void> {
            TRY(self.begin(Isolation::serializable));
            TRY(stage_.index().insert(self.txn(), key_, kOld));
            TRY(self.commit());
            if (before == Before::present) return {};
            TRY(self.begin(Isolation::serializable));
            TRY(stage_.index().erase(self.txn(), key_));
            return self.commit();
        });
    }
    Actor& begin(Isolation isolation) {
        Actor& actor = stage_.someone();
        actor.keeps_errors = true;
        stage_.tell(actor, [&](Actor& self) { return self.begin(isolation); });
        EXPECT_TRUE(actor.in_transaction());
        return actor;
    }
    void tell(Actor& actor, const Side& side, std::string& seen, bool& found) {
        stage_.tell(actor, [&](Actor& self) -> Result<void> {
            found = TRY(side.call->make({self.txn(), stage_.index(), key_, side.access, seen}));
            return {};
        });
    }
    // What a call that has ended tells of the record, which has this value.
    void judge(const Side& side, const Actor& actor, bool there, bool found,
               const std::string& seen, const std::optional<std::string>& value) {
        const Call::Effect effect = side.effect(there);
        if (side.refused_at_once()) {
            EXPECT_TRUE(actor.error() && actor.error()->code == ErrorCode::read_only)
                << (actor.error() ? actor.error()->text() : "is not refused");
            return;
        }
        if (effect == Call::refused && there) {
            EXPECT_TRUE(actor.error() && actor.error()->code == ErrorCode::duplicate_key);
            return;
        }
        EXPECT_FALSE(actor.error()) << actor.error()->text();
        EXPECT_EQ(found, there || effect == Call::adds);
        if (effect == Call::reads && there) {
            EXPECT_EQ(seen, *value);
        }
    }
    void end(Actor& actor, bool commits) {
        stage_.tell(actor, [&](Actor& self) -> Result<void> {
            if (!commits) return self.txn().abort();
            TRY(self.txn().commit());
            return {};
        });
        ASSERT_TRUE(actor.free());
        EXPECT_FALSE(actor.error()) << actor.error()->text();
    }
    void expect(const std::optional<std::string>& value) {
        std::optional<std::string> found;
        stage_.tell(stage_.someone(), [&](Actor& self) -> Result<void> {
            TRY(self.begin(Isolation::serializable));
            std::string text;
            if (TRY(stage_.index().get(self.txn(), key_, text))) found = text;
            return self.abort();
        });
        EXPECT_EQ(found, value) << "at the end";
    }

    Stage stage_{5000, 1};
    std::string key_;
    uint64_t cases_ = 0, played_ = 0, waited_ = 0;
};

std::vector<Side> sides(Isolation isolation) {
    std::vector<Side> all;
    for (const Call& call : kReads)
        for (const Access access : kModes) all.push_back({&call, isolation, access});
    for (const Call& call : kWrites) {
        const bool by_cursor = call.name == std::string_view("cursor.patch");
        // A cursor for writing has X from its step on, as the model says; the others add waits.
        all.push_back({&call, isolation, by_cursor ? Access::write : Access::read});
    }
    return all;
}

TEST(AccessMatrix, EachCallBesideEachOther) {
    Matrix matrix;
    uint64_t number = 0;
    for (const Isolation one : kLevels)
        for (const Isolation two : kLevels)
            for (const Side& first : sides(one))
                for (const Side& second : sides(two))
                    for (const Before before : {Before::present, Before::absent, Before::ghost}) {
                        matrix.play(first, second, before, ++number % 2 == 0);
                        if (testing::Test::HasFailure()) return;
                    }
    std::printf("%lu pairs, %lu waited\n", matrix.played(), matrix.waited());
    EXPECT_GT(matrix.waited(), matrix.played() / 4) << "the test is blind";
}

}  // namespace lockstep::isolation::access_matrix_test
