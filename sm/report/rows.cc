// rows.cc - what a public answer says of its memory.
#include "sm/report/row_data.h"

namespace lockstep {

Rows::Rows() = default;
Rows::~Rows() = default;
Rows::Rows(Rows&&) noexcept = default;
Rows& Rows::operator=(Rows&&) noexcept = default;

size_t Rows::rows() const { return data_ ? data_->rows : 0; }
size_t Rows::columns() const { return data_ ? data_->lanes.size() : 0; }

std::string_view Rows::name(size_t column) const {
    CHECK(column < columns());
    return data_->schema.fields[column].name;
}
Rows::Kind Rows::kind(size_t column) const {
    CHECK(column < columns());
    return data_->schema.fields[column].kind;
}

int64_t Rows::integer(size_t row, size_t column) const {
    CHECK(data_ != nullptr);
    return data_->at(row, column, Kind::integer);
}
double Rows::real(size_t row, size_t column) const {
    CHECK(data_ != nullptr);
    return sm::report::real_of(data_->at(row, column, Kind::real));
}
Slice Rows::text(size_t row, size_t column) const {
    CHECK(data_ != nullptr);
    const int64_t number = data_->at(row, column, Kind::text);
    if (data_->lanes[column].is_null(row)) return {};
    const std::lock_guard lock(data_->texts->mutex);
    return data_->texts->text(number);
}
bool Rows::is_null(size_t row, size_t column) const {
    CHECK(row < rows() && column < columns());
    return data_->lanes[column].is_null(row);
}

}  // namespace lockstep
