// random.cc - the random values of the specification.
#include "tpcc/random.h"

#include "threads/base/check.h"

namespace lockstep::tpcc {

namespace {

using Syllable = Text<5>;

constexpr Syllable syllable(Slice text) {
    Syllable made;
    for (const char c : text) made.bytes[made.size++] = c;
    return made;
}

// One 64-bit number, read as a binary fraction, gives several characters: multiply by the size of
// the alphabet and take the integer part.
template <unsigned kPerDraw>
void fill(Rng& rng, std::span<char> out, Slice alphabet) {
    for (size_t i = 0; i < out.size();) {
        uint64_t fraction = rng.next();
        for (unsigned k = 0; k < kPerDraw && i < out.size(); ++k, ++i) {
            const auto wide = static_cast<unsigned __int128>(fraction) * alphabet.size();
            out[i] = alphabet[static_cast<size_t>(wide >> 64)];
            fraction = static_cast<uint64_t>(wide);
        }
    }
}

constexpr Slice kOriginal = "ORIGINAL";

// For each character: how far its last occurrence in the word is from the word's end.
constexpr std::array<uint8_t, 256> steps_in_original() {
    std::array<uint8_t, 256> steps;
    steps.fill(kOriginal.size());
    for (size_t i = 0; i < kOriginal.size(); ++i)
        steps[static_cast<uint8_t>(kOriginal[i])] = static_cast<uint8_t>(kOriginal.size() - 1 - i);
    return steps;
}
constexpr std::array<uint8_t, 256> kOriginalSteps = steps_in_original();

}  // namespace

bool RandomConstants::valid() const {
    const uint32_t delta =
        c_last_run > c_last_load ? c_last_run - c_last_load : c_last_load - c_last_run;
    return c_last_load <= 255 && c_last_run <= 255 && c_id <= 1023 && ol_i_id <= 8191 &&
           delta >= 65 && delta <= 119 && delta != 96 && delta != 112;
}

RandomConstants RandomConstants::choose(uint64_t seed) {
    Rng rng = row_rng(seed, 100, 0);
    RandomConstants c;
    c.c_id = static_cast<uint32_t>(rng.below(1024));
    c.ol_i_id = static_cast<uint32_t>(rng.below(8192));
    do {
        c.c_last_load = static_cast<uint32_t>(rng.below(256));
        c.c_last_run = static_cast<uint32_t>(rng.below(256));
    } while (!c.valid());
    return c;
}

Text<16> last_name(uint32_t number) {
    static constexpr std::array kSyllables = {
        syllable("BAR"), syllable("OUGHT"), syllable("ABLE"),  syllable("PRI"),   syllable("PRES"),
        syllable("ESE"), syllable("ANTI"),  syllable("CALLY"), syllable("ATION"), syllable("EING")};
    DCHECK(number < 1000);
    Text<16> name;
    // Each with the zeros behind it, over which the next one goes: a length that the compiler knows
    // takes no call.
    for (const uint32_t digit : {number / 100 % 10, number / 10 % 10, number % 10}) {
        const Syllable& next = kSyllables[digit];
        std::memcpy(name.bytes + name.size, next.bytes, sizeof next.bytes);
        name.size = static_cast<uint8_t>(name.size + next.size);
    }
    return name;
}

void random_letters(Rng& rng, std::span<char> out) {
    fill<8>(rng, out, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
}

void random_digits(Rng& rng, std::span<char> out) { fill<12>(rng, out, "0123456789"); }

void random_data(Rng& rng, bool original, Text<50>& out) {
    random_text(rng, 26, 50, out);
    if (!original) return;
    const size_t at = rng.below(out.size - kOriginal.size() + 1);
    std::memcpy(out.bytes + at, kOriginal.data(), kOriginal.size());
}

bool is_original(Slice data) {
    // Looks at the place where the last letter would be. The letter there tells how far the next
    // such place is; most letters do not occur in the word. (R. N. Horspool, "Practical Fast
    // Searching in Strings", 1980.)
    for (size_t last = kOriginal.size() - 1; last < data.size();) {
        const uint8_t step = kOriginalSteps[static_cast<uint8_t>(data[last])];
        if (step == 0) {
            if (data.substr(last + 1 - kOriginal.size(), kOriginal.size()) == kOriginal)
                return true;
            last += kOriginal.size();  // its last letter occurs once
        } else {
            last += step;
        }
    }
    return false;
}

void random_address(Rng& rng, Address& out) {
    random_text(rng, 10, 20, out.street_1);
    random_text(rng, 10, 20, out.street_2);
    random_text(rng, 10, 20, out.city);
    // Two letters, and no digits (clause 4.3.3.1).
    fill<8>(rng, out.state, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    random_digits(rng, {out.zip, 4});
    std::memcpy(out.zip + 4, "11111", 5);
}

}  // namespace lockstep::tpcc
