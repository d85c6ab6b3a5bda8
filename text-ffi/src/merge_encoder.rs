//! Byte-level BPE with a list of merges, by Hugging Face's tokenizers; the split rules go by the
//! name that GGUF files give them.
use crate::boundary::{Outcome, corrupt, invalid_argument, unsupported};
use crate::vocabulary::Vocabulary;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    Model, Normalizer, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
    SplitDelimiterBehavior,
};

const LLAMA_3_SPLIT: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN_2_SPLIT: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const KNOWN_NAMES: &str = "default, gpt-2, llama-bpe, qwen2, smollm";

/// How text is prepared before merging.
struct Rules {
    compose: bool,     // Unicode NFC first
    whole_words: bool, // a word that is a token needs no merges
    splits: Vec<PreTokenizerWrapper>,
}

impl Rules {
    fn named(name: &str) -> Outcome<Self> {
        let rules = |compose, whole_words, splits| Rules {
            compose,
            whole_words,
            splits,
        };
        Ok(match name {
            "gpt-2" | "default" => rules(false, false, vec![byte_level(true)]),
            "smollm" => rules(
                false,
                false,
                vec![Digits::new(true).into(), byte_level(true)],
            ),
            "llama-bpe" => rules(false, true, vec![split(LLAMA_3_SPLIT)?, byte_level(false)]),
            "qwen2" => rules(true, false, vec![split(QWEN_2_SPLIT)?, byte_level(false)]),
            _ => {
                return Err(unsupported(format!(
                    "pre-tokenizer '{name}', expected one of: {KNOWN_NAMES}"
                )));
            }
        })
    }
}

fn byte_level(split_words: bool) -> PreTokenizerWrapper {
    ByteLevel::new(false, true, split_words).into()
}

fn split(pattern: &str) -> Outcome<PreTokenizerWrapper> {
    Split::new(
        SplitPattern::Regex(pattern.to_owned()),
        SplitDelimiterBehavior::Isolated,
        false,
    )
    .map(PreTokenizerWrapper::from)
    .map_err(|error| unsupported(format!("split rule: {error}")))
}

pub struct MergeEncoder {
    rules: Rules,
    model: BPE,
}

impl MergeEncoder {
    pub fn new(vocabulary: &Vocabulary) -> Outcome<Self> {
        let rules = Rules::named(vocabulary.pre_tokenizer)?;
        let ids: ahash::AHashMap<String, u32> = vocabulary
            .tokens
            .iter()
            .zip(0u32..)
            .map(|(t, id)| (t.to_string(), id))
            .collect();
        let merges = vocabulary
            .merges
            .iter()
            .map(|merge| pair(merge))
            .collect::<Outcome<Vec<_>>>()?;
        let model = BPE::builder()
            .vocab_and_merges(ids, merges)
            .ignore_merges(rules.whole_words)
            .build()
            .map_err(|error| corrupt(format!("merges: {error}")))?;
        Ok(MergeEncoder { rules, model })
    }

    /// Appends the ids of `text`.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Outcome<()> {
        let encoding = self
            .encoding(text)
            .map_err(|error| invalid_argument(format!("text of {} bytes: {error}", text.len())))?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    fn encoding(&self, text: &str) -> tokenizers::Result<tokenizers::Encoding> {
        let mut words = PreTokenizedString::from(text);
        if self.rules.compose {
            words.normalize(|part| NFC.normalize(part))?;
        }
        for split in &self.rules.splits {
            split.pre_tokenize(&mut words)?;
        }
        words.tokenize(|part| self.model.tokenize(part.get()))?;
        words.into_encoding(None, 0, OffsetType::None)
    }
}

/// "left right" as two texts. A token may begin with a space: the first character does not count.
fn pair(merge: &str) -> Outcome<(String, String)> {
    let space = merge
        .char_indices()
        .skip(1)
        .find(|&(_, character)| character == ' ');
    match space {
        Some((place, _)) => Ok((merge[..place].to_owned(), merge[place + 1..].to_owned())),
        None => Err(corrupt(format!(
            "merge '{merge}', expected two tokens and a space between"
        ))),
    }
}
