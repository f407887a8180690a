// What a model must be so that data sets can feed it: the runtime fills inputs by name, ids stay
// below the vocabulary, and kernels look rows of tables up without asking again.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "weft/frontend/model_file.h"
#include "weft/frontend/stored_violations.h"
#include "weft/ops/verify.h"

namespace weft {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64;
}

bool begins_with_batch(const Shape& shape) {
  return !shape.empty() && shape.front() == kBatch;
}

/// What data fill the input with, or nothing if they cannot.
bool is_filled(const Value& input) {
  const Shape& shape = input.type.shape;
  const bool ids = input.type.dtype == DType::i64 && begins_with_batch(shape);
  const bool numbers = is_floating(input.type.dtype) && begins_with_batch(shape);
  const bool scalar = is_floating(input.type.dtype) && shape.empty();
  if (input.name == "tokens" || input.name == "decoder_tokens") {
    return ids && shape.size() == 2;
  }
  if (input.name == "labels") {
    return ids && shape.size() <= 2;
  }
  if (input.name == "x" || input.name == "targets") {
    return numbers && shape.size() >= 2;
  }
  return scalar && (input.name == "inv_count" || input.name == "sample_share");
}

void check_inputs(const Graph& graph, std::vector<std::string>& found) {
  bool samples = false;
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::input) {
      continue;
    }
    samples = samples || value.name == "tokens" || value.name == "x";
    if (!is_filled(value)) {
      found.push_back(
          fmt::format("no data fill the input '{}' {}: inputs are tokens, decoder_tokens "
                      "(i64[B,n]), labels (i64[B] or i64[B,n]), x, targets (floating, [B,…]), "
                      "inv_count and sample_share (floating, [])",
                      value.name, format_type(value.type)));
    }
  }
  if (!samples) {
    found.emplace_back("the model reads no samples: its input is 'tokens' or 'x'");
  }
}

void check_loss(const Graph& graph, std::vector<std::string>& found) {
  if (graph.loss < 0) {
    found.emplace_back("the model has no loss");
    return;
  }
  const Value& loss = graph.values[static_cast<std::size_t>(graph.loss)];
  if (!loss.type.shape.empty() || !is_floating(loss.type.dtype)) {
    found.push_back(
        fmt::format("the loss '{}' is {}, not one number", loss.name, format_type(loss.type)));
  }
}

void check_roles(const Graph& graph, std::vector<std::string>& found) {
  for (const Node& node : graph.nodes) {
    // Running statistics are the one thing that a forward pass updates.
    if (node.role != Role::forward && node.op != "ema") {
      found.push_back(fmt::format("node '{}' is of the {}: a model is a forward pass", node.name,
                                  role_name(node.role)));
    }
  }
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::state) {
      found.push_back(fmt::format("'{}' is a state: a model is a forward pass", value.name));
    }
  }
}

}  // namespace

std::int64_t sequence_of(const Graph& forward) {
  for (const Value& value : forward.values) {
    if (value.kind == ValueKind::input && value.name == "tokens" && value.type.rank() == 2) {
      return value.type.shape[1].size;
    }
  }
  return 0;
}

std::int64_t vocabulary_of(const Graph& forward) {
  const auto type = [&](ValueId id) -> const Value& {
    return forward.values[static_cast<std::size_t>(id)];
  };
  std::int64_t limit = kNoLimit;
  for (const Node& node : forward.nodes) {
    if (node.inputs.size() < 2) {
      continue;
    }
    const Value& first = type(node.inputs[0]);
    if (node.op == "embedding" && type(node.inputs[1]).kind == ValueKind::input &&
        !first.type.shape.empty()) {
      limit = std::min(limit, first.type.shape.front().size);
    } else if (node.op == "label_scores" && !first.type.shape.empty()) {
      limit = std::min(limit, first.type.shape.back().size);
    }
  }
  return limit == kNoLimit ? 0 : limit;
}

std::vector<std::string> violations(const Model& model, const OpTable& ops) {
  std::vector<std::string> found = violations(model.forward, ops);
  if (!found.empty()) {
    return found;  // what follows reads types
  }
  check_roles(model.forward, found);
  check_inputs(model.forward, found);
  check_loss(model.forward, found);
  const std::vector<std::string> stored = stored_violations(model.forward, model.stored);
  found.insert(found.end(), stored.begin(), stored.end());
  if (model.sequence != sequence_of(model.forward)) {
    found.push_back(fmt::format("the sequence is {}, but a sample has {} tokens", model.sequence,
                                sequence_of(model.forward)));
  }
  if (model.vocabulary > vocabulary_of(model.forward)) {
    found.push_back(fmt::format("the vocabulary is {}, but the graph has tables of {} rows",
                                model.vocabulary, vocabulary_of(model.forward)));
  }
  return found;
}

}  // namespace weft
