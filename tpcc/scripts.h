// scripts.h - where the Python scripts lie that the programs start.
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep::tpcc {

// Path of a script, given as its path in the source tree ("tpcc/plot.py"). An installed program
// takes it from ../share/lockstep of its own folder, a program of a build tree from the source
// tree. The script need not exist. Reads the file system; never blocks for long.
std::filesystem::path script_path(std::string_view script);

}  // namespace lockstep::tpcc
