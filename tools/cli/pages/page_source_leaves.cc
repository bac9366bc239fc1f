// page_source_leaves.cc - an index: leaves by their low fences, large values by their chains.
#include <cstring>

#include "sm/btree/btree_node.h"
#include "sm/btree/overflow.h"
#include "tools/cli/pages/page_source.h"

namespace lockstep::cli {
namespace {

namespace node = sm::node;

class LeafSource final : public PairSource {
public:
    LeafSource(Survey& survey, const FoundObject& object) : survey_(survey), object_(object) {}

    bool next(Slice& key, Slice& value) override {
        for (;;) {
            while (slot_ < count_) {
                const unsigned slot = slot_++;
                if (node::ghost(*page_, slot)) continue;
                std::string found = node::full_key(*page_, slot);
                if (any_ && found <= key_) continue;  // a page that overlaps the one before
                key_ = std::move(found);
                any_ = true;
                value = node::value(*page_, slot);
                if (node::overflow(*page_, slot)) {
                    if (!read_chain(sm::overflow_ref(value))) continue;
                    value = chain_;
                }
                key = key_;
                return true;
            }
            if (!next_leaf()) return false;
        }
    }

private:
    bool next_leaf();
    void lose_range(Slice low, Slice high, bool infinite);
    bool read_chain(const sm::OverflowRef& ref);
    bool broken_chain(uint32_t page, const std::string& why);

    Survey& survey_;
    const FoundObject& object_;
    std::unique_ptr<sm::Page> page_ = std::make_unique<sm::Page>(),
                              part_ = std::make_unique<sm::Page>();
    size_t leaf_ = 0;
    unsigned slot_ = 0, count_ = 0;
    std::string key_, chain_;
    bool any_ = false;
    // Everything below is read or lost; `ended_`: up to the last key.
    std::string covered_;
    bool ended_ = false, finished_ = false;
};

bool LeafSource::next_leaf() {
    for (; leaf_ < object_.leaves.size(); ++leaf_) {
        const uint32_t number = object_.leaves[leaf_].page;
        if (survey_.file().read(number, *page_) != PageState::good) continue;
        if (const std::string fault = node::check_node(*page_); !fault.empty()) {
            survey_.lose(
                {.object = object_.text(), .what = "page", .pages = {number}, .why = fault});
            continue;
        }
        const Slice low = node::low(*page_);
        if (!ended_ && covered_ < low) lose_range(covered_, low, false);
        if (node::high_infinite(*page_)) ended_ = true;
        else if (covered_ < node::high(*page_)) covered_ = node::high(*page_);
        slot_ = 0;
        count_ = node::count(*page_);
        ++leaf_;
        return true;
    }
    if (!ended_ && !std::exchange(finished_, true)) lose_range(covered_, {}, true);
    count_ = slot_ = 0;
    return false;
}

void LeafSource::lose_range(Slice low, Slice high, bool infinite) {
    Loss loss{.object = object_.text(),
              .what = "range",
              .low = std::string(low),
              .high = std::string(high),
              .infinite = infinite};
    for (auto at = object_.gone.lower_bound(loss.low);
         at != object_.gone.end() && (infinite || at->first < high); ++at) {
        loss.pages.push_back(at->second);
        survey_.name(at->second);
        loss.why = text_of(survey_.state_of(at->second));
        if (survey_.state_of(at->second) == PageState::good) loss.why = "another page is there";
    }
    if (loss.pages.empty()) loss.why = "no sound page of the index covers these keys";
    survey_.lose(std::move(loss));
}

bool LeafSource::broken_chain(uint32_t page, const std::string& why) {
    survey_.name(page);
    survey_.lose(
        {.object = object_.text(), .what = "value", .pages = {page}, .key = key_, .why = why});
    return false;
}

bool LeafSource::read_chain(const sm::OverflowRef& ref) {
    chain_.clear();
    uint32_t at = ref.first;
    while (chain_.size() < ref.bytes) {
        if (!survey_.readable_page(at) || survey_.file().read(at, *part_) != PageState::good)
            return broken_chain(at, survey_.state_of(at) == PageState::good
                                        ? "not in use"
                                        : text_of(survey_.state_of(at)));
        sm::OverflowHeader head;
        std::memcpy(&head, part_->body, sizeof head);
        if (part_->kind() != sm::PageKind::overflow || part_->header.object != object_.id ||
            head.chain != ref.chain || head.bytes == 0 || head.bytes > sm::kOverflowCapacity ||
            head.bytes > ref.bytes - chain_.size())
            return broken_chain(at, "another page is there");
        chain_.append(reinterpret_cast<const char*>(part_->bytes()) + sm::kOverflowDataAt,
                      head.bytes);
        at = head.next;
    }
    return true;
}

}  // namespace

std::unique_ptr<PairSource> read_leaves(Survey& survey, const FoundObject& object) {
    return std::make_unique<LeafSource>(survey, object);
}

}  // namespace lockstep::cli
