//! Hugging Face's tokenizers, minijinja and llguidance behind the C header `text_ffi.h`, which is
//! the contract of every exported function. No panic crosses the boundary.
#![allow(clippy::missing_safety_doc)] // what callers must keep to is written in the header, once

mod added_tokens;
mod boundary;
mod byte_level;
mod chat_template;
mod grammar;
mod grammar_checks;
mod grammar_failures;
mod grammar_numbers;
mod grammar_tokens;
mod json_checks;
mod json_decoder;
mod json_file;
mod json_filter;
mod json_model;
mod json_tokenizer;
mod merge_encoder;
mod score_encoder;
mod token_table;
mod tokenizer;
mod vocabulary;
