// fuzz_page.cc - a page of any bytes: readers stay inside it, the checkers decide, and what they
// call sound can be changed and stays sound.
//
// Input      kind of page and body, from the page header's byte 24 on; then changes to a page that
//            is sound.
#include <memory>

#include "sm/btree/btree_node.h"
#include "sm/btree/btree_node_search.h"
#include "sm/change/page_image.h"
#include "sm/heap/heap_page.h"
#include "tests/fuzz/fuzz_input.h"

namespace lockstep::fuzz {
namespace {

using namespace sm;

// BN-3: optimistic readers see anything at all.
void read_node(const Page& p, Slice key) {
    use(node::search(p, key));
    use(node::child_at(p, node::child_slot(p, key)));
    use(node::covers(p, key));
    const unsigned count = node::count(p);
    for (unsigned i = 0; i < count; i += 1 + count / 64) {
        char buffer[2 * kPageBytes];
        std::string sum(node::full_key(p, i, buffer, sizeof buffer));
        sum += node::value(p, i);
        use(node::child(p, i));
        use(node::key_equals(p, i, node::SearchKey(key)));
        use(sum);
    }
}

void change_node(Page& p, Input& in) {
    using namespace node;
    for (int n = 0; n < 16 && !in.empty(); ++n) {
        const unsigned slots_now = count(p);
        const unsigned slot = slots_now ? in.below(slots_now) : 0;
        switch (in.byte() % 5) {
            case 0: {
                const std::string key = in.bytes(in.byte() % 40),
                                  value = in.bytes(is_leaf(p) ? in.byte() : 4);
                if (!covers(p, key) || !fits(p, key.size(), value.size()) ||
                    (!is_leaf(p) && value.size() != 4))
                    break;
                const Found at = search(p, key);
                if (at.exact) break;
                put(p, at.slot, 0, Slice(key).substr(header(p).prefix), value);
                const Found again = search(p, key);
                CHECK(again.exact && again.slot == at.slot && value == node::value(p, again.slot));
                break;
            }
            case 1:
                if (slots_now > 0) remove(p, slot);
                break;
            case 2: compact(p); break;
            case 3: {
                if (slots_now == 0 || !is_leaf(p)) break;
                const unsigned bytes = static_cast<unsigned>(value(p, slot).size()),
                               from = bytes ? in.byte() % (bytes + 1) : 0;
                const unsigned cut = in.byte() % (bytes - from + 1);
                const std::string fresh = in.bytes(in.byte());
                if (free_bytes(p) < bytes + kSlotCost + suffix(p, slot).size() + fresh.size())
                    break;
                splice(p, slot, from, cut, fresh);
                break;
            }
            default: read_node(p, in.bytes(in.byte() % 20));
        }
        if (const std::string fault = check_node(p); !fault.empty()) {
            std::fprintf(stderr, "a change broke the node: %s\n", fault.c_str());
            std::abort();
        }
    }
}

// The page's image takes it to another place unchanged, but for what the hole held.
void carry_over(const Page& p) {
    const uint16_t begin = p.header.hole_begin, end = p.header.hole_end;
    if (begin < sizeof(PageHeader) || begin > end || end > kPageBytes) return;
    std::string image(image_bytes(p), 0);
    write_image(p, reinterpret_cast<std::byte*>(image.data()));
    const auto other = std::make_unique<Page>();
    std::memset(static_cast<void*>(other.get()), 0xee, kPageBytes);
    install_image(*other, image);
    const auto same = [&] {
        return std::memcmp(other.get(), &p, begin) == 0 &&
               std::memcmp(other->bytes() + end, p.bytes() + end, kPageBytes - end) == 0;
    };
    CHECK(same());
    uint32_t bytes = 0;
    const std::unique_ptr<std::byte[]> packed(pack_image(p, bytes));
    if (!packed) return;
    std::memset(static_cast<void*>(other.get()), 0xee, kPageBytes);
    const Slice packed_image(reinterpret_cast<const char*>(packed.get()), bytes);
    CHECK(bytes <= packed_bytes_max(image_bytes(p)));
    CHECK(bring_image(*other,
                      {p.id(), PageAction::btree_put, kPartImage | kPartPacked, packed_image, {}}));
    CHECK(same());
}

}  // namespace

int fuzz_page(const uint8_t* data, size_t size) {
    Input in(data, size);
    const size_t body_bytes = in.get<uint16_t>() % (kPageBytes - 24);
    const bool from_the_end = in.byte() & 1;
    auto page = std::make_unique<Page>();
    format_page(*page, PageId{9}, ObjectId{16}, PageKind::btree);
    const std::string head = in.bytes(56), body = in.bytes(body_bytes);
    std::memcpy(page->bytes() + 24, head.data(), head.size());
    // Records lie at the end of a page, slots at its beginning.
    const size_t room = kPageBytes - 80, bytes = std::min(body.size(), room);
    std::memcpy(page->bytes() + (from_the_end ? kPageBytes - bytes : 80), body.data(), bytes);
    use(page_checksum(*page, PageId{9}));
    read_node(*page, in.bytes(8));
    const bool node_sound = node::check_node(*page).empty();
    use(heap::check_page(*page));
    carry_over(*page);
    if (node_sound) change_node(*page, in);
    return 0;
}

}  // namespace lockstep::fuzz
