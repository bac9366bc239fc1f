// svg.h - small charts as inline SVG: lines over time or percentiles, and stacked bars.
//
// Concepts   Colours and fonts come from the page's style sheet by class: line0 to line4, bar0 to
//            bar3. Text stays inside the picture: labels of the y axis have room of their own, and
//            those of the x axis at the ends are aligned inwards.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::tpcc {

// Text for HTML.
std::string escaped(const std::string& text);

struct ChartLine {
    std::string name;
    std::vector<std::pair<double, double>> points;  // ascending x
};

struct ChartTick {
    double x;
    std::string text;
};

struct Chart {
    std::string label;             // for readers that do not see the picture
    std::vector<ChartLine> lines;  // at most five
    bool logarithmic = false;      // the y axis; its values are then times in microseconds
    double x_begin = 0, x_end = 1;
    std::vector<ChartTick> x_ticks;  // none: round numbers with the unit
    const char* x_unit = " s";
    double shaded_until = 0;    // warm-up
    std::vector<double> marks;  // vertical lines
};

// "850 us", "1.5 ms", "20 s".
std::string time_text(double micros);

// The picture, and above it a legend if there are several lines.
std::string line_chart(const Chart& chart);

struct BarRow {
    std::string name;
    std::vector<double> parts;  // in microseconds, in the order of the names of the parts
};
std::string bar_chart(const std::string& label, const std::vector<std::string>& parts,
                      const std::vector<BarRow>& rows);

}  // namespace lockstep::tpcc
