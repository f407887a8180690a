// Normal form C: decompose each character canonically (to the end), order marks that follow each
// other by their combining class, then compose again from the left: a mark joins the last starter
// if no mark of the same or a higher class (nor another starter) stands between and the two have a
// composite. Hangul syllables are arithmetic: S = 0xAC00 + (L·21 + V)·28 + T.
//
// A character that is a starter and never joins what is before it begins a piece of its own, so the
// text is normalised piece by piece, and most pieces are that one character.
#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "weft/store/unicode.h"
#include "weft/store/unicode_tables.h"

namespace weft {

namespace {

constexpr std::uint32_t kSyllables = 0xAC00;
constexpr std::uint32_t kL = 0x1100;
constexpr std::uint32_t kV = 0x1161;
constexpr std::uint32_t kT = 0x11A7;
constexpr std::uint32_t kCountL = 19;
constexpr std::uint32_t kCountV = 21;
constexpr std::uint32_t kCountT = 28;

// No character below this is changed by NFC or joins another.
constexpr std::uint32_t kFirstMark = 0x300;

bool is_unsafe(std::uint32_t code) {
  if (code < kFirstMark || code == kInvalidCode) {
    return false;
  }
  const auto ranges = nfc_unsafe_ranges();
  const auto after = std::ranges::upper_bound(ranges, code, {}, &CodeRange::first);
  return after != ranges.begin() && (after - 1)->last >= code;
}

std::uint32_t combining_class(std::uint32_t code) {
  const auto ranges = combining_ranges();
  const auto after = std::ranges::upper_bound(ranges, code, {}, &CombiningRange::first);
  const bool inside = after != ranges.begin() && (after - 1)->last >= code;
  return inside ? (after - 1)->combining_class : 0;
}

void decompose(std::uint32_t code, std::vector<std::uint32_t>& out) {
  const std::uint32_t s = code - kSyllables;
  if (code >= kSyllables && s < kCountL * kCountV * kCountT) {
    out.push_back(kL + s / (kCountV * kCountT));
    out.push_back(kV + s / kCountT % kCountV);
    if (s % kCountT != 0) {
      out.push_back(kT + s % kCountT);
    }
    return;
  }
  const auto rows = decompositions();
  const auto row = std::ranges::lower_bound(rows, code, {}, &Decomposition::code);
  if (row == rows.end() || row->code != code) {
    out.push_back(code);
    return;
  }
  decompose(row->first, out);
  if (row->second != 0) {
    decompose(row->second, out);
  }
}

using Pair = std::pair<std::uint32_t, std::uint32_t>;

const std::map<Pair, std::uint32_t>& compositions() {
  static const std::map<Pair, std::uint32_t> table = [] {
    std::map<Pair, std::uint32_t> result;
    for (const Decomposition& row : decompositions()) {
      if (row.composes != 0) {
        result[{row.first, row.second}] = row.code;
      }
    }
    return result;
  }();
  return table;
}

/// The composite of two characters, or 0.
std::uint32_t composite(std::uint32_t a, std::uint32_t b) {
  if (a - kL < kCountL && b - kV < kCountV) {
    return kSyllables + ((a - kL) * kCountV + (b - kV)) * kCountT;
  }
  const std::uint32_t s = a - kSyllables;
  if (s < kCountL * kCountV * kCountT && s % kCountT == 0 && b > kT && b - kT < kCountT) {
    return a + (b - kT);
  }
  const auto found = compositions().find({a, b});
  return found == compositions().end() ? 0 : found->second;
}

void append_composed(std::span<const std::uint32_t> piece, std::string& text) {
  std::vector<std::uint32_t> codes;
  for (const std::uint32_t code : piece) {
    decompose(code, codes);
  }
  for (auto run = codes.begin(); run != codes.end();) {
    const auto end = std::find_if(run + 1, codes.end(),
                                  [](std::uint32_t code) { return combining_class(code) == 0; });
    std::stable_sort(
        combining_class(*run) == 0 ? run + 1 : run, end,
        [](std::uint32_t a, std::uint32_t b) { return combining_class(a) < combining_class(b); });
    run = end;
  }
  std::vector<std::uint32_t> out;
  std::size_t starter = codes.size();  // none yet
  std::uint32_t last_class = 0;        // of what was kept behind the starter
  for (const std::uint32_t code : codes) {
    const std::uint32_t own = combining_class(code);
    const bool blocked = starter + 1 < out.size() && (own == 0 || last_class >= own);
    const std::uint32_t joined =
        starter < out.size() && !blocked ? composite(out[starter], code) : 0;
    if (joined != 0) {
      out[starter] = joined;
      continue;
    }
    if (own == 0) {
      starter = out.size();
    }
    last_class = own;
    out.push_back(code);
  }
  for (const std::uint32_t code : out) {
    append_utf8(code, text);
  }
}

}  // namespace

bool needs_nfc(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const Character c = character_at(text, i);
    if (is_unsafe(c.code)) {
      return true;
    }
    i += c.bytes;
  }
  return false;
}

std::string to_nfc(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  std::vector<std::uint32_t> piece;
  const auto flush = [&] {
    if (piece.size() == 1 && !is_unsafe(piece[0])) {
      append_utf8(piece[0], result);
    } else if (!piece.empty()) {
      append_composed(piece, result);
    }
    piece.clear();
  };
  for (std::size_t i = 0; i < text.size();) {
    const Character c = character_at(text, i);
    if (!is_unsafe(c.code)) {
      flush();
    }
    if (c.code == kInvalidCode) {
      result.push_back(text[i]);
    } else {
      piece.push_back(c.code);
    }
    i += c.bytes;
  }
  flush();
  return result;
}

}  // namespace weft
