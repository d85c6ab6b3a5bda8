//! The parts of a Hugging Face `tokenizer.json`, each named in its errors. The file is untrusted:
//! sizes, ids and counts are bounded here, the steps that text goes through in `json_checks`.
use crate::boundary::{Failure, Outcome, corrupt, unsupported};
use ahash::AHashMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Display;
use tokenizers::AddedToken;

const FILE_BYTES_MAX: usize = 64 << 20;
/// Ids index tables: a file of few bytes must not make them large.
pub const IDS_MAX: u32 = 1 << 22;
const ADDED_TOKENS_MAX: usize = 1 << 16;
const ADDED_BYTES_MAX: usize = 1 << 20;

#[derive(Deserialize)]
pub struct JsonFile<'a> {
    #[serde(borrow, default)]
    version: Option<Cow<'a, str>>,
    #[serde(default)]
    pub added_tokens: Vec<FileToken>,
    #[serde(borrow, default)]
    pub normalizer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub pre_tokenizer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub post_processor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub decoder: Option<&'a RawValue>,
    #[serde(borrow)]
    pub model: &'a RawValue,
}

#[derive(Deserialize)]
pub struct FileToken {
    pub id: u32,
    pub content: String,
    single_word: bool,
    pub lstrip: bool,
    pub rstrip: bool,
    normalized: bool,
    pub special: bool,
}

impl FileToken {
    pub fn as_added(&self) -> AddedToken {
        AddedToken {
            content: self.content.clone(),
            single_word: self.single_word,
            lstrip: self.lstrip,
            rstrip: self.rstrip,
            normalized: self.normalized,
            special: self.special,
        }
    }
}

/// An error of the part `part` of the file, in one line.
pub fn broken(part: &str, error: impl Display) -> Failure {
    corrupt(format!("tokenizer.json: {part}: {error}").replace(['\n', '\r'], " "))
}

/// Well-formed, but nothing this library does.
pub fn not_done(part: &str, what: impl Display) -> Failure {
    unsupported(format!("tokenizer.json: {part}: {what}").replace(['\n', '\r'], " "))
}

impl<'a> JsonFile<'a> {
    pub fn parse(bytes: &'a [u8]) -> Outcome<Self> {
        if bytes.len() > FILE_BYTES_MAX {
            return Err(corrupt(format!(
                "tokenizer.json: {} bytes, expected at most {FILE_BYTES_MAX}",
                bytes.len()
            )));
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| corrupt(format!("tokenizer.json: not UTF-8: {error}")))?;
        let file: JsonFile = serde_json::from_str(text)
            .map_err(|error| corrupt(format!("tokenizer.json: {error}")))?;
        match file.version.as_deref() {
            None | Some("1.0") => {}
            Some(other) => {
                return Err(not_done(
                    "version",
                    format!("got {other:?}, expected \"1.0\""),
                ));
            }
        }
        file.check_added_tokens()?;
        Ok(file)
    }

    fn check_added_tokens(&self) -> Outcome<()> {
        let part = "added_tokens";
        let bytes: usize = self.added_tokens.iter().map(|t| t.content.len()).sum();
        if self.added_tokens.len() > ADDED_TOKENS_MAX || bytes > ADDED_BYTES_MAX {
            return Err(broken(
                part,
                format!(
                    "{} tokens of {bytes} bytes, expected at most {ADDED_TOKENS_MAX} of \
                     {ADDED_BYTES_MAX}",
                    self.added_tokens.len()
                ),
            ));
        }
        let (mut contents, mut ids) = (AHashMap::new(), AHashMap::new());
        for token in &self.added_tokens {
            check_id(part, &token.content, token.id)?;
            if token.content.is_empty() {
                return Err(broken(part, format!("token {} is empty", token.id)));
            }
            if let Some(other) = contents.insert(token.content.as_str(), token.id) {
                return Err(broken(
                    part,
                    format!("{:?} has the ids {other} and {}", token.content, token.id),
                ));
            }
            if let Some(other) = ids.insert(token.id, token.content.as_str()) {
                return Err(broken(
                    part,
                    format!("{other:?} and {:?} have the id {}", token.content, token.id),
                ));
            }
        }
        Ok(())
    }
}

pub fn check_id(part: &str, token: &str, id: u32) -> Outcome<()> {
    if id < IDS_MAX {
        return Ok(());
    }
    Err(broken(
        part,
        format!("{token:?} has the id {id}, expected less than {IDS_MAX}"),
    ))
}
