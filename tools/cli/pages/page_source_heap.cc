// page_source_heap.cc - a heap: live records of its data pages, wherever they have moved.
#include <fmt/core.h>

#include "sm/heap/heap_page.h"
#include "tools/cli/pages/page_source.h"

namespace lockstep::cli {
namespace {

namespace heap = sm::heap;

class HeapSource final : public PairSource {
public:
    HeapSource(Survey& survey, const FoundObject& object) : survey_(survey), object_(object) {}

    bool next(Slice& key, Slice& value) override {
        for (;;) {
            while (slot_ < count_) {
                const heap::Slot& s = heap::slot(*page_, slot_);
                home_ = {page_->id(), SlotNo{static_cast<uint16_t>(slot_++)}};
                if (s.state == heap::kEmpty || (s.state & heap::kGhost)) continue;
                value = heap::content(*page_, s);
                if (s.state & heap::kMoved) {
                    // Given at home, unless home is lost: the copy knows its id.
                    if (value.size() < sizeof(heap::Link)) continue;
                    home_ = heap::link_of(value);
                    if (survey_.state_of(home_.page.value) == PageState::good) continue;
                    value.remove_prefix(sizeof(heap::Link));
                } else if (!heap::is_record(s)) {
                    continue;
                } else if ((s.state & heap::kStub) && !follow(value)) {
                    continue;
                }
                id_ = fmt::format("{}.{}", home_.page.value, home_.slot.value);
                key = id_;
                return true;
            }
            if (!next_page()) return false;
        }
    }

private:
    bool next_page() {
        for (; at_ < object_.pages.size(); ++at_) {
            const uint32_t number = object_.pages[at_];
            if (survey_.file().read(number, *page_) != PageState::good) continue;
            if (const char* fault = heap::check_page(*page_)) {
                survey_.lose(
                    {.object = object_.text(), .what = "page", .pages = {number}, .why = fault});
                continue;
            }
            slot_ = 0;
            count_ = heap::data(*page_).slot_count;
            ++at_;
            return true;
        }
        slot_ = count_ = 0;
        return false;
    }
    // From a stub to the moved copy.
    bool follow(Slice& value) {
        if (value.size() != sizeof(heap::Link)) return lost(home_.page.value, "broken stub");
        const RecordId copy = heap::link_of(value);
        const uint32_t number = copy.page.value;
        if (!survey_.readable_page(number) ||
            survey_.file().read(number, *moved_) != PageState::good)
            return lost(number, text_of(survey_.state_of(number)));
        if (moved_->kind() != sm::PageKind::heap || moved_->header.object != object_.id ||
            heap::check_page(*moved_) != nullptr ||
            copy.slot.value >= heap::data(*moved_).slot_count)
            return lost(number, "another page is there");
        const heap::Slot& s = heap::slot(*moved_, copy.slot.value);
        const Slice content = heap::content(*moved_, s);
        if (!(s.state & heap::kMoved) || content.size() < sizeof(heap::Link) ||
            heap::link_of(content) != home_)
            return lost(number, "the moved copy is not there");
        value = content.substr(sizeof(heap::Link));
        return true;
    }
    bool lost(uint32_t page, const char* why) {
        survey_.lose({.object = object_.text(),
                      .what = "record",
                      .pages = {page},
                      .key = fmt::format("{}.{}", home_.page.value, home_.slot.value),
                      .why = why});
        return false;
    }

    Survey& survey_;
    const FoundObject& object_;
    std::unique_ptr<sm::Page> page_ = std::make_unique<sm::Page>(),
                              moved_ = std::make_unique<sm::Page>();
    size_t at_ = 0;
    unsigned slot_ = 0, count_ = 0;
    RecordId home_;
    std::string id_;
};

}  // namespace

std::unique_ptr<PairSource> read_heap(Survey& survey, const FoundObject& object) {
    return std::make_unique<HeapSource>(survey, object);
}

}  // namespace lockstep::cli
