#include "weft/onnx/known.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/base/error.h"

namespace weft::onnx_import {
namespace {

const Whole kB{1, true};

TEST(Whole, ArithmeticKeepsMultiplesOfTheBatch) {
  EXPECT_EQ(kB * Whole{12}, (Whole{12, true}));
  EXPECT_EQ((Whole{12, true}) / Whole{4}, (Whole{3, true}));
  EXPECT_EQ((Whole{12, true}) / kB, (Whole{12, false}));
  EXPECT_EQ(kB + (Whole{2, true}), (Whole{3, true}));
  EXPECT_EQ(kB - kB, (Whole{0, false}));
  EXPECT_EQ(remainder({8, true}, {4, false}, true), (Whole{0, false}));
  EXPECT_EQ(remainder({-1, false}, {4, false}, true), (Whole{3, false}));
  EXPECT_EQ(remainder({-1, false}, {4, false}, false), (Whole{-1, false}));
}

TEST(Whole, WhatDependsOnTheBatchIsRefused) {
  EXPECT_THROW((void)(kB + Whole{1}), Error);
  EXPECT_THROW((void)(kB * kB), Error);
  EXPECT_THROW((void)(kB / Whole{2}), Error);
  EXPECT_THROW((void)(Whole{1} / Whole{0}), Error);
  EXPECT_THROW((void)order(kB, {4, false}), Error);
  EXPECT_THROW((void)remainder(kB, {4, false}, true), Error);
}

TEST(Whole, OrderIsDecidedWhereEveryBatchAgrees) {
  EXPECT_EQ(order(kB, {-1, false}), 1);  // Equal(shape, -1), as exporters write it
  EXPECT_EQ(order({0, false}, kB), -1);
  EXPECT_EQ(order({3, true}, {2, true}), 1);
}

TEST(Known, F16GoesThereAndBack) {
  for (const float x : {0.0F, 1.0F, -2.5F, 65504.0F, 6.1e-5F, 6e-8F, 0.333251953125F}) {
    EXPECT_NEAR(f16_to_float(float_to_f16(x)), x, std::abs(x) * 1e-3 + 3e-8);
  }
  EXPECT_EQ(float_to_f16(65520.0F), 0x7c00);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(NAN))));
  EXPECT_EQ(float_to_f16(2049.0F), float_to_f16(2048.0F));  // ties go to the even one
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(float_to_f16(f16_to_float(static_cast<std::uint16_t>(bits))), bits);
  }
}

TEST(Known, DecodesAndEncodes) {
  const float numbers[] = {1.5F, -2.0F};
  FileTensor tensor{.name = "w", .element = Element::f32, .dims = {2}};
  tensor.bytes.assign(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  const Known known = decode(tensor);
  EXPECT_EQ(known.reals, (std::vector<double>{1.5, -2.0}));
  EXPECT_EQ(encode(known, DType::f32), tensor.bytes);
  EXPECT_EQ(encode(known, DType::bf16).size(), 4U);
  EXPECT_FALSE(known.is_splat());
}

TEST(Known, TooManyElementsAreRefused) {
  EXPECT_THROW(checked_elements({std::int64_t{1} << 40}), Error);
  EXPECT_THROW(checked_elements({std::int64_t{1} << 62, 4}), Error);
  EXPECT_THROW(checked_elements({-1}), Error);
  EXPECT_EQ(checked_elements({0, 7}), 0);
  EXPECT_THROW(checked_elements({0, std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_THROW(checked_elements(Ints(1000, 1)), Error);
}

TEST(Known, RealsAreCutToWholeNumbersThatThereAre) {
  EXPECT_EQ(cut_to_whole(-2.75), -2);
  EXPECT_EQ(cut_to_whole(-0x1p62), -(std::int64_t{1} << 62));
  for (const double x : {0x1p63, -1e300, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    EXPECT_THROW((void)cut_to_whole(x), Error) << x;
  }
}

}  // namespace
}  // namespace weft::onnx_import
