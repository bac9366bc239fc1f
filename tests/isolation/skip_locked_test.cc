// labels: sim model
// skip_locked_test.cc - reads that do not wait: each of them beside each kind of lock that another
// transaction has, at each level.
//
// Concepts   The oracle is the same read with a wait, by a third transaction: where that waits, the
//            read without a wait is refused, or passes the record over, and its transaction goes
//            on. Where it does not, all three read the same.
#include "tests/isolation/stage.h"

namespace lockstep::isolation::skip_locked_test {

constexpr Isolation kLevels[] = {Isolation::serializable, Isolation::repeatable_read,
                                 Isolation::read_committed, Isolation::snapshot};
constexpr Access kModes[] = {Access::read, Access::update, Access::write};

// What the first transaction has done to "m", between "d" and "x".
struct Holder {
    const char* name;
    bool there;  // "m" before it
    Result<void> (*act)(Actor&, const Index&);
};
constexpr Holder kHolders[] = {
    {"nothing", true, [](Actor&, const Index&) -> Result<void> { return {}; }},
    {"a read", true,
     [](Actor& self, const Index& index) -> Result<void> {
         std::string value;
         TRY(index.get(self.txn(), "m", value));
         return {};
     }},
    {"a read for an update", true,
     [](Actor& self, const Index& index) -> Result<void> {
         std::string value;
         TRY(index.get(self.txn(), "m", value, Access::update));
         return {};
     }},
    {"an update", true, [](Actor& self, const Index&) { return self.put("m", "changed"); }},
    {"an insert", false, [](Actor& self, const Index&) { return self.put("m", "new"); }},
    {"an erase", true,
     [](Actor& self, const Index&) -> Result<void> {
         TRY(self.erase("m"));
         return {};
     }},
};

// A read of "m" and what is beside it: the rows that it has seen.
struct Reader {
    const char* name;
    Result<State> (*read)(Txn& txn, const Index& index, Access access, IfLocked if_locked);
};
Result<State> get(Txn& txn, const Index& index, Access access, IfLocked if_locked) {
    std::string value;
    if (!TRY(index.get(txn, "m", value, access, if_locked))) return State{};
    return State{{"m", value}};
}
Result<State> get_into(Txn& txn, const Index& index, Access access, IfLocked if_locked) {
    std::byte room[32];
    const auto bytes = TRY(index.get(txn, "m", room, access, if_locked));
    if (!bytes) return State{};
    return State{{"m", std::string(reinterpret_cast<const char*>(room), *bytes)}};
}
Result<State> get_many(Txn& txn, const Index& index, Access access, IfLocked if_locked) {
    std::byte rooms[3][32];
    Lookup rows[] = {{.key = "x", .buffer = rooms[0]},
                     {.key = "m", .buffer = rooms[1]},
                     {.key = "d", .buffer = rooms[2]}};
    const size_t found = TRY(index.get_many(txn, rows, access, if_locked));
    State seen;
    for (const Lookup& row : rows)
        if (row.found)
            seen[std::string(row.key)].assign(reinterpret_cast<const char*>(row.buffer.data()),
                                              row.bytes);
    EXPECT_EQ(found, seen.size());
    return seen;
}
template <Result<bool> (Cursor::*step)()>
Result<State> scan(Txn& txn, const Index& index, Access access, IfLocked if_locked) {
    State seen;
    Cursor cursor = index.scan(txn, "b", "z", access, if_locked);
    while (TRY((cursor.*step)())) seen.emplace(cursor.key(), cursor.value());
    return seen;
}
constexpr Reader kReaders[] = {{"get", get},
                               {"get into a buffer", get_into},
                               {"get_many", get_many},
                               {"next", scan<&Cursor::next>},
                               {"prev", scan<&Cursor::prev>}};

class SkipLocked : public ::testing::Test {
protected:
    struct Answer {
        bool waits = false;
        State seen;
        std::optional<Error> error;
    };
    void reset(bool there) {
        State rows{{"a", "1"}, {"d", "2"}, {"x", "3"}, {"zz", "4"}};
        if (there) rows["m"] = "old";
        stage_.reset(rows, {});
    }
    Actor& begin(Isolation level) {
        Actor& actor = stage_.someone();
        actor.keeps_errors = true;
        stage_.tell(actor, [&](Actor& self) { return self.begin(level); });
        EXPECT_TRUE(actor.in_transaction());
        return actor;
    }
    Answer ask(Actor& actor, const Reader& reader, Access access, IfLocked if_locked) {
        Answer answer;
        stage_.tell(actor, [&](Actor& self) -> Result<void> {
            answer.seen = TRY(reader.read(self.txn(), stage_.index(), access, if_locked));
            return {};
        });
        answer.waits = actor.busy();
        answer.error = actor.error();
        return answer;
    }
    void end(Actor& actor, bool commits = false) {
        stage_.tell(actor, [&](Actor& self) { return commits ? self.commit() : self.abort(); });
        EXPECT_TRUE(actor.free());
        EXPECT_FALSE(actor.error());
    }
    // With the oracle's lock out of the way.
    void play(const Holder& holder, const Reader& reader, Isolation level, Access access) {
        reset(holder.there);
        Actor& old = begin(level);  // a snapshot from before
        Actor& one = begin(Isolation::serializable);
        stage_.tell(one, [&](Actor& self) { return holder.act(self, stage_.index()); });
        ASSERT_FALSE(one.busy() || one.error());
        const Answer refused = ask(old, reader, access, IfLocked::no_wait);
        ASSERT_FALSE(refused.waits);
        end(old);
        Actor& two = begin(level);
        const Answer skips = ask(two, reader, access, IfLocked::skip);
        ASSERT_FALSE(skips.waits);
        // It goes on, and what it has passed over is free for others when they get it.
        const Answer again = ask(two, reader, access, IfLocked::skip);
        EXPECT_EQ(again.seen, skips.seen);
        end(two, true);
        Actor& three = begin(level);
        State waited;
        stage_.tell(three, [&](Actor& self) -> Result<void> {
            waited = TRY(reader.read(self.txn(), stage_.index(), access, IfLocked::wait));
            return {};
        });
        const bool waits = three.busy();
        if (waits) {
            ASSERT_TRUE(refused.error) << "is not refused";
            EXPECT_EQ(refused.error->code, ErrorCode::lock_refused);
            EXPECT_NE(refused.error->text().find("\"m\""), std::string::npos)
                << refused.error->text();
            ASSERT_FALSE(skips.error) << skips.error->text();
            EXPECT_FALSE(skips.seen.contains("m"));
            end(one);
            ASSERT_FALSE(three.busy());
            ++waited_;
        }
        // Without its record, skipping has seen what waiting saw in the end.
        EXPECT_EQ(skips.error.has_value(), three.error().has_value());
        if (waits) waited.erase("m");
        EXPECT_EQ(skips.seen, waited);
        if (!waits) {
            EXPECT_EQ(refused.error.has_value(), three.error().has_value());
            EXPECT_EQ(refused.seen, waited);
        }
        end(three);
        if (one.in_transaction()) end(one);
    }

    Stage stage_{5000, 1};
    int waited_ = 0;
};

TEST_F(SkipLocked, EachReadBesideEachLock) {
    int played = 0;
    for (const Holder& holder : kHolders)
        for (const Reader& reader : kReaders)
            for (const Isolation level : kLevels)
                for (const Access access : kModes) {
                    SCOPED_TRACE(std::string(reader.name) + " beside " + holder.name + ", level " +
                                 std::to_string(static_cast<int>(level)) + ", access " +
                                 std::to_string(static_cast<int>(access)));
                    play(holder, reader, level, access);
                    if (HasFailure()) return;
                    ++played;
                }
    EXPECT_GT(waited_, played / 3) << "the test is blind";
}

// A record that was passed over is free; the gaps beside it, and all other records, are not.
TEST_F(SkipLocked, ASerializableScanProtectsAllButWhatItPassesOver) {
    for (const bool backward : {false, true}) {
        reset(true);
        Actor& one = begin(Isolation::serializable);
        stage_.tell(one, [&](Actor& self) { return self.put("m", "changed"); });
        Actor& two = begin(Isolation::serializable);
        const Answer seen = ask(two, kReaders[backward ? 4 : 3], Access::read, IfLocked::skip);
        EXPECT_EQ(seen.seen, (State{{"d", "2"}, {"x", "3"}}));
        // The holder may still end as it likes, and change the record again.
        stage_.tell(one, [&](Actor& self) { return self.put("m", "again"); });
        ASSERT_FALSE(one.busy());
        end(one, true);
        std::vector<Actor*> others;
        for (const char* key : {"c", "h", "p", "y", "d"}) {
            SCOPED_TRACE(key);
            others.push_back(&begin(Isolation::serializable));
            stage_.tell(*others.back(), [key](Actor& self) { return self.put(key, "phantom"); });
            EXPECT_TRUE(others.back()->busy());
        }
        Actor& free = begin(Isolation::serializable);
        stage_.tell(free, [&](Actor& self) { return self.put("m", "free"); });
        EXPECT_FALSE(free.busy());
        end(free);
        end(two);
        for (Actor* other : others) {
            EXPECT_FALSE(other->busy());
            end(*other);
        }
    }
}

// The cursor stays where it was refused, and goes on when the lock is free.
TEST_F(SkipLocked, ARefusedStepMayBeMadeAgain) {
    for (const bool backward : {false, true}) {
        reset(true);
        Actor& one = begin(Isolation::serializable);
        stage_.tell(one, [&](Actor& self) { return self.put("m", "changed"); });
        Actor& two = begin(Isolation::repeatable_read);
        std::optional<Cursor> cursor;
        const auto step = [&] {
            Result<bool> moved = true;
            stage_.tell(two, [&](Actor& self) -> Result<void> {
                if (!cursor)
                    cursor.emplace(
                        stage_.index().scan(self.txn(), "b", "z", Access::read, IfLocked::no_wait));
                moved = backward ? cursor->prev() : cursor->next();
                return {};
            });
            EXPECT_FALSE(two.busy());
            return moved;
        };
        const std::string first = backward ? "x" : "d";
        ASSERT_TRUE(*step());
        EXPECT_EQ(cursor->key(), first);
        for (int n = 0; n < 3; ++n) {
            const auto moved = step();
            ASSERT_FALSE(moved.has_value());
            EXPECT_EQ(moved.error().code, ErrorCode::lock_refused);
            EXPECT_EQ(cursor->key(), first);
            EXPECT_EQ(cursor->value(), backward ? "3" : "2");
        }
        end(one, true);
        ASSERT_TRUE(*step());
        EXPECT_EQ(cursor->key(), "m");
        EXPECT_EQ(cursor->value(), "changed");
        stage_.tell(two, [&](Actor&) -> Result<void> {
            cursor.reset();
            return {};
        });
        end(two, true);
    }
}

}  // namespace lockstep::isolation::skip_locked_test
