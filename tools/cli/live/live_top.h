// live_top.h - one screen of `lockstep top`, from two snapshots.
#pragma once

#include <string>

#include "tools/cli/live/live_client.h"

namespace lockstep::cli {

// What a screen is made of: two answers to "stat", and one to "transactions".
struct TopView {
    Json before, now;
    // The oldest transactions, or null and the reason.
    Json transactions;
    std::string no_transactions;
};

// Rates between the two snapshots, a second, and the state of now.
Json top_json(const TopView& view);
// At most `rows` lines of at most `columns` characters, each with its end. All of it is there from
// 80 columns and 24 rows on.
std::string top_text(const TopView& view, size_t columns, size_t rows);

}  // namespace lockstep::cli
