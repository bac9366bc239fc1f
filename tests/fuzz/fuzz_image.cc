// fuzz_image.cc - a whole store with any damage to its files: opening, recovering, using and
// verifying it ends in success or in an error.
//
// Input      byte 0 picks the closed or the killed store; then changes to its files: bytes
//            overwritten, zeroed, copied from elsewhere, cut, files removed or grown. Checksums are
//            left as the damage makes them.
#include <algorithm>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/sim_image.h"

namespace lockstep::fuzz {
namespace {

using threads::Disk;
using threads::SimDisk;

void damage(SimDisk& disk, const std::string& path, Input& in) {
    const auto file = disk.open(path, 0);
    CHECK(file);
    const uint64_t size = *disk.size(*file);
    // Anywhere, or within the first pages: that is where most of what matters lies.
    uint64_t at = in.get<uint32_t>();
    if (at & 1) at = (at >> 1) % (256 * 1024);
    at = size ? at % size : 0;
    switch (in.byte() % 6) {
        case 0:
        case 1: {
            const std::string bytes = in.bytes(1 + in.byte() % 64);
            (void)disk.write_now(*file, at, bytes.data(), bytes.size());
            break;
        }
        case 2: {
            const std::string zeros(1 + in.get<uint16_t>() % 20000, 0);
            (void)disk.write_now(*file, at, zeros.data(),
                                 std::min<uint64_t>(zeros.size(), size - at));
            break;
        }
        // Sectors that belong elsewhere: a misdirected write.
        case 3: {
            std::string text(8192, 0);
            const uint64_t from = size ? in.get<uint32_t>() % size / 512 * 512 : 0;
            if (auto got = disk.read_now(*file, from, text.data(), text.size()))
                (void)disk.write_now(*file, at / 512 * 512, text.data(), *got);
            break;
        }
        case 4: (void)disk.truncate(*file, at); break;
        default: (void)disk.truncate(*file, size + in.get<uint16_t>()); break;
    }
    disk.close(*file);
}

}  // namespace

int fuzz_image(const uint8_t* data, size_t size) {
    Input in(data, size);
    const uint8_t flags = in.byte();
    const auto disk = base_image(flags & 1);
    for (int n = 0; n < 20 && !in.empty(); ++n) {
        std::vector<std::string> names = *disk->list("/store");
        std::erase(names, "lock");
        if (names.empty()) break;
        std::ranges::sort(names);
        const std::string path = "/store/" + names[in.below(static_cast<uint32_t>(names.size()))];
        if (in.byte() == 77) (void)disk->unlink(path);
        else damage(*disk, path, in);
    }
    open_and_use(*disk);
    // What the first one has left is opened again.
    if (flags & 2) open_and_use(*disk);
    return 0;
}

}  // namespace lockstep::fuzz
