#include "weft/store/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "weft/base/error.h"
#include "weft/store/split_text.h"
#include "weft/store/unicode.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::uint32_t>;

/// The characters that stand for bytes, in the order of GPT-2's ids 0 … 255.
std::vector<std::string> alphabet() {
  std::vector<std::string> printed;
  std::vector<std::string> moved;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    std::string text;
    append_utf8(prints ? byte : 0x100 + static_cast<std::uint32_t>(moved.size()), text);
    (prints ? printed : moved).push_back(text);
  }
  printed.insert(printed.end(), moved.begin(), moved.end());
  return printed;
}

json byte_level(bool prefix = false, bool regex = true) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", regex}};
}

json split_on(const std::string& regex) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

json added(const std::string& content, int id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// The bytes, and GPT-2's first merges with those of "Hello" and " world", under their ids.
json small_gpt2() {
  json vocab;
  for (const std::string& token : alphabet()) {
    const auto id = vocab.size();
    vocab[token] = id;
  }
  json merges = json::array();
  int next = 256;
  for (const char* merge :
       {"Ġ t", "Ġ a", "h e",  "i n", "r e", "o n",  "Ġt he", "e r", "Ġ s", "a t",
        "Ġ w", "Ġ o", "e n",  "Ġ c", "i t", "i s",  "a n",   "o r", "e s", "Ġ b",
        "e d", "Ġ f", "in g", "Ġ p", "o u", "Ġa n", "a l",   "a r", "Ġt o"}) {
    merges.push_back(merge);
    std::string token = merge;
    token.erase(token.find(' '), 1);
    vocab[token] = next++;
  }
  const std::vector<std::tuple<std::string, std::string, int>> later = {
      {"l", "l", 297},     {"l", "d", 335},     {"e", "ll", 695},    {"Ġw", "or", 476},
      {"Ġwor", "ld", 995}, {"ell", "o", 11109}, {"H", "ello", 15496}};
  for (const auto& [left, right, id] : later) {
    merges.push_back(json::array({left, right}));  // the newer form
    vocab[left + right] = id;
  }
  return {{"version", "1.0"},
          {"added_tokens", {added("<|endoftext|>", 50256)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"vocab", vocab},
            {"merges", merges}}}};
}

Tokenizer make(const json& file) {
  return parse_tokenizer(file.dump(), "t.json");
}

std::string complaint(const json& file) {
  try {
    (void)make(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "";
}

std::vector<std::string> words(SplitPattern pattern, std::string_view text) {
  std::vector<std::string> result;
  while (!text.empty()) {
    result.emplace_back(text.substr(0, first_word(pattern, text)));
    text.remove_prefix(result.back().size());
  }
  return result;
}

// What the `regex` package of Python finds for the published patterns.
TEST(SplitText, CutsAsThePublishedPatternsDo) {
  const std::string text = "I'll DON'T x=12345;  \n\n  y\t z ½é 你好。\n";
  EXPECT_THAT(words(SplitPattern::gpt2, text),
              ElementsAre("I", "'ll", " DON", "'", "T", " x", "=", "12345", ";", "  \n\n ", " y",
                          "\t", " z", " ½", "é", " 你好", "。", "\n"));
  EXPECT_THAT(words(SplitPattern::llama3, text),
              ElementsAre("I", "'ll", " DON", "'T", " x", "=", "123", "45", ";", "  \n\n", " ",
                          " y", "\t", " z", " ", "½", "é", " 你好", "。\n"));
  EXPECT_THAT(words(SplitPattern::qwen2, "a 123,(b)"),
              ElementsAre("a", " ", "1", "2", "3", ",(", "b", ")"));
  EXPECT_THAT(words(SplitPattern::llama3, "\xFFz\n \n x'ſ"),
              ElementsAre("\xFFz", "\n \n", " x", "'ſ"));
  EXPECT_EQ(first_digits(true, "123a"), 1U);
  EXPECT_EQ(first_digits(false, "123a"), 3U);
  EXPECT_EQ(first_digits(false, "abc1"), 3U);
}

TEST(Tokenizer, GivesGpt2sIds) {
  const Tokenizer tokenizer = make(small_gpt2());
  EXPECT_EQ(tokenizer.vocabulary(), 50257);
  const std::vector<std::pair<std::string, Ids>> known = {{"Hello world", {15496, 995}},
                                                          {"Hello, world!", {15496, 11, 995, 0}},
                                                          {" to the", {284, 262}},
                                                          {" a an", {257, 281}},
                                                          {"1", {16}},
                                                          {"A:\n", {32, 25, 198}},
                                                          {" ", {220}},
                                                          {"", {}},
                                                          {"<|endoftext|>", {50256}},
                                                          {"Hello<|endoftext|>", {15496, 50256}}};
  for (const auto& [text, ids] : known) {
    EXPECT_EQ(tokenizer.encode(text), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
  EXPECT_THROW((void)tokenizer.decode(Ids{40000}), Error);
}

TEST(Tokenizer, AnyBytesComeBack) {
  const Tokenizer tokenizer = make(small_gpt2());
  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    text.push_back(static_cast<char>(random() % 256));
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

/// Merges the pair of the lowest rank, the leftmost of equals, until none is left.
std::vector<std::string> naive(const std::string& word,
                               const std::vector<std::pair<std::string, std::string>>& merges) {
  std::vector<std::string> symbols;
  for (const char c : word) {
    symbols.emplace_back(1, c);
  }
  while (true) {
    std::size_t best = merges.size();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        if (merges[rank] == std::pair(symbols[i], symbols[i + 1])) {
          best = rank;
          place = i;
        }
      }
    }
    if (best == merges.size()) {
      return symbols;
    }
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(Tokenizer, MergesAsTheNaiveAlgorithmDoes) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<std::string> tokens = {"a", "b", "c", "d"};
    std::vector<std::pair<std::string, std::string>> pairs;
    json vocab = {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}};
    json merges = json::array();
    while (pairs.size() < 30) {
      const std::pair pair(tokens[random() % tokens.size()], tokens[random() % tokens.size()]);
      const std::string token = pair.first + pair.second;
      if (std::find(pairs.begin(), pairs.end(), pair) != pairs.end() || token.size() > 8) {
        continue;
      }
      pairs.push_back(pair);
      merges.push_back({pair.first, pair.second});
      if (!vocab.contains(token)) {
        const auto id = vocab.size();
        vocab[token] = id;
        tokens.push_back(token);
      }
    }
    const Tokenizer tokenizer =
        make({{"pre_tokenizer", byte_level()}, {"model", {{"vocab", vocab}, {"merges", merges}}}});
    for (int w = 0; w < 50; ++w) {
      std::string word;
      for (std::size_t n = 1 + random() % 40; n > 0; --n) {
        word.push_back(static_cast<char>('a' + random() % 4));
      }
      Ids want;
      for (const std::string& symbol : naive(word, pairs)) {
        want.push_back(vocab[symbol]);
      }
      EXPECT_EQ(tokenizer.encode(word), want) << word;
    }
  }
}

TEST(Tokenizer, ALongWordTakesNoSquareOfTime) {
  const Tokenizer tokenizer = make(
      {{"pre_tokenizer", byte_level()},
       {"model", {{"vocab", {{"a", 0}, {"aa", 1}, {"aaaa", 2}}}, {"merges", {"a a", "aa aa"}}}}});
  EXPECT_EQ(tokenizer.encode(std::string(400003, 'a')).size(), 100000U + 2U);
}

TEST(Tokenizer, FollowsThePreTokenizer) {
  json file = small_gpt2();
  file["pre_tokenizer"] = byte_level(true);
  EXPECT_EQ(make(file).encode("to<|endoftext|>the"), (Ids{284, 50256, 262}));
  file = small_gpt2();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level()}}};
  EXPECT_EQ(make(file).encode(" the12"), (Ids{262, 16, 17}));
  // Without a cut the space could go to the first word; Llama-3's pattern leaves it to the second.
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {split_on(
            R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
        byte_level(false, false)}}};
  EXPECT_EQ(make(file).encode("Hello world!\n"), (Ids{15496, 995, 0, 198}));
  EXPECT_EQ(make(file).encode("1234 to"), (Ids{16, 17, 18, 19, 284}));
}

TEST(Tokenizer, AWholeWordMayWinOverMerges) {
  json file = {
      {"pre_tokenizer", byte_level()},
      {"model",
       {{"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"abc", 4}}}, {"merges", {"b c"}}}}};
  EXPECT_EQ(make(file).encode("abc"), (Ids{0, 3}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(make(file).encode("abc"), (Ids{4}));
}

TEST(Tokenizer, AddedTokensAreFoundFirst) {
  json file = small_gpt2();
  file["added_tokens"] = {added("<a>", 60000), added("<a><b>", 60001), added("<s>", 60002)};
  file["added_tokens"][2]["lstrip"] = true;
  file["added_tokens"][2]["rstrip"] = true;
  const Tokenizer tokenizer = make(file);
  EXPECT_EQ(tokenizer.encode("<a><b><a>"), (Ids{60001, 60000})) << "the longest";
  EXPECT_EQ(tokenizer.encode("1 \n<s>\t 1<"), (Ids{16, 60002, 16, 27}));
}

json llama2() {
  json vocab = {{"<unk>", 0}};
  for (int byte = 0; byte < 256; ++byte) {
    vocab[fmt::format("<0x{:02X}>", byte)] = byte + 3;
  }
  int next = 300;
  for (const char* token : {"▁", "a", "b", "▁a", "▁▁", "ab", "▁ab"}) {
    vocab[token] = next++;
  }
  return {{"added_tokens", {added("<s>", 1)}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
          {"model",
           {{"type", "BPE"},
            {"byte_fallback", true},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"vocab", vocab},
            {"merges", {"▁ ▁", "a b", "▁ ab", "▁ a"}}}}};
}

TEST(Tokenizer, FallsBackToBytes) {
  const Tokenizer tokenizer = make(llama2());
  EXPECT_EQ(tokenizer.encode("ab a"), (Ids{306, 303}));
  EXPECT_EQ(tokenizer.encode("a  ab"), (Ids{303, 304, 305}));
  EXPECT_EQ(tokenizer.encode("é\n"), (Ids{300, 0xC3 + 3, 0xA9 + 3, 10 + 3}));
  EXPECT_EQ(tokenizer.encode("<s>ab"), (Ids{1, 306}));
  EXPECT_EQ(tokenizer.decode(Ids{306, 303, 0xC3 + 3, 0xA9 + 3}), "ab aé");
  json file = llama2();
  file["model"]["byte_fallback"] = false;
  EXPECT_EQ(make(file).encode("éé a"), (Ids{300, 0, 303})) << "one unknown for both";
  file = llama2();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", true}};
  EXPECT_EQ(make(file).encode("a  ab<s>a"), (Ids{303, 300, 306, 1, 301}));
}

TEST(Unicode, ComposesCanonically) {
  const auto nfc = [](const char* text) { return to_nfc(text); };
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("\u212B"), "\u00C5");               // Ångström sign
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");         // excluded from composition
  EXPECT_EQ(nfc("a\u0315\u0300"), "\u00E0\u0315");  // ordered, then joined
  EXPECT_EQ(nfc("a\u0302\u0301"), "\u1EA5");
  EXPECT_EQ(nfc("\u1100\u1161\u11A8"), "\uAC01");  // Hangul
  EXPECT_EQ(nfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("x\xFF\u0301y"), "x\xFF\u0301y");  // bytes that are no text stay
  EXPECT_FALSE(needs_nfc("plain \u00E9 你好"));
  EXPECT_TRUE(needs_nfc("e\u0301"));
  json file = small_gpt2();
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(make(file).encode("e\u0301"), make(file).encode("\u00E9"));
  EXPECT_NE(make(small_gpt2()).encode("e\u0301"), make(file).encode("\u00E9"));
}

TEST(Unicode, ReadsOnlyValidCharacters) {
  for (const char* text : {"\x80", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF",
                           "\xE2\x82", "\xF0\x80\x80\x80"}) {
    EXPECT_EQ(character_at(text, 0).code, kInvalidCode);
    EXPECT_EQ(character_at(text, 0).bytes, 1U);
  }
  EXPECT_EQ(character_at("\U0001F600", 0).code, 0x1F600U);
}

TEST(Tokenizer, NamesWhatItDoesNotHandle) {
  const auto with = [](const char* pointer, const json& value) {
    json file = small_gpt2();
    file[json::json_pointer(pointer)] = value;
    return complaint(file);
  };
  const json steps = {{"type", "Sequence"}, {"pretokenizers", json(100, byte_level(true))}};
  EXPECT_THAT(with("/pre_tokenizer", steps), HasSubstr("200 steps cut the text"));
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("a Unigram model is not handled"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("\"dropout\" is not handled"));
  EXPECT_THAT(with("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(with("/normalizer", {{"type", "NFKC"}}), HasSubstr("normalizer NFKC"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Punctuation"}}), HasSubstr("Punctuation"));
  EXPECT_THAT(with("/pre_tokenizer", split_on(R"(\w+)")), HasSubstr(R"(pattern \w+ is not)"));
  EXPECT_THAT(with("/added_tokens/0/single_word", true), HasSubstr("single_word"));
  EXPECT_THAT(with("/added_tokens/0/id", 5), HasSubstr("the id 5 of another token"));
  EXPECT_THAT(with("/model/vocab/!", 1), HasSubstr("two tokens have the id 1"));
  EXPECT_THAT(with("/model/vocab/!", -1), HasSubstr("the id of \"!\""));
  EXPECT_THAT(with("/model/vocab/!", 1e30), HasSubstr("the id of \"!\""));
  EXPECT_THAT(with("/model/merges/0", "abc"), HasSubstr("merge 0"));
  EXPECT_THAT(with("/model/merges/0", "q q"), HasSubstr("\"qq\", which is not in the vocabulary"));
  EXPECT_THAT(with("/model/merges/0", json::array({"a", 1})), HasSubstr("merge 0"));
  EXPECT_THAT(with("/model/merges", "x"), HasSubstr("no list"));
  EXPECT_THAT(with("/model", 1), HasSubstr("no object"));
  EXPECT_THAT(with("/pre_tokenizer", json::array()), HasSubstr("no object"));
  EXPECT_THAT(complaint(json::array()), HasSubstr("not a tokenizer.json"));
  EXPECT_THROW((void)parse_tokenizer(std::string(100000, '['), "t"), Error);
  json file = small_gpt2();
  file["model"]["vocab"].erase("z");
  EXPECT_THROW((void)make(file).encode("z"), Error);
}

}  // namespace
}  // namespace weft
