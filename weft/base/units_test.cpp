#include "weft/base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "weft/base/error.h"

namespace weft {
namespace {

using testing::HasSubstr;

template <typename Function>
std::string input_error(Function function) {
  try {
    static_cast<void>(function());
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "no error";
}

TEST(Units, ParsesBytes) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("7B"), 7);
  EXPECT_EQ(parse_bytes("12GiB"), 12LL * 1024 * 1024 * 1024);
  EXPECT_EQ(parse_bytes("300MB"), 300'000'000);
  EXPECT_EQ(parse_bytes(" 1.5 KiB "), 1536);
  EXPECT_EQ(parse_bytes("2kB"), 2000);
  EXPECT_EQ(parse_bytes("1TiB"), 1LL << 40);
}

TEST(Units, ParsesRatesAndTimes) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("25GB/s"), 25e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("2MiB/s"), 2097152);
  EXPECT_DOUBLE_EQ(parse_bandwidth("200Gbit/s"), 25e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("1e9"), 1e9);
  EXPECT_DOUBLE_EQ(parse_seconds("5us"), 5e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("10ms"), 0.01);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5s"), 1.5);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5"), 1.5);
  EXPECT_DOUBLE_EQ(parse_seconds("3ns"), 3e-9);
  EXPECT_DOUBLE_EQ(parse_flops("312TFLOP/s"), 312e12);
  EXPECT_DOUBLE_EQ(parse_flops("312e12"), 312e12);
}

TEST(Units, RejectsWhatIsNoQuantity) {
  for (const char* text : {"", " ", "GiB", "-1GiB", "nan", "inf", "12 GiB x", "1..5GiB", "0x10",
                           "12gib", "12Gi", "1e999", "1,5GiB", "5us"}) {
    EXPECT_THAT(input_error([&] { return parse_bytes(text); }),
                HasSubstr(std::string("'") + text + "' is not a number of bytes"));
  }
  EXPECT_THAT(input_error([] { return parse_bytes("12XB"); }),
              testing::AllOf(HasSubstr("unknown unit 'XB'"), HasSubstr("GiB")));
  EXPECT_THAT(input_error([] { return parse_bytes("9000PB"); }), Not(HasSubstr("too large")));
  EXPECT_THAT(input_error([] { return parse_bytes("10000PB"); }), HasSubstr("too large"));
  EXPECT_THAT(input_error([] { return parse_bandwidth("25GB"); }), HasSubstr("unknown unit 'GB'"));
  EXPECT_THAT(input_error([] { return parse_seconds("5h"); }), HasSubstr("a time"));
  EXPECT_THAT(input_error([] { return parse_flops("312T"); }), HasSubstr("a compute speed"));
  EXPECT_THAT(input_error([] { return parse_flops("1e308TFLOP/s"); }), HasSubstr("too large"));
}

TEST(Units, FormatsThreeDigits) {
  EXPECT_EQ(format_bytes(12.0 * (1 << 30)), "12.0 GiB");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(12), "12 B");
  EXPECT_EQ(format_bytes(1000), "1000 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(1048576 - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(-1536), "-1.50 KiB");
  EXPECT_EQ(format_seconds(0.00321), "3.21 ms");
  EXPECT_EQ(format_seconds(0.0099996), "10.0 ms");
  EXPECT_EQ(format_seconds(0.0999999), "100 ms");
  EXPECT_EQ(format_seconds(0.9996), "1.00 s");
  EXPECT_EQ(format_seconds(12345), "12345 s");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(1.25e-10), "0.125 ns");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "inf s");
  EXPECT_EQ(format_bandwidth(25e9), "25.0 GB/s");
  EXPECT_EQ(format_flops(312e12), "312 TFLOP/s");
  EXPECT_EQ(format_count(17e6), "17.0M");
  EXPECT_EQ(format_count(175e9), "175B");
  EXPECT_EQ(format_count(999), "999");
}

TEST(Units, WhatIsPrintedCanBeRead) {
  for (int i = 0; i < 18; ++i) {
    const double bytes = std::pow(7.3, i);
    EXPECT_NEAR(static_cast<double>(parse_bytes(format_bytes(bytes))), bytes, bytes * 0.006 + 0.5);
    EXPECT_NEAR(parse_bandwidth(format_bandwidth(bytes)), bytes, bytes * 0.006);
    EXPECT_NEAR(parse_flops(format_flops(bytes)), bytes, bytes * 0.006);
    EXPECT_NEAR(parse_seconds(format_seconds(bytes * 1e-9)), bytes * 1e-9, bytes * 0.006e-9);
  }
}

}  // namespace
}  // namespace weft
