//! The model of a `tokenizer.json`: BPE (byte-level, or SentencePiece's with byte fallback) and
//! Unigram. Read straight into the library's builders: a list of merges is held once.
use crate::boundary::Outcome;
use crate::json_file::{IDS_MAX, broken, check_id, not_done};
use ahash::AHashMap;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use tokenizers::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;

const PART: &str = "model";
/// Unigram keeps a map for each byte of a token: 150 bytes of memory.
const UNIGRAM_BYTES_MAX: usize = 4 << 20;

pub struct JsonModel {
    pub model: ModelWrapper,
    pub tokens: Vec<Option<String>>, // by id
    pub byte_fallback: bool,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
}

impl JsonModel {
    pub fn parse(json: &str) -> Outcome<Self> {
        let kind: Kind = serde_json::from_str(json).map_err(|error| broken(PART, error))?;
        let model = match kind.kind.as_deref() {
            None | Some("BPE") => Self::parse_bpe(json)?,
            Some("Unigram") => Self::parse_unigram(json)?,
            Some(other) => {
                return Err(not_done(
                    PART,
                    format!("type {other:?}, expected \"BPE\" or \"Unigram\""),
                ));
            }
        };
        if model.tokens.is_empty() {
            return Err(broken(PART, "vocab has no tokens, expected at least 1"));
        }
        Ok(model)
    }

    fn parse_bpe(json: &str) -> Outcome<Self> {
        let part: BpePart = serde_json::from_str(json).map_err(|error| broken(PART, error))?;
        if part.dropout.is_some_and(|dropout| dropout != 0.0) {
            return Err(not_done(
                PART,
                "dropout: the same text would have other tokens each time",
            ));
        }
        for affix in [&part.continuing_subword_prefix, &part.end_of_word_suffix] {
            if affix.as_ref().is_some_and(|affix| !affix.is_empty()) {
                return Err(not_done(
                    PART,
                    "continuing_subword_prefix or end_of_word_suffix",
                ));
            }
        }
        let vocabulary = part.vocab.0;
        if let Some(unknown) = &part.unk_token
            && !vocabulary.contains_key(unknown)
        {
            return Err(broken(
                PART,
                format!("unk_token {unknown:?} is not in vocab"),
            ));
        }
        let tokens = by_id(&vocabulary)?;
        let mut builder = BPE::builder()
            .vocab_and_merges(vocabulary, part.merges.0)
            .fuse_unk(part.fuse_unk.unwrap_or(false))
            .byte_fallback(part.byte_fallback.unwrap_or(false))
            .ignore_merges(part.ignore_merges.unwrap_or(false));
        if let Some(unknown) = part.unk_token {
            builder = builder.unk_token(unknown);
        }
        let model = builder.build().map_err(|error| broken(PART, error))?;
        Ok(JsonModel {
            model: model.into(),
            tokens,
            byte_fallback: part.byte_fallback.unwrap_or(false),
        })
    }

    fn parse_unigram(json: &str) -> Outcome<Self> {
        let part: UnigramPart = serde_json::from_str(json).map_err(|error| broken(PART, error))?;
        let bytes: usize = part.vocab.iter().map(|(token, _)| token.len()).sum();
        if bytes > UNIGRAM_BYTES_MAX || part.vocab.len() > IDS_MAX as usize {
            return Err(broken(
                PART,
                format!(
                    "{} tokens of {bytes} bytes, expected at most {IDS_MAX} of {UNIGRAM_BYTES_MAX}",
                    part.vocab.len()
                ),
            ));
        }
        let tokens = part.vocab.iter().map(|(t, _)| Some(t.clone())).collect();
        let byte_fallback = part.byte_fallback.unwrap_or(false);
        let model = Unigram::from(part.vocab, part.unk_id, byte_fallback)
            .map_err(|error| broken(PART, error))?;
        Ok(JsonModel {
            model: model.into(),
            tokens,
            byte_fallback,
        })
    }
}

/// The spellings by id. Errors: two tokens with one id.
fn by_id(vocabulary: &AHashMap<String, u32>) -> Outcome<Vec<Option<String>>> {
    let count = vocabulary.values().max().map_or(0, |&id| id as usize + 1);
    let mut tokens: Vec<Option<String>> = vec![None; count];
    for (token, &id) in vocabulary {
        if tokens[id as usize].replace(token.clone()).is_some() {
            return Err(broken(PART, format!("vocab has the id {id} twice")));
        }
    }
    Ok(tokens)
}

#[derive(Deserialize)]
struct BpePart {
    dropout: Option<f32>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    vocab: Vocab,
    merges: Merges,
}

#[derive(Deserialize)]
struct UnigramPart {
    vocab: Vec<(String, f64)>,
    unk_id: Option<usize>,
    byte_fallback: Option<bool>,
}

struct Vocab(AHashMap<String, u32>);

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(VocabVisitor)
    }
}

struct VocabVisitor;

impl<'de> Visitor<'de> for VocabVisitor {
    type Value = Vocab;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("vocab: an object of token and id")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
        let mut vocabulary = AHashMap::new();
        while let Some((token, id)) = map.next_entry::<String, u32>()? {
            check_id("vocab", &token, id).map_err(|failure| A::Error::custom(failure.message))?;
            if let Some(other) = vocabulary.insert(token, id) {
                return Err(A::Error::custom(format!(
                    "vocab has one token twice, with the ids {other} and {id}"
                )));
            }
        }
        Ok(Vocab(vocabulary))
    }
}

struct Merges(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(MergesVisitor)
    }
}

struct MergesVisitor;

impl<'de> Visitor<'de> for MergesVisitor {
    type Value = Merges;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("merges: a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merges, A::Error> {
        let mut merges = Vec::new();
        while let Some(Merge(left, right)) = list.next_element()? {
            merges.push((left, right));
        }
        Ok(Merges(merges))
    }
}

/// `["left", "right"]`, or `"left right"` in older files.
struct Merge(String, String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MergeVisitor)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = Merge;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a merge: two tokens")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Merge, E> {
        match text.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => {
                Ok(Merge(left.to_owned(), right.to_owned()))
            }
            _ => Err(E::custom(format!(
                "merge {text:?}, expected two tokens and a space between"
            ))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Merge, A::Error> {
        let (left, right) = (pair.next_element()?, pair.next_element()?);
        match (left, right, pair.next_element::<String>()?) {
            (Some(left), Some(right), None) => Ok(Merge(left, right)),
            _ => Err(A::Error::custom("a merge is not two tokens")),
        }
    }
}
