// The C boundary of the Rust library in this folder: tokenizers, chat templates, grammars.
//
// Rules that hold for every function:
// * A text is bytes and a size; no zero at the end. What the caller lends (TextSlice and the arrays
// of
//   TextVocabulary) is read during the call only.
// * Functions that can fail return a TextStatus. When it is not TEXT_OK, `error` holds one line of
//   UTF-8 (free it with text_buffer_free) and the other outputs are untouched.
// * Outputs of a call that succeeded belong to the caller, who frees them with the function named.
// * A panic inside the library comes back as TEXT_PANIC.
// * Objects are immutable after their making, but for TextGrammar: several threads may use one at
//   once, until it is freed.
// * Pointers to objects and outputs must not be null; a `data` of size 0 may be.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum TextStatus {
  TEXT_OK = 0,
  TEXT_INVALID_ARGUMENT = 1,  // the caller's text or template is wrong
  TEXT_CORRUPT = 2,           // the vocabulary contradicts itself
  TEXT_UNSUPPORTED = 3,       // well-formed, but not a thing this library does
  TEXT_PANIC = 4,             // a bug in the library
  TEXT_EXHAUSTED = 5,         // larger than a limit
  TEXT_IO = 6,                // the operating system said no
} TextStatus;

// Bytes that the caller lends.
typedef struct TextSlice {
  const uint8_t* data;
  size_t size;
} TextSlice;

// Bytes that the library gave away; zero it before the call.
typedef struct TextBuffer {
  uint8_t* data;
  size_t size;
  size_t capacity;
} TextBuffer;

// Token ids that the library gave away; zero it before the call.
typedef struct TextIds {
  uint32_t* data;
  size_t size;
  size_t capacity;
} TextIds;

// Gives the memory back and zeroes the struct. A zeroed struct is fine.
void text_buffer_free(TextBuffer* buffer);
void text_ids_free(TextIds* ids);

// ---- Tokenizer ----

typedef struct TextTokenizer TextTokenizer;

enum { TEXT_KIND_SCORES = 0, TEXT_KIND_MERGES = 1 };

// A tokenizer as GGUF files describe it.
typedef struct TextVocabulary {
  uint8_t kind;  // TEXT_KIND_SCORES (SentencePiece BPE) or TEXT_KIND_MERGES (byte-level BPE)
  bool add_bos;  // what add_special of text_tokenizer_encode adds
  bool add_eos;
  bool add_space_prefix;  // kind scores: every stretch of text between added tokens gets a space
                          // first
  int32_t bos;            // token ids; -1 where there is none
  int32_t eos;
  int32_t unknown;
  const TextSlice* tokens;  // index = token id
  size_t token_count;
  const float* scores;  // kind scores: as many as tokens, all finite
  size_t score_count;
  const uint8_t* types;  // tokenizer.ggml.token_type, 1 to 6, as many as tokens
  size_t type_count;
  const TextSlice* merges;  // kind merges: "left right", the best first
  size_t merge_count;
  TextSlice pre_tokenizer;  // kind merges: default, gpt-2, llama-bpe, qwen2 or smollm
} TextVocabulary;

// Makes a tokenizer; free it with text_tokenizer_free. TEXT_CORRUPT: counts disagree, a text is not
// UTF-8, an id or a merge names no token, a score is not finite. TEXT_UNSUPPORTED: unknown
// pre-tokenizer, named in the message.
TextStatus text_tokenizer_new(const TextVocabulary* vocabulary, TextTokenizer** tokenizer,
                              TextBuffer* error);
void text_tokenizer_free(TextTokenizer* tokenizer);  // null is fine

// The same from a Hugging Face tokenizer.json (BPE or Unigram with a decoder that goes token by
// token); add_special adds what its post-processor says. The file is untrusted: sizes, ids, steps
// and what they may make of a text are bounded, and no expression of the file runs at load.
// TEXT_CORRUPT or TEXT_UNSUPPORTED with one line that names the part of the file.
TextStatus text_tokenizer_from_json(TextSlice json, TextTokenizer** tokenizer, TextBuffer* error);

// The ids of `text` (free them with text_ids_free). User-defined tokens are found in it always,
// special ones (control, unknown) where `parse_special`, leftmost first, the longest of several.
// TEXT_INVALID_ARGUMENT: not UTF-8, or more than 2 GiB.
TextStatus text_tokenizer_encode(const TextTokenizer* tokenizer, TextSlice text, bool add_special,
                                 bool parse_special, TextIds* ids, TextBuffer* error);

// The lowest id of the token with exactly this spelling (kind scores: with U+2581 for spaces), or
// -1.
int32_t text_tokenizer_find(const TextTokenizer* tokenizer, TextSlice spelling);

// What the tokens stand for: token i the bytes [offsets[i], offsets[i + 1]), which need not be
// whole characters; a special token its spelling. Valid as long as the tokenizer.
typedef struct TextTokenTable {
  size_t count;
  const uint8_t* bytes;
  const uint32_t* offsets;  // count + 1
  const uint8_t* special;   // 1: control or unknown, stands for no text in an answer
  const uint32_t* missing;  // ascending: ids below count without a token
  size_t missing_count;
  // No token stands for more bytes of a text (where a text may spell " " as U+2581, counted so);
  // 0 where text may vanish on its way.
  uint32_t longest_text;
} TextTokenTable;
TextTokenTable text_tokenizer_table(const TextTokenizer* tokenizer);

// ---- Chat template ----

typedef struct TextTemplate TextTemplate;

// Compiles a Jinja template; free it with text_template_free. TEXT_INVALID_ARGUMENT names the line.
TextStatus text_template_compile(TextSlice source, TextTemplate** out, TextBuffer* error);
void text_template_free(TextTemplate* chat_template);  // null is fine

// Renders with the fields of a JSON object as variables, as transformers' apply_chat_template does
// (trim_blocks, lstrip_blocks, tojson, raise_exception, strftime_now, Python's string methods).
// TEXT_INVALID_ARGUMENT: the template raised (its message), failed, or took too many steps; or the
// context is not JSON. The calling thread needs 512 KiB of stack: macros may recurse. `now` is the
// time that strftime_now shows, in seconds since 1970.
TextStatus text_template_render(const TextTemplate* chat_template, TextSlice context_json,
                                int64_t now, TextBuffer* text, TextBuffer* error);

// ---- Grammar ----

typedef struct TextGrammarVocabulary TextGrammarVocabulary;
typedef struct TextGrammar TextGrammar;

// A model's tokens as grammars need them: token i stands for the bytes tokens[i] (none: there is no
// such token, it is never allowed) and is no text where special[i] is 1; free it with
// text_grammar_vocabulary_free. `tokenizer` (it may be freed before) cuts text that a grammar
// leaves no choice in. `stop_ids` (at least one) end a reply. Takes a second for 262144 tokens.
// TEXT_CORRUPT: a stop id is outside; TEXT_INVALID_ARGUMENT: there is none.
TextStatus text_grammar_vocabulary_new(const TextTokenizer* tokenizer, const TextSlice* tokens,
                                       const uint8_t* special, size_t token_count,
                                       const uint32_t* stop_ids, size_t stop_count,
                                       TextGrammarVocabulary** vocabulary, TextBuffer* error);
void text_grammar_vocabulary_free(TextGrammarVocabulary* vocabulary);  // null is fine

// Compiles a grammar in llguidance's Lark dialect (special tokens are no text: `<[id]>`; schemas:
// `%json {...}`), at its start; free it with text_grammar_free. The vocabulary may be freed before
// it. The grammar is untrusted: its size, memory, recursion and the work are bounded.
// TEXT_INVALID_ARGUMENT: wrong, or nothing satisfies it or a part that a reply could begin with;
// TEXT_UNSUPPORTED: a keyword of a schema; TEXT_EXHAUSTED: too large, or a pattern that a step
// could not follow.
TextStatus text_grammar_compile(const TextGrammarVocabulary* vocabulary, TextSlice lark,
                                TextGrammar** grammar, TextBuffer* error);
void text_grammar_free(TextGrammar* grammar);  // null is fine
// The same place in the same grammar, with a state of its own; free it with text_grammar_free.
TextStatus text_grammar_copy(const TextGrammar* grammar, TextGrammar** copy, TextBuffer* error);

// Writes which tokens may follow: bit id % 32 of word id / 32; (token_count + 31) / 32 words. All
// stop ids where the reply may end; one token of the tokenizer's own where the text has no choice.
// Compiles the grammar again where the work of all steps before has come to a limit.
// TEXT_EXHAUSTED: more work than a step may take; TEXT_INVALID_ARGUMENT: no token of the vocabulary
// can follow. The grammar is of no use after either.
TextStatus text_grammar_mask(TextGrammar* grammar, uint32_t* words, size_t word_count,
                             TextBuffer* error);

// Goes on by a token. `goes_on` says whether any may follow but a stop id. TEXT_INVALID_ARGUMENT:
// the token may not stand here.
TextStatus text_grammar_advance(TextGrammar* grammar, uint32_t token, bool* goes_on,
                                TextBuffer* error);

#ifdef __cplusplus
}
#endif
