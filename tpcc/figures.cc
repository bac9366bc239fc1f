// figures.cc - sums over the measured intervals of a result, and its histograms.
#include "tpcc/figures.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep::tpcc {

namespace {

double number_at(const nlohmann::json& object, const char* name) {
    return object.at(name).get<double>();
}

// A bucket is named by its greatest time. The last one may have held less: no time exceeds
// `longest`, in microseconds.
void read_histogram(const nlohmann::json& buckets, double longest, Histogram<6>& histogram) {
    for (const nlohmann::json& bucket : buckets) {
        const double micros = std::min(bucket.at(0).get<double>(), longest);
        histogram.record(static_cast<uint64_t>(std::llround(micros * 1000)),
                         bucket.at(1).get<uint32_t>());
    }
}

}  // namespace

double Figures::per_second(const TypeFigures& of) const {
    return seconds > 0 ? of.transactions / seconds : 0;
}

double Figures::micros(const TypeFigures& of, double share) {
    return static_cast<double>(of.histogram.percentile(share)) / 1000;
}

void Figures::add(const Figures& other) {
    seconds += other.seconds;
    all.transactions += other.all.transactions;
    all.histogram.merge(other.all.histogram);
    for (size_t t = 0; t < kTxnTypes; ++t) {
        types[t].transactions += other.types[t].transactions;
        types[t].histogram.merge(other.types[t].histogram);
    }
}

std::unique_ptr<Figures> figures_of(const nlohmann::json& result) {
    auto figures = std::make_unique<Figures>();
    for (const nlohmann::json& point : result.at("series")) {
        if (!point.at("measured").get<bool>()) continue;
        const double count = number_at(point.at("all"), "count");
        figures->seconds += number_at(point, "length_s");
        figures->all.transactions += count;
        for (size_t t = 0; t < kTxnTypes; ++t)
            figures->types[t].transactions +=
                number_at(point.at("types").at(kTxnNames[t]), "count");
    }
    const nlohmann::json histograms = result.value("histograms_us", nlohmann::json::object());
    const nlohmann::json transactions = result.value("transactions", nlohmann::json::object());
    for (size_t t = 0; t < kTxnTypes; ++t) {
        const char* name = kTxnNames[t];
        const double longest =
            transactions.value(name, nlohmann::json::object()).value("max_us", INFINITY);
        read_histogram(histograms.value(name, nlohmann::json::array()), longest,
                       figures->types[t].histogram);
        figures->all.histogram.merge(figures->types[t].histogram);
    }
    return figures;
}

}  // namespace lockstep::tpcc
