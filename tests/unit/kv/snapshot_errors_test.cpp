// Every error that reading a snapshot can give, one row each: family, layer, kind, field, got and
// expected are all in the message.
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "unit/kv/snapshot_mutation.h"

namespace reprise {
namespace {

using test::chunk;
using test::erase_tensor;
using test::kStandard;
using test::scalar;
using test::set_scalar;
using test::tensor_of;
using test::tiny_layout;
using test::window;
using S = StateSnapshot;

const SnapshotWords kWords{.family = "gemma3"};
const std::string kFull = "layer0.standard.";
const std::string kRing = "layer1.rotating.";
const std::string kPart = "layer2.chunked.";

struct ErrorCase {
  std::string field;              // Error::field: "layer1.rotating.idx" ...
  std::vector<std::string> says;  // got and expected
  Errc code;
  std::function<void(StateSnapshot&)> spoil;
};

void cut(S& snapshot, const std::string& name, std::vector<std::int64_t> shape) {
  NamedTensor& tensor = *tensor_of(snapshot, name);
  tensor.shape = std::move(shape);
  tensor.bytes.resize(test::bytes_for(tensor));
}

void cut_both(S& snapshot, const std::string& prefix, std::int64_t tokens) {
  cut(snapshot, prefix + "keys", {1, 2, tokens, 16});
  cut(snapshot, prefix + "values", {1, 2, tokens, 32});
}

void poison(S& snapshot, const std::string& name) {
  const std::uint16_t infinity = 0x7c00;
  std::memcpy(tensor_of(snapshot, name)->bytes.data() + 6, &infinity, sizeof(infinity));
}

std::vector<ErrorCase> general_errors() {
  return {
      {"family",
       {"cannot restore llama snapshot into gemma3"},
       Errc::invalid_argument,
       [](S& s) { s.family = "llama"; }},
      {"token_length",
       {"token length -1, expected 0 to 2147483647"},
       Errc::corrupt,
       [](S& s) { s.token_length = -1; }},
      {"token_length",
       {"token length 4294967336, expected 0 to"},
       Errc::corrupt,
       [](S& s) { s.token_length += 4294967296; }},
      {kFull + "offset",
       {"offset 40 does not match its token length 41"},
       Errc::corrupt,
       [](S& s) { s.token_length = 41; }},
      {kRing + "offset",
       {"offset 39 does not match its token length 40"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "offset", 39); }},
      {kPart + "offset",
       {"declares a negative length: offset -5, expected 40"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kPart + "offset", -5); }},
      {kFull + "keys",
       {"only one of keys/values: got values only, expected both"},
       Errc::corrupt,
       [](S& s) { erase_tensor(s, kFull + "keys"); }},
      {kRing + "values",
       {"only one of keys/values: got keys only, expected both"},
       Errc::corrupt,
       [](S& s) { erase_tensor(s, kRing + "values"); }},
      {kRing + "keys",
       {"missing its keys buffer: got 0 tokens, expected [25, 40)"},
       Errc::corrupt,
       [](S& s) { erase_tensor(s, kRing + "keys"), erase_tensor(s, kRing + "values"); }},
      {kFull + "mode",
       {"mode turbo4 (tag 4) is not supported, expected fp16 (tag 0)"},
       Errc::unsupported,
       [](S& s) { set_scalar(s, kFull + "mode", 4); }},
      {kRing + "mode",
       {"unknown cache mode tag -1, expected 0 (fp16)"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "mode", -1); }},
      {kFull + "mode",
       {"got tensor layer0.standard.mode twice, expected it once"},
       Errc::corrupt,
       [](S& s) { s.tensors.push_back(scalar(kFull + "mode", 0)); }},
      {"layer3.standard.mode",
       {"got tensor layer3.standard.mode, expected only tensors of this model's 3 layers"},
       Errc::corrupt,
       [](S& s) { s.tensors.push_back(scalar("layer3.standard.mode", 0)); }},
      {"layer0.chunked.offset",
       {"got tensor layer0.chunked.offset, expected only"},
       Errc::corrupt,
       [](S& s) { s.tensors.push_back(scalar("layer0.chunked.offset", 40)); }},
  };
}

std::vector<ErrorCase> window_errors() {
  return {
      {kRing + "max_size",
       {"requires positive max_size; got 0, expected 16"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "max_size", 0); }},
      {kRing + "max_size",
       {"window 17 (max_size) does not match configured window 16"},
       Errc::invalid_argument,
       [](S& s) { set_scalar(s, kRing + "max_size", 17); }},
      {kRing + "buffer_size",
       {"requires non-negative buffer_size; got -1"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "buffer_size", -1); }},
      {kRing + "start_position",
       {"requires non-negative offset/start/idx", "got offset=40, start_position=-3, idx=16"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "start_position", -3); }},
      {kRing + "idx",
       {"requires non-negative offset/start/idx", "start_position=0, idx=-1"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "idx", -1); }},
      {kRing + "step",
       {"requires positive step; got 0"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "step", 0); }},
      {kRing + "idx",
       {"idx 17 exceeds physical length 16"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "idx", 17); }},
      {kRing + "idx",
       {"idx 0 of a wrapped ring with 16 slots, expected 1 to 16"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "idx", 0); }},
      {kRing + "idx",
       {"idx 16 of a wrapped ring with 18 slots, expected 18 to 18 (window 16)"},
       Errc::corrupt,
       [](S& s) { cut_both(s, kRing, 18); }},
      {kRing + "start_position",
       {"buffered window [5, 21)", "does not end at offset 40"},
       Errc::corrupt,
       [](S& s) {
         set_scalar(s, kRing + "buffer_size", 8), set_scalar(s, kRing + "start_position", 5);
       }},
      {kRing + "idx",
       {"idx 12 of an unwrapped ring, expected offset 40"},
       Errc::corrupt,
       [](S& s) { cut_both(s, kRing, 40), set_scalar(s, kRing + "idx", 12); }},
      {kRing + "keys",
       {"hold tokens [26, 40), expected [25, 40)"},
       Errc::corrupt,
       [](S& s) { cut_both(s, kRing, 14), set_scalar(s, kRing + "idx", 14); }},
      {kPart + "chunk_size",
       {"chunk size 9 (chunk_size) does not match configured chunk size 12"},
       Errc::invalid_argument,
       [](S& s) { set_scalar(s, kPart + "chunk_size", 9); }},
      {kPart + "start_position",
       {"window [41, 40) is not a valid range, expected start_position 0 to 40"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kPart + "start_position", 41); }},
      {kPart + "keys",
       {"declares 13 tokens but its keys buffer holds 12 (start_position 27)"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kPart + "start_position", 27); }},
      {kPart + "keys",
       {"hold tokens [37, 40), expected [36, 40)"},
       Errc::corrupt,
       [](S& s) { set_scalar(s, kPart + "start_position", 37); }},
  };
}

std::vector<ErrorCase> buffer_errors() {
  return {
      {kFull + "keys",
       {"declares 40 tokens but its keys buffer holds 39"},
       Errc::corrupt,
       [](S& s) { cut_both(s, kFull, 39); }},
      {kFull + "keys",
       {"expected rank-4 standard keys, got shape [2, 40, 16]"},
       Errc::corrupt,
       [](S& s) { cut(s, kFull + "keys", {2, 40, 16}); }},
      {kPart + "values",
       {"expected rank-4 chunked values, got shape [1]"},
       Errc::corrupt,
       [](S& s) { cut(s, kPart + "values", {1}); }},
      {kFull + "values",
       {"have shape [1, 1, 40, 32], expected [1, 2, tokens, 32]"},
       Errc::invalid_argument,
       [](S& s) { cut(s, kFull + "values", {1, 1, 40, 32}); }},
      {kFull + "keys",
       {"have shape [2, 2, 40, 16], expected [1, 2, tokens, 16]"},
       Errc::invalid_argument,
       [](S& s) { cut(s, kFull + "keys", {2, 2, 40, 16}); }},
      {kFull + "values",
       {"have shape [1, 2, 40, 16], expected [1, 2, tokens, 32]"},
       Errc::invalid_argument,
       [](S& s) { cut(s, kFull + "values", {1, 2, 40, 16}); }},
      {kFull + "values",
       {"keys [1, 2, 40, 16] and values [1, 2, 39, 32] disagree on batch, heads or length"},
       Errc::corrupt,
       [](S& s) { cut(s, kFull + "values", {1, 2, 39, 32}); }},
      {kFull + "keys",
       {"are bf16, expected f16"},
       Errc::invalid_argument,
       [](S& s) { tensor_of(s, kFull + "keys")->dtype = SnapshotDtype::bf16; }},
      {kFull + "offset",
       {"is f16 with shape [1], expected one i32"},
       Errc::corrupt,
       [](S& s) {
         tensor_of(s, kFull + "offset")->dtype = SnapshotDtype::f16;
         cut(s, kFull + "offset", {1});
       }},
      {kRing + "step",
       {"is i32 with shape [2], expected one i32"},
       Errc::corrupt,
       [](S& s) { cut(s, kRing + "step", {2}); }},
      {kFull + "keys",
       {"has 2559 bytes, expected 2560 for f16 shape [1, 2, 40, 16]"},
       Errc::corrupt,
       [](S& s) { tensor_of(s, kFull + "keys")->bytes.pop_back(); }},
      {kFull + "keys",
       {"has 2560 bytes, expected a possible size for f16 shape [1, -2, 40, 16]"},
       Errc::corrupt,
       [](S& s) { tensor_of(s, kFull + "keys")->shape[1] = -2; }},
      {kFull + "keys",
       {"has 2560 bytes, expected a possible size for f16 shape [1, 4611686018427387904, 40, 16]"},
       Errc::corrupt,
       [](S& s) { tensor_of(s, kFull + "keys")->shape[1] = std::int64_t{1} << 62; }},
      {kFull + "keys",
       {"a number that is not finite at head 0, position 0, expected finite numbers"},
       Errc::corrupt,
       [](S& s) { poison(s, kFull + "keys"); }},
      {kRing + "values",
       {"a number that is not finite at head 0, position 24, expected finite numbers"},
       Errc::corrupt,
       [](S& s) { poison(s, kRing + "values"); }},
  };
}

std::vector<ErrorCase> all_errors() {
  std::vector<ErrorCase> errors = general_errors();
  for (const auto& more : {window_errors(), buffer_errors()})
    errors.insert(errors.end(), more.begin(), more.end());
  return errors;
}

// The message without what varies: words with digits, and the names of fields and kinds.
std::string template_of(const std::string& message) {
  static const std::set<std::string> kVaries = {
      "keys",       "values",     "offset",   "max_size", "buffer_size",
      "mode",       "idx",        "step",     "f16",      "start_position",
      "chunk_size", "turbo_seed", "standard", "rotating", "chunked"};
  std::string result, word;
  const auto add_word = [&] {
    const bool varies = kVaries.contains(word) || word.find_first_of("0123456789") != word.npos;
    if (varies) word = "#";
    if (!word.empty() && !(varies && result.ends_with("# "))) result += word + " ";
    word.clear();
  };
  for (const char c : message) {
    if (c == ' ') {
      add_word();
    } else if (c != ',' && c != ':' && c != ';') {
      word += c;
    }
  }
  add_word();
  return result;
}

class SnapshotErrors : public testing::Test {
 protected:
  PagePool pool_{tiny_layout({kStandard, window(16), chunk(12)}, 2, 16, 32), std::size_t{1} << 24};
  std::vector<std::uint64_t> chain_ = test::chain_of(40);
  StateSnapshot good_ = test::snapshot_of(test::sequence_of(pool_, chain_, 40), kWords);

  std::string message_of(const ErrorCase& error) {
    StateSnapshot snapshot = good_;
    error.spoil(snapshot);
    const auto restored = restore_sequence(snapshot, kWords, pool_);
    return restored ? "no error" : restored.error().message;
  }
};

// "layer1.rotating.idx": the parts must be in the message, wherever.
void expect_parts(const std::string& message, const std::string& field) {
  std::size_t begin = 0;
  while (begin <= field.size()) {
    const std::size_t end = std::min(field.find('.', begin), field.size());
    const std::string part = field.substr(begin, end - begin);
    if (part != "token_length") {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
    begin = end + 1;
  }
}

TEST_F(SnapshotErrors, EachNamesFamilyLayerKindFieldGotAndExpected) {
  ASSERT_TRUE(restore_sequence(good_, kWords, pool_).has_value());
  for (const ErrorCase& error : all_errors()) {
    StateSnapshot snapshot = good_;
    error.spoil(snapshot);
    const auto restored = restore_sequence(snapshot, kWords, pool_);
    ASSERT_FALSE(restored.has_value()) << error.field << ": " << error.says.front();
    const Error& got = restored.error();
    EXPECT_EQ(got.code, error.code) << got.message;
    EXPECT_EQ(got.field, error.field) << got.message;
    EXPECT_NE(got.message.find("gemma3"), std::string::npos) << got.message;
    if (error.field != "family") expect_parts(got.message, error.field);
    for (const std::string& says : error.says) {
      EXPECT_NE(got.message.find(says), std::string::npos)
          << "got:      " << got.message << "\nexpected: " << says;
    }
    EXPECT_EQ(got.message.find('\n'), std::string::npos);
    EXPECT_EQ(pool_.used_bytes(), 0u);
    if (error.says.front().find("not finite") != std::string::npos) continue;  // content
    EXPECT_FALSE(snapshot_truncatable_to(snapshot, kWords, pool_.layout(), 40)) << got.message;
  }
}

// The same errors from reading one layer: nothing else is looked at.
TEST_F(SnapshotErrors, OneLayerReportsItsOwnOnly) {
  StateSnapshot snapshot = good_;
  set_scalar(snapshot, kRing + "max_size", 17);
  const auto ring = restore_from(snapshot, 1, kWords, pool_.layout());
  ASSERT_FALSE(ring.has_value());
  EXPECT_EQ(ring.error().field, "layer1.rotating.max_size");
  EXPECT_TRUE(restore_from(snapshot, 0, kWords, pool_.layout()).has_value());
  EXPECT_TRUE(restore_from(snapshot, 2, kWords, pool_.layout()).has_value());
  poison(snapshot, kPart + "values");
  EXPECT_FALSE(restore_from(snapshot, 2, kWords, pool_.layout()).has_value());
}

// Whatever damage does, the error is one of the table's.
TEST_F(SnapshotErrors, TheTableIsComplete) {
  std::set<std::string> known;
  for (const ErrorCase& error : all_errors()) known.insert(template_of(message_of(error)));
  test::Random random(7);
  std::set<std::string> met;
  for (int i = 0; i < 6000; i++) {
    StateSnapshot snapshot =
        test::formed_snapshot(kWords, pool_.layout(), 1 + random.below(40), chain_, random);
    for (std::int64_t n = 1 + random.below(3); n > 0; n--) test::Mutator(snapshot, random).mutate();
    const auto restored = restore_sequence(snapshot, kWords, pool_);
    if (restored) continue;
    const std::string name = template_of(restored.error().message);
    ASSERT_TRUE(known.contains(name)) << restored.error().message << "\nas " << name;
    met.insert(name);
  }
  EXPECT_GT(met.size(), known.size() * 3 / 4);  // the mutations reach most of it
}

TEST_F(SnapshotErrors, AFullPoolIsNamed) {
  PagePool small(tiny_layout({kStandard}), std::size_t{3} * 4096);
  const auto chain = test::chain_of(128);
  const SequenceCache cache = test::sequence_of(small, chain, 128);
  const auto restored = restore_sequence(test::snapshot_of(cache, kWords), kWords, small);
  ASSERT_FALSE(restored.has_value());
  EXPECT_EQ(restored.error().code, Errc::exhausted);
  EXPECT_EQ(restored.error().message,
            "gemma3 restore: snapshot of 128 tokens takes 8192 bytes of pages, 4096 are available");
  EXPECT_EQ(small.used_bytes(), std::size_t{2} * 4096);
}

}  // namespace
}  // namespace reprise
