#pragma once

#include <array>
#include <string>
#include <string_view>

namespace weft::fuzz {

/// Reads bytes that anybody may have written. Returns, or throws Error{input}: all else is a bug.
using Read = void (*)(std::string_view bytes);

void cluster(std::string_view bytes);
void config(std::string_view bytes);
void data(std::string_view bytes);
void galvatron(std::string_view bytes);
void graph_text(std::string_view bytes);
void layer_profile(std::string_view bytes);
void model_text(std::string_view bytes);
void onnx(std::string_view bytes);
void pins(std::string_view bytes);
void plan(std::string_view bytes);
void safetensors(std::string_view bytes);
void selection(std::string_view bytes);
void tokenizer(std::string_view bytes);

struct Target {
  std::string_view name;  // also of <name>_fuzz.cpp and of corpus/<name>
  Read read = nullptr;
};
inline constexpr std::array kTargets = {Target{"cluster", cluster},
                                        Target{"config", config},
                                        Target{"data", data},
                                        Target{"galvatron", galvatron},
                                        Target{"graph_text", graph_text},
                                        Target{"layer_profile", layer_profile},
                                        Target{"model_text", model_text},
                                        Target{"onnx", onnx},
                                        Target{"pins", pins},
                                        Target{"plan", plan},
                                        Target{"safetensors", safetensors},
                                        Target{"selection", selection},
                                        Target{"tokenizer", tokenizer}};

/// What a reader did wrong; empty if nothing.
[[nodiscard]] std::string complaint(Read read, std::string_view bytes);

/// Layers that a model "family:key=value,…" asks for. Models of 10000 layers are allowed, but
/// building them takes seconds, in which a fuzzer tries nothing else.
[[nodiscard]] double layers_of(std::string_view description);

}  // namespace weft::fuzz
