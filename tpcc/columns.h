// columns.h - the columns of the tables, for reports: schema.h and keys.h as text.
#pragma once

#include <lockstep/store.h>

namespace lockstep::tpcc {

struct TableColumns {
    const char* table;
    const char* text;
};

// The nine tables of the specification, with the column names of its clause 1.3, and the two
// indexes that find customers by name and orders by customer.
inline constexpr TableColumns kTableColumns[] = {
    {"warehouse", R"(
w_id u16 key
w_ytd decimal(2) value 0
w_tax decimal32(4) value 8
w_name text8 value 12
w_street_1 text8 value 23
w_street_2 text8 value 44
w_city text8 value 65
w_state char[2] value 86
w_zip char[9] value 88)"},
    {"district", R"(
d_w_id u16 key
d_id u8 key
d_ytd decimal(2) value 0
d_next_o_id u32 value 8
d_tax decimal32(4) value 12
d_name text8 value 16
d_street_1 text8 value 27
d_street_2 text8 value 48
d_city text8 value 69
d_state char[2] value 90
d_zip char[9] value 92)"},
    {"customer", R"(
c_w_id u16 key
c_d_id u8 key
c_id u16 key
c_balance decimal(2) value 0
c_ytd_payment decimal(2) value 8
c_payment_cnt u32 value 16
c_delivery_cnt u32 value 20
c_discount decimal32(4) value 24
c_credit char[2] value 28
c_last text8 value 30
c_middle char[2] value 47
c_first text8 value 49
c_credit_lim decimal(2) value 66
c_since time_ns value 74
c_street_1 text8 value 82
c_street_2 text8 value 103
c_city text8 value 124
c_state char[2] value 145
c_zip char[9] value 147
c_phone char[16] value 156
c_data text16 value 172)"},
    {"customer_name", R"(
c_w_id u16 key
c_d_id u8 key
c_last text0 key
c_first text0 key
c_id u16 key)"},
    {"orders", R"(
o_w_id u16 key
o_d_id u8 key
o_id u32 key
o_carrier_id u8 value 0 null 0
o_ol_cnt u8 value 1
o_all_local u8 value 2
o_c_id u32 value 3
o_entry_d time_ns value 7)"},
    {"orders_customer", R"(
o_w_id u16 key
o_d_id u8 key
o_c_id u16 key
o_id u32 key)"},
    {"new_order", R"(
no_w_id u16 key
no_d_id u8 key
no_o_id u32 key)"},
    {"order_line", R"(
ol_w_id u16 key
ol_d_id u8 key
ol_o_id u32 key
ol_number u8 key
ol_delivery_d time_ns value 0 null 0
ol_amount decimal(2) value 8
ol_i_id u32 value 16
ol_supply_w_id u32 value 20
ol_quantity u8 value 24
ol_dist_info char[24] value 25)"},
    {"item", R"(
i_id u24 key
i_price decimal(2) value 0
i_im_id u32 value 8
i_name text8 value 12
i_data text8 value 37)"},
    {"stock", R"(
s_w_id u16 key
s_i_id u24 key
s_quantity i32 value 0
s_order_cnt u32 value 4
s_remote_cnt u32 value 8
s_ytd i64 value 12
s_dist_01 char[24] value 20
s_dist_02 char[24] value 44
s_dist_03 char[24] value 68
s_dist_04 char[24] value 92
s_dist_05 char[24] value 116
s_dist_06 char[24] value 140
s_dist_07 char[24] value 164
s_dist_08 char[24] value 188
s_dist_09 char[24] value 212
s_dist_10 char[24] value 236
s_data text8 value 260)"},
    {"history", R"(
h_id u64 id
h_c_id u32 value 0
h_c_w_id u32 value 4
h_w_id u32 value 8
h_c_d_id u8 value 12
h_d_id u8 value 13
h_date time_ns value 14
h_amount decimal(2) value 22
h_data text8 value 30)"},
};

// Says all of them to the store, within `txn`. Errors: those of Store::describe().
Result<void> describe_tables(Store& store, Txn& txn);

}  // namespace lockstep::tpcc
