// rejects.h - keeps the lines of a table that a load refuses, with the reasons.
//
// Concepts   The file begins with the line that names the columns, and has the refused lines as
//            they are. So it can be corrected and loaded. FILE.why has a line for each: the number
//            of the line in the input, and the reason. A cut of the load (load_state.h) keeps the
//            sizes of both, and a load that goes on cuts them back: no line is in them twice.
#pragma once

#include <array>
#include <string>

#include "tools/cli/rows/row_reader.h"

namespace lockstep::cli {

class Rejects {
public:
    // What a cut keeps.
    struct Place {
        uint64_t refused = 0, bytes = 0, why_bytes = 0;
    };
    // Opens the files, or makes them. go_on() comes next. Throws Failed.
    Rejects(const std::string& path, const RowReader& input, const std::string& header);
    ~Rejects();
    Rejects(const Rejects&) = delete;
    // Begins with both files as they were at that place of an earlier run; {}: anew. Throws Failed.
    void go_on(const Place& place);
    void add(uint64_t line, const Refusal& refusal);
    // Writes what was added. Throws Failed.
    Place write();
    uint64_t refused() const { return place_.refused; }
    // Writes; the files are deleted if no line was refused.
    void finish();

private:
    struct File {
        std::string path;
        int fd = -1;
        std::string text = {};  // behind `bytes`, not written yet
        uint64_t bytes = 0;
        void write();
        void cut_back(uint64_t to);
    };
    std::array<File, 2> files_;  // lines, reasons
    Place place_;
    std::string header_;
};

}  // namespace lockstep::cli
