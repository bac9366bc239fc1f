// campaign.h - a run over many seeds in pieces, which a later call continues.
//
// Concepts   The directory keeps the settings of the first call (campaign.json) and one file for
//            each piece that is done (pieces/). A piece is a range of seeds; its file appears whole
//            or not at all, so a killed run loses the piece it was in, and the next call repeats
//            it. A piece names the commit that it ran on. Failures are kept, shrunk, in failures/.
// Invariants CAM-1 A seed counts once. [checked: Campaign::read_pieces()]
#pragma once

#include "tests/sim/config.h"

namespace lockstep::sim {

// Runs what is left of the campaign, within arguments.seconds. Later calls take the settings of
// the first one; those that they give themselves must be the same. Returns the exit status: 0, 1 if
// a seed of the campaign has failed, 2 if it cannot run.
int run_campaign(const Arguments& arguments);

// Prints the totals of the directory's pieces as Markdown. Returns as run_campaign().
int print_totals(const Arguments& arguments);

}  // namespace lockstep::sim
