// Tokenizers of Hugging Face folders: ids and texts equal Python's tokenizers
// (tools/goldens/make_tokenizer_goldens.py --json), and files that lie are errors in one line.
#include <functional>

#include <gtest/gtest.h>

#include "golden.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace reprise::test {
namespace {

Result<Tokenizer> tokenizer_of_json(const JsonValue& file, const TokenizerNames& names = {}) {
  return Tokenizer::from_json(to_json(file), names);
}

// A small file that is fine: three letters and two merges, "a" and "b" apart by a hole, one special
// token and one that is only added.
JsonObject small_file() {
  const auto parsed = parse_json(R"({
    "version": "1.0", "truncation": null, "padding": {"strategy": {"Fixed": 9}},
    "added_tokens": [
      {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true},
      {"id": 9, "content": "<tool>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": " ?\\p{L}{1,9}|\\s+"}, "behavior": "Isolated",
       "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
      "byte_fallback": false, "ignore_merges": false,
      "vocab": {"<s>": 0, "a": 1, "b": 3, "Ġ": 4, "Ġa": 5, "Ġab": 6},
      "merges": [["Ġ", "a"], "Ġa b"]}})");
  EXPECT_TRUE(parsed.has_value());
  return parsed->as_object();
}

std::string bytes_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.token_bytes(id);
  return bytes;
}

// What a server streams: without special tokens.
std::string answer_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

// Python's decoders strip the space that the normalizer put in front; a stream keeps it.
std::string without_prefix(std::string text, const std::string& python) {
  return text == " " + python ? python : text;
}

TEST(TokenizerJson, EqualsPythons) {
  const JsonValue golden = read_golden("tokenizer_json.json");
  std::size_t compared = 0;
  for (const JsonValue& value : golden.at("cases").as_array()) {
    const JsonObject& expected = value.as_object();
    const std::string name(expected.at("name").as_string());
    const auto tokenizer = tokenizer_of_json(expected.at("json"));
    ASSERT_TRUE(tokenizer.has_value()) << name << ": " << tokenizer.error().message;
    EXPECT_EQ(tokenizer->size(), expected.at("size").to_number<std::size_t>()) << name;
    EXPECT_EQ(tokenizer->encode("", AddSpecial::yes, ParseSpecial::no),
              ids_of(expected.at("around")))
        << name;
    const auto strings = strings_of(expected.at("strings"));
    for (std::size_t index = 0; index < strings.size(); ++index) {
      const std::string& text = strings[index];
      const auto where = name + ", string " + std::to_string(index) + ": " + text;
      const auto ids = tokenizer->encode(text, AddSpecial::no, ParseSpecial::yes);
      ASSERT_TRUE(ids.has_value()) << where << ": " << ids.error().message;
      EXPECT_EQ(*ids, ids_of(expected.at("parsed").at(index))) << where;
      EXPECT_EQ(tokenizer->encode(text, AddSpecial::no, ParseSpecial::no),
                ids_of(expected.at("plain").at(index)))
          << where;
      const std::string decoded(expected.at("decoded").at(index).as_string());
      EXPECT_EQ(without_prefix(bytes_of(*tokenizer, *ids), decoded), decoded) << where;
      const std::string answer(expected.at("answers").at(index).as_string());
      EXPECT_EQ(without_prefix(answer_of(*tokenizer, *ids), answer), answer) << where;
      EXPECT_LE(tokenizer->least_tokens(text), ids->size()) << where;
      ++compared;
    }
  }
  EXPECT_GE(compared, 500U);
}

TEST(TokenizerJson, LeastTokensRefusesMegabytesWhereNothingVanishes) {
  const JsonValue golden = read_golden("tokenizer_json.json");
  const std::string text(100'000, 'a');
  for (const JsonValue& value : golden.at("cases").as_array()) {
    const auto tokenizer = tokenizer_of_json(value.at("json"));
    ASSERT_TRUE(tokenizer.has_value());
    const std::string name(value.at("name").as_string());
    // The Unigram files have a token that takes the spaces before it along.
    if (name.starts_with("unigram")) {
      EXPECT_EQ(tokenizer->least_tokens(text), 0U) << name;
    } else {
      EXPECT_GE(tokenizer->least_tokens(text), 1000U) << name;
    }
  }
}

TEST(TokenizerJson, HolesAndNames) {
  const auto tokenizer = tokenizer_of_json(small_file(), {.bos = "<s>", .eos = "<tool>"});
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->size(), 10U);
  EXPECT_EQ(tokenizer->missing_ids(), (std::vector<TokenId>{2, 7, 8}));
  EXPECT_EQ(tokenizer->token_bytes(7), "");
  EXPECT_FALSE(tokenizer->is_special(7));
  EXPECT_EQ(tokenizer->find(""), std::nullopt);
  EXPECT_EQ(tokenizer->token_bytes(6), " ab");
  EXPECT_EQ(tokenizer->find("Ġab"), TokenId{6});
  EXPECT_EQ(tokenizer->bos(), TokenId{0});
  EXPECT_EQ(tokenizer->eos(), TokenId{9});
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(9));
  EXPECT_EQ(tokenizer->encode("a ab<tool><s>", AddSpecial::no, ParseSpecial::yes),
            (std::vector<TokenId>{1, 6, 9, 0}));
  // Padding and truncation are training's.
  EXPECT_EQ(tokenizer->encode("a", AddSpecial::yes, ParseSpecial::no), (std::vector<TokenId>{1}));
  const auto unnamed = tokenizer_of_json(small_file());
  ASSERT_TRUE(unnamed.has_value());
  EXPECT_EQ(unnamed->bos(), std::nullopt);
  const auto misnamed = tokenizer_of_json(small_file(), {.bos = "<bos>", .eos = {}});
  ASSERT_FALSE(misnamed.has_value());
  EXPECT_EQ(misnamed.error().message, "bos_token: tokenizer.json has no token \"<bos>\"");
}

TEST(TokenizerJson, StopStringsWorkOverIt) {
  const auto tokenizer = tokenizer_of_json(small_file());
  ASSERT_TRUE(tokenizer.has_value());
  Detokenizer detokenizer(*tokenizer);
  StopStrings stops({"b a"});
  std::string text;
  for (const TokenId id : {6, 5, 1, 3}) text += stops.push(detokenizer.push(id)).text;
  EXPECT_EQ(text, " a");
  EXPECT_TRUE(stops.stopped());
}

JsonValue step(const char* json) {
  return parse_json(json).value();
}

struct Broken {
  const char* name;
  std::function<void(JsonObject&)> spoil;
  Errc code;
  const char* message;
};

JsonObject& model(JsonObject& file) {
  return file["model"].as_object();
}
JsonObject& added(JsonObject& file, std::size_t index) {
  return file["added_tokens"].as_array()[index].as_object();
}

const Broken kBroken[] = {
    {"no model", [](auto& f) { f.erase("model"); }, Errc::corrupt, "missing field `model`"},
    {"model of another type", [](auto& f) { f["model"] = "BPE"; }, Errc::corrupt, "model: "},
    {"unknown model", [](auto& f) { model(f)["type"] = "WordPiece"; }, Errc::unsupported,
     "model: type \"WordPiece\", expected"},
    {"unknown version", [](auto& f) { f["version"] = "2.0"; }, Errc::unsupported, "version: got"},
    {"no vocab", [](auto& f) { model(f).erase("vocab"); }, Errc::corrupt, "model: missing field"},
    {"empty vocab",
     [](auto& f) {
       model(f)["vocab"] = JsonObject();
       model(f)["merges"] = JsonArray();
     },
     Errc::corrupt, "vocab has no tokens"},
    {"vocab as list", [](auto& f) { model(f)["vocab"] = JsonArray(); }, Errc::corrupt, "vocab"},
    {"id that is no number", [](auto& f) { model(f)["vocab"].as_object()["a"] = "1"; },
     Errc::corrupt, "model: invalid type"},
    {"negative id", [](auto& f) { model(f)["vocab"].as_object()["a"] = -1; }, Errc::corrupt,
     "model: invalid value"},
    {"huge id", [](auto& f) { model(f)["vocab"].as_object()["a"] = 4'000'000'000; }, Errc::corrupt,
     "\"a\" has the id 4000000000, expected less than 4194304"},
    {"id twice", [](auto& f) { model(f)["vocab"].as_object()["b"] = 1; }, Errc::corrupt,
     "vocab has the id 1 twice"},
    {"merge of nothing", [](auto& f) { model(f)["merges"].as_array().push_back("a q"); },
     Errc::corrupt, "model: "},
    {"merge of three", [](auto& f) { model(f)["merges"].as_array().push_back("a b c"); },
     Errc::corrupt, "merge \"a b c\", expected two tokens"},
    {"merge of one", [](auto& f) { model(f)["merges"].as_array().push_back(JsonArray{"a"}); },
     Errc::corrupt, "a merge is not two tokens"},
    {"dropout", [](auto& f) { model(f)["dropout"] = 0.1; }, Errc::unsupported, "dropout"},
    {"suffix", [](auto& f) { model(f)["end_of_word_suffix"] = "</w>"; }, Errc::unsupported,
     "end_of_word_suffix"},
    {"unknown token", [](auto& f) { model(f)["unk_token"] = "<unk>"; }, Errc::corrupt,
     "unk_token \"<unk>\" is not in vocab"},
    {"added id of another", [](auto& f) { added(f, 1)["id"] = 3; }, Errc::corrupt,
     "\"<tool>\" has the id 3 of \"b\""},
    {"added twice", [](auto& f) { added(f, 1)["id"] = 0; }, Errc::corrupt,
     "\"<s>\" and \"<tool>\" have the id 0"},
    {"added content twice", [](auto& f) { added(f, 1)["content"] = "<s>"; }, Errc::corrupt,
     "\"<s>\" has the ids 0 and 9"},
    {"added elsewhere", [](auto& f) { added(f, 0)["id"] = 2; }, Errc::corrupt,
     "\"<s>\" has the id 2, but 0 in the model"},
    {"added far away", [](auto& f) { added(f, 1)["id"] = 4'194'304; }, Errc::corrupt,
     "expected less than 4194304"},
    {"added nothing", [](auto& f) { added(f, 1)["content"] = ""; }, Errc::corrupt,
     "token 9 is empty"},
    {"added without flags", [](auto& f) { added(f, 1).erase("special"); }, Errc::corrupt,
     "missing field `special`"},
    {"no decoder", [](auto& f) { f["decoder"] = nullptr; }, Errc::unsupported, "decoder: got none"},
    {"decoder of words", [](auto& f) { f["decoder"] = step(R"({"type":"WordPiece"})"); },
     Errc::unsupported, "decoder: type \"WordPiece\""},
    {"decoder that grows",
     [](auto& f) {
       f["decoder"] = step(R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaa"})");
     },
     Errc::corrupt, "decoder: replaces 1 bytes by 4"},
    {"decoder without a type", [](auto& f) { f["decoder"] = JsonArray(); }, Errc::corrupt,
     "decoder: a step without a type"},
    {"unknown normalizer", [](auto& f) { f["normalizer"] = step(R"({"type":"Precompiled"})"); },
     Errc::unsupported, "normalizer: type \"Precompiled\""},
    {"normalizer with an expression",
     [](auto& f) {
       f["normalizer"] = step(R"({"type":"Replace","pattern":{"Regex":"(a*)*b"},"content":""})");
     },
     Errc::unsupported, "normalizer: Replace with an expression"},
    {"normalizer that grows",
     [](auto& f) {
       JsonArray steps;
       for (int i = 0; i < 7; ++i) {
         steps.push_back(step(R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})"));
       }
       f["normalizer"] = JsonObject{{"type", "Sequence"}, {"normalizers", std::move(steps)}};
     },
     Errc::unsupported, "normalizer: its steps can grow a text to"},
    {"many steps",
     [](auto& f) {
       JsonArray steps(40, step(R"({"type":"Digits","individual_digits":true})"));
       f["pre_tokenizer"] = JsonObject{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
     },
     Errc::unsupported, "pre_tokenizer: more than 32 steps"},
    {"expression that is none",
     [](auto& f) {
       f["pre_tokenizer"] = step(
           R"({"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated","invert":false})");
     },
     Errc::corrupt, "pre_tokenizer: "},
    {"long expression",
     [](auto& f) {
       f["pre_tokenizer"] = JsonObject{{"type", "Split"},
                                       {"pattern", {{"Regex", std::string(5000, 'a')}}},
                                       {"behavior", "Isolated"},
                                       {"invert", false}};
     },
     Errc::unsupported, "pre_tokenizer: expression of 5000 bytes, expected at most 2048"},
    {"expression of gigabytes",
     [](auto& f) {
       std::string expression;
       for (int i = 0; i < 100; ++i) expression += "\\pL{20}(?!a)";
       f["pre_tokenizer"] = JsonObject{{"type", "Split"},
                                       {"pattern", {{"Regex", expression}}},
                                       {"behavior", "Isolated"},
                                       {"invert", false}};
     },
     Errc::unsupported, "pre_tokenizer: 100 counted repetitions, expected at most 16"},
    {"post-processor of no token",
     [](auto& f) {
       f["post_processor"] = step(R"({"type":"TemplateProcessing","single":[
         {"SpecialToken":{"id":"<x>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[
         {"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
         "special_tokens":{"<x>":{"id":"<x>","ids":[77],"tokens":["<x>"]}}})");
     },
     Errc::corrupt, "post_processor: adds the id 77, which is no token"},
    {"odd post-processor", [](auto& f) { f["post_processor"] = 7; }, Errc::corrupt,
     "post_processor: "},
};

TEST(TokenizerJson, BrokenFilesAreErrorsInOneLine) {
  ASSERT_TRUE(tokenizer_of_json(small_file()).has_value());
  for (const Broken& broken : kBroken) {
    JsonObject file = small_file();
    broken.spoil(file);
    const auto tokenizer = tokenizer_of_json(file);
    ASSERT_FALSE(tokenizer.has_value()) << broken.name;
    const std::string& message = tokenizer.error().message;
    EXPECT_EQ(tokenizer.error().code, broken.code) << broken.name << ": " << message;
    EXPECT_TRUE(message.starts_with("tokenizer.json: ")) << broken.name << ": " << message;
    EXPECT_NE(message.find(broken.message), std::string::npos) << broken.name << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << broken.name;
  }
}

TEST(TokenizerJson, TextsThatAreNoFile) {
  const std::string whole = to_json(small_file());
  for (std::size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 7) {
    const auto tokenizer = Tokenizer::from_json(std::string_view(whole).substr(0, size), {});
    ASSERT_FALSE(tokenizer.has_value()) << size;
    EXPECT_TRUE(tokenizer.error().message.starts_with("tokenizer.json: "));
  }
  std::string twice = whole;
  twice.insert(1, R"("model": {},)");
  EXPECT_NE(Tokenizer::from_json(twice, {}).error().message.find("duplicate field `model`"),
            std::string::npos);
  const std::string deep = R"({"model": {}, "normalizer": )" + std::string(100'000, '[');
  EXPECT_FALSE(Tokenizer::from_json(deep, {}).has_value());
  EXPECT_EQ(
      Tokenizer::from_json("{\"\xFF\": 1}", {}).error().message.find("tokenizer.json: not UTF-8"),
      0U);
  const std::string huge = whole + std::string(std::size_t{64} << 20, ' ');
  EXPECT_NE(Tokenizer::from_json(huge, {}).error().message.find("expected at most 67108864"),
            std::string::npos);
}

// Any one value of the file replaced by another: an error, or a tokenizer that can be used.
TEST(TokenizerJson, EveryValueReplaced) {
  const std::string whole = to_json(small_file());
  const char* const others[] = {"null", "[]", "{}", "-1", "1e300", "\"x\"", "true", "4294967295"};
  std::size_t tried = 0;
  for (std::size_t at = whole.find(':'); at != std::string::npos; at = whole.find(':', at + 1)) {
    const std::size_t end = whole.find_first_of(",}]", at);
    for (const char* other : others) {
      std::string changed = whole;
      changed.replace(at + 1, end - at - 1, other);
      const auto tokenizer = Tokenizer::from_json(changed, {});
      ++tried;
      if (!tokenizer) {
        EXPECT_TRUE(tokenizer.error().message.starts_with("tokenizer.json: "));
        continue;
      }
      const auto ids = tokenizer->encode("a ab<s>\n", AddSpecial::yes, ParseSpecial::yes);
      if (!ids) continue;
      for (const TokenId id : *ids) {
        EXPECT_GE(id, 0);
        EXPECT_LT(static_cast<std::size_t>(id), tokenizer->size());
      }
    }
  }
  EXPECT_GE(tried, 300U);
}

}  // namespace
}  // namespace reprise::test
