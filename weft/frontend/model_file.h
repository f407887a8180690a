#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/frontend/model.h"

namespace weft {

/// The text of a model: a line that says what it is, a JSON line with what stands beside the graph,
/// a JSON line for each stored part, and the graph's text form. docs/spec/model.md defines it. The
/// description is no part of it.
[[nodiscard]] std::string format_model(const Model& model);
/// The reverse. Throws Error{input} that names `where`. What it returns has no violations.
[[nodiscard]] Model parse_model(std::string_view text, const std::string& where,
                                const OpTable& ops);

/// Writes FILE.weft, which every command takes as MODEL.
void save_model(const Model& model, const std::string& path);
/// Its description is "file:PATH@HASH": an absolute path, and the hash of the file's content, so
/// that a plan notices when the file is changed.
[[nodiscard]] Model read_model(const std::string& path, const OpTable& ops);

/// Whether MODEL of the command line or of a plan means a model file: "FILE.weft",
/// "file:PATH@HASH".
[[nodiscard]] bool names_model_file(std::string_view text);
/// `load_model` for those. A file fixes sequence and dtype: options that ask for others are
/// Error{input}.
[[nodiscard]] Model load_model_file(const std::string& text, const ModelOptions& options,
                                    const OpTable& ops);
/// What the model of that file computes in.
[[nodiscard]] DType model_file_dtype(const std::string& text, const OpTable& ops);

/// All that keeps a model from being trained: violations of its graph and stored parts, inputs that
/// no data fills, a sequence that is not that of its tokens, ids that its tables do not have.
[[nodiscard]] std::vector<std::string> violations(const Model& model, const OpTable& ops);

}  // namespace weft
