#include "weft/graph/type.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

TEST(Type, KnowsItsDTypes) {
  EXPECT_EQ(element_bytes(DType::f64), 8);
  EXPECT_EQ(element_bytes(DType::bf16), 2);
  EXPECT_EQ(element_bytes(DType::u8), 1);
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_THROW(static_cast<void>(parse_dtype("float")), Error);
}

TEST(Type, CountsElementsAndBytes) {
  const TensorType type{{2, 3, 4}, DType::f16};
  EXPECT_EQ(type.elements(), 24);
  EXPECT_EQ(type.bytes(), 48);
  EXPECT_EQ(type.rank(), 3);
  EXPECT_EQ(type.size(0), 2);
  EXPECT_EQ(type.size(-1), 4);
  EXPECT_EQ((TensorType{{}, DType::f32}.elements()), 1) << "a scalar";
  EXPECT_THROW(static_cast<void>(type.size(3)), Error);
  EXPECT_THROW(static_cast<void>(type.size(-4)), Error);
}

TEST(Type, DoesNotCountWhatIsNotKnownOrTooLarge) {
  EXPECT_THROW(static_cast<void>((TensorType{{kBatch, 2}, DType::f32}.elements())), Error);
  EXPECT_THROW(static_cast<void>((TensorType{{kBatch, 2}, DType::f32}.size(0))), Error);
  EXPECT_EQ((TensorType{{kBatch, 2}, DType::f32}.size(1)), 2);
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_THROW(static_cast<void>((TensorType{{large, large}, DType::u8}.elements())), Error);
  EXPECT_THROW(static_cast<void>((TensorType{{large, 1 << 22}, DType::f32}.bytes())), Error);
}

TEST(Type, MultipliesDims) {
  EXPECT_EQ(Dim(3) * Dim(4), Dim(12));
  EXPECT_EQ(kBatch * Dim(12), Dim(12, true));
  EXPECT_EQ(Dim(12) * kBatch, Dim(12, true));
  EXPECT_THROW(static_cast<void>(kBatch * kBatch), Error);
}

TEST(Type, HasATextForm) {
  EXPECT_EQ(format_type({{kBatch, 128, 64}, DType::f32}), "f32[B,128,64]");
  EXPECT_EQ(format_shape({{12, true}, 4}), "[12B,4]");
  EXPECT_EQ(format_type({{}, DType::i64}), "i64[]");
  for (const char* text : {"f32[B,128,64]", "bf16[12B,4]", "i64[]", "u8[1]"}) {
    EXPECT_EQ(format_type(parse_type(text)), text);
  }
  for (const char* text :
       {"", "f32", "f32[", "f32]", "f32[1,]", "f32[,1]", "f32[-1]", "f32[BB]", "f32[B2]", "f33[1]",
        "f32[1]x", "f32[ 1]", "f32[99999999999999999999]", "[1]"}) {
    EXPECT_THROW(static_cast<void>(parse_type(text)), Error) << text;
  }
}

TEST(Type, BindsTheBatch) {
  const TensorType type{{{12, true}, 4}, DType::f32};
  EXPECT_FALSE(is_bound(type.shape));
  EXPECT_EQ(bind(type, 8), (TensorType{{96, 4}, DType::f32}));
  EXPECT_TRUE(is_bound(weft::bind(type.shape, 8)));
  EXPECT_THROW(static_cast<void>(bind(type, std::int64_t{1} << 62)), Error);
}

}  // namespace
}  // namespace weft
