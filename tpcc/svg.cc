// svg.cc - charts as inline SVG.
#include "tpcc/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::tpcc {

namespace {

constexpr double kWidth = 860, kHeight = 240, kLeft = 66, kRight = 14, kTop = 12, kBottom = 26;
constexpr double kRowHeight = 30, kNamesWidth = 96, kTotals = 76;

// 1, 2 or 5 times a power of ten, so that about `wanted` of them cover `span`.
double round_step(double span, double wanted) {
    const double raw = span / wanted, power = std::pow(10, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (raw <= factor * power) return factor * power;
    return 10 * power;
}

std::string number_text(double value) {
    if (value >= 1e6) return fmt::format("{:g} M", value / 1e6);
    if (value >= 10000) return fmt::format("{:g} k", value / 1e3);
    return fmt::format("{:g}", value);
}

std::string legend(const std::vector<std::string>& names, const char* kind) {
    std::string text = "<p class=\"legend\">";
    for (size_t i = 0; i < names.size(); ++i)
        text += fmt::format("<span><i class=\"{}{}\"></i>{}</span> ", kind, i, escaped(names[i]));
    return text + "</p>\n";
}

class LinePicture {
public:
    explicit LinePicture(const Chart& chart) : chart_(chart) {
        double low = INFINITY, high = 0;
        for (const ChartLine& line : chart.lines)
            for (const auto& [x, y] : line.points) {
                if (y > 0) low = std::min(low, y);
                high = std::max(high, y);
            }
        if (high == 0) low = 1, high = 10;
        if (chart.logarithmic) {
            low_ = std::pow(10, std::floor(std::log10(low)));
            high_ = std::max(10 * low_, std::pow(10, std::ceil(std::log10(high))));
        } else {
            step_ = round_step(high * 1.05, 5);
            high_ = step_ * std::ceil(high * 1.05 / step_);
        }
    }

    std::string draw() {
        text_ = fmt::format("<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">\n",
                            kWidth, kHeight, escaped(chart_.label));
        shade();
        y_axis();
        x_axis();
        for (const double at : chart_.marks)
            text_ += fmt::format(
                "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:g}\" y2=\"{2:g}\">"
                "<title>checkpoint at {3:.1f} s</title></line>\n",
                x(at), kTop, kHeight - kBottom, at);
        for (size_t i = 0; i < chart_.lines.size(); ++i) line(i);
        return text_ + "</svg>\n";
    }

private:
    double x(double value) const {
        const double span = std::max(chart_.x_end - chart_.x_begin, 1e-9);
        return kLeft + (value - chart_.x_begin) / span * (kWidth - kLeft - kRight);
    }
    double y(double value) const {
        double share = (value - low_) / (high_ - low_);
        if (chart_.logarithmic)
            share = std::log10(std::max(value, low_) / low_) / std::log10(high_ / low_);
        return kHeight - kBottom - share * (kHeight - kBottom - kTop);
    }
    void shade() {
        if (chart_.shaded_until <= chart_.x_begin) return;
        const double end = x(std::min(chart_.shaded_until, chart_.x_end));
        text_ += fmt::format(
            "<rect class=\"shade\" x=\"{:g}\" y=\"{:g}\" width=\"{:.1f}\" height=\"{:g}\"/>\n",
            kLeft, kTop, end - kLeft, kHeight - kBottom - kTop);
    }
    void y_tick(double value, const std::string& label) {
        text_ += fmt::format(
            "<line class=\"grid\" x1=\"{0:g}\" x2=\"{1:g}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
            "<text class=\"right\" x=\"{3:g}\" y=\"{4:.1f}\">{5}</text>\n",
            kLeft, kWidth - kRight, y(value), kLeft - 6, y(value) + 4, label);
    }
    void y_axis() {
        if (chart_.logarithmic)
            for (double v = low_; v <= high_ * 1.001; v *= 10) y_tick(v, time_text(v));
        else
            for (double v = 0; v <= high_ * 1.001; v += step_) y_tick(v, number_text(v));
    }
    void x_tick(double at, const std::string& label) {
        const double place = x(at);
        const char* align = "middle";
        if (place < kLeft + 20) align = "left";
        if (place > kWidth - kRight - 30) align = "right";
        text_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:g}\">{}</text>\n", align, place,
                             kHeight - 8, label);
    }
    void x_axis() {
        for (const ChartTick& tick : chart_.x_ticks) x_tick(tick.x, tick.text);
        if (!chart_.x_ticks.empty()) return;
        const double step = round_step(chart_.x_end - chart_.x_begin, 8);
        for (double at = chart_.x_begin; at <= chart_.x_end * 1.0001; at += step)
            x_tick(at, fmt::format("{:g}{}", at, chart_.x_unit));
    }
    void line(size_t i) {
        std::string points;
        for (const auto& [at, value] : chart_.lines[i].points)
            if (value > 0 || !chart_.logarithmic)
                points += fmt::format("{:.1f},{:.1f} ", x(at), y(value));
        text_ +=
            fmt::format("<polyline class=\"line{}\" points=\"{}\"><title>{}</title></polyline>\n",
                        i, points, escaped(chart_.lines[i].name));
    }

    const Chart& chart_;
    double low_ = 0, high_ = 1, step_ = 1;
    std::string text_;
};

}  // namespace

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '&': out += "&amp;"; break;
            case '"': out += "&quot;"; break;
            default: out += c;
        }
    }
    return out;
}

std::string time_text(double micros) {
    const auto text = [](double value, const char* unit) {
        return value < 10 ? fmt::format("{:.2g} {}", value, unit)
                          : fmt::format("{:.0f} {}", value, unit);
    };
    if (micros < 999.5) return text(micros, "us");
    if (micros < 999'500) return text(micros / 1e3, "ms");
    return text(micros / 1e6, "s");
}

std::string line_chart(const Chart& chart) {
    std::vector<std::string> names;
    names.reserve(chart.lines.size());
    for (const ChartLine& line : chart.lines) names.push_back(line.name);
    return (names.size() > 1 ? legend(names, "line") : "") + LinePicture(chart).draw();
}

std::string bar_chart(const std::string& label, const std::vector<std::string>& parts,
                      const std::vector<BarRow>& rows) {
    double longest = 0;
    for (const BarRow& row : rows) {
        double sum = 0;
        for (const double part : row.parts) sum += part;
        longest = std::max(longest, sum);
    }
    const double height = kRowHeight * static_cast<double>(rows.size());
    std::string text =
        legend(parts, "bar") +
        fmt::format("<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                    height, escaped(label));
    const double unit = (kWidth - kNamesWidth - kTotals) / std::max(longest, 1e-9);
    for (size_t r = 0; r < rows.size(); ++r) {
        const double top = kRowHeight * static_cast<double>(r);
        text += fmt::format("<text class=\"right\" x=\"{:g}\" y=\"{:.1f}\">{}</text>\n",
                            kNamesWidth - 8, top + 19, escaped(rows[r].name));
        double at = kNamesWidth, sum = 0;
        for (size_t p = 0; p < rows[r].parts.size(); ++p) {
            const double wide = rows[r].parts[p] * unit;
            text += fmt::format(
                "<rect class=\"bar{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"20\">"
                "<title>{}: {}</title></rect>\n",
                p, at, top + 5, wide, escaped(parts[p]), time_text(rows[r].parts[p]));
            at += wide;
            sum += rows[r].parts[p];
        }
        text += fmt::format("<text class=\"left\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", at + 6,
                            top + 19, time_text(sum));
    }
    return text + "</svg>\n";
}

}  // namespace lockstep::tpcc
