// labels: unit
// owned_test.cc - owners of objects: each object is deleted once, by its last owner.
#include <lockstep/owned.h>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lockstep::owned_test {

struct Counted {
    explicit Counted(int& count) : live(count) { ++live; }
    ~Counted() { --live; }
    int& live;
    uint32_t owners = 1;
};

TEST(Owned, DeletesOnce) {
    int live = 0;
    {
        detail::Owned<Counted> one(new Counted(live)), none;
        EXPECT_TRUE(one);
        EXPECT_FALSE(none);
        none = std::move(one);
        EXPECT_EQ(live, 1);
        EXPECT_EQ(one.get(), nullptr);
        auto& itself = none;
        none = std::move(itself);
        EXPECT_EQ(none->live, 1);
        none.reset(new Counted(live));
        EXPECT_EQ((*none).live, 1);
        delete none.release();
        EXPECT_EQ(live, 0);
        one.reset(new Counted(live));
    }
    EXPECT_EQ(live, 0);
}

TEST(Shared, TheLastOwnerDeletes) {
    int live = 0;
    detail::Shared<Counted> first(new Counted(live));
    {
        detail::Shared<Counted> second = first, third;
        third = second;
        const auto& itself = third;
        third = itself;
        first = {};
        EXPECT_FALSE(first);
        EXPECT_EQ(third->live, 1);
        EXPECT_EQ(third->owners, 2u);
        second = std::move(third);
        EXPECT_EQ(second->owners, 1u);
    }
    EXPECT_EQ(live, 0);
}

TEST(Shared, OwnersOnManyThreads) {
    int live = 0;
    {
        const detail::Shared<Counted> object(new Counted(live));
        std::vector<std::thread> threads;
        for (int n = 0; n < 4; ++n)
            threads.emplace_back([copy = object] {
                for (int i = 0; i < 10'000; ++i) {
                    const detail::Shared<Counted> another = copy;
                    ASSERT_TRUE(another);
                }
            });
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(object->owners, 1u);
    }
    EXPECT_EQ(live, 0);
}

}  // namespace lockstep::owned_test
