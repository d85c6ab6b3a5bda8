//! A tokenizer as Hugging Face folders describe it (`tokenizer.json`), over Hugging Face's own
//! steps. Truncation and padding, which the file may name, are training's and left out.
use crate::boundary::{Outcome, invalid_argument};
use crate::json_checks::Checks;
use crate::json_decoder::TokenDecoder;
use crate::json_file::{FileToken, JsonFile, broken};
use crate::json_model::JsonModel;
use crate::token_table::{TokenEntry, TokenTable};
use ahash::AHashMap;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::BpeTrainer;
use tokenizers::{
    AddedVocabulary, Encoding, Model, ModelWrapper, NormalizerWrapper, OffsetType, PostProcessor,
    PostProcessorWrapper, PreTokenizer, PreTokenizerWrapper, Token,
};

pub struct JsonEncoder {
    model: ModelWrapper,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    parsing: AddedVocabulary,
    plain: AddedVocabulary, // leaves the spelling of special tokens in the text
}

/// All that a file gives.
pub struct JsonTokenizer {
    pub encoder: JsonEncoder,
    pub table: TokenTable,
    pub before: Vec<u32>, // what the file's post-processor puts around a text
    pub after: Vec<u32>,
}

impl JsonTokenizer {
    pub fn parse(bytes: &[u8]) -> Outcome<Self> {
        let file = JsonFile::parse(bytes)?;
        let mut checks = Checks::new();
        let (normalizer, pre_tokenizer) = (
            value_of("normalizer", file.normalizer)?,
            value_of("pre_tokenizer", file.pre_tokenizer)?,
        );
        normalizer
            .iter()
            .try_for_each(|value| checks.normalizer(value))?;
        pre_tokenizer
            .iter()
            .try_for_each(|value| checks.pre_tokenizer(value))?;
        let decoder_value = value_of("decoder", file.decoder)?;
        let decoder = TokenDecoder::new(decoder_value.as_ref(), &mut checks)?;
        let normalizer: Option<NormalizerWrapper> = step_of("normalizer", normalizer)?;
        let pre_tokenizer: Option<PreTokenizerWrapper> = step_of("pre_tokenizer", pre_tokenizer)?;
        let model = JsonModel::parse(file.model.get())?;
        let entries = entries_of(&model, &file.added_tokens, &decoder)?;
        let table = TokenTable::from_entries(
            &entries,
            longest_text(&model, &file.added_tokens, &decoder, &checks, &entries),
        )?;
        let parsing = added_vocabulary(&file.added_tokens, normalizer.as_ref())?;
        let mut plain = parsing.clone();
        plain.set_encode_special_tokens(true);
        let (before, after) = around(file.post_processor, &entries)?;
        Ok(JsonTokenizer {
            encoder: JsonEncoder {
                model: model.model,
                normalizer,
                pre_tokenizer,
                parsing,
                plain,
            },
            table,
            before,
            after,
        })
    }
}

impl JsonEncoder {
    /// Appends the ids of `text`.
    pub fn encode(&self, text: &str, parse_special: bool, ids: &mut Vec<u32>) -> Outcome<()> {
        let encoding = self
            .encoding(text, parse_special)
            .map_err(|error| invalid_argument(format!("text of {} bytes: {error}", text.len())))?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    fn encoding(&self, text: &str, parse_special: bool) -> tokenizers::Result<Encoding> {
        let added = if parse_special {
            &self.parsing
        } else {
            &self.plain
        };
        let mut words = added.extract_and_normalize(self.normalizer.as_ref(), text);
        if let Some(pre_tokenizer) = &self.pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        words.tokenize(|part| self.model.tokenize(part.get()))?;
        words.into_encoding(None, 0, OffsetType::None)
    }
}

fn value_of(part: &str, json: Option<&RawValue>) -> Outcome<Option<Value>> {
    json.map(|json| serde_json::from_str(json.get()).map_err(|error| broken(part, error)))
        .transpose()
}

fn step_of<T: DeserializeOwned>(part: &str, value: Option<Value>) -> Outcome<Option<T>> {
    value
        .map(|value| serde_json::from_value(value).map_err(|error| broken(part, error)))
        .transpose()
}

/// What each id stands for. Added tokens that the model has too must agree with it.
fn entries_of(
    model: &JsonModel,
    added: &[FileToken],
    decoder: &TokenDecoder,
) -> Outcome<Vec<Option<TokenEntry>>> {
    let mut entries: Vec<Option<TokenEntry>> = model
        .tokens
        .iter()
        .map(|token| {
            token.as_ref().map(|spelling| TokenEntry {
                text: decoder.bytes(spelling, false),
                spelling: spelling.clone(),
                special: false,
            })
        })
        .collect();
    for token in added {
        let (id, content) = (token.id as usize, &token.content);
        if let Some(known) = model.model.token_to_id(content)
            && known != token.id
        {
            return Err(broken(
                "added_tokens",
                format!("{content:?} has the id {id}, but {known} in the model"),
            ));
        }
        if let Some(Some(entry)) = entries.get(id)
            && entry.spelling != *content
        {
            return Err(broken(
                "added_tokens",
                format!("{content:?} has the id {id} of {:?}", entry.spelling),
            ));
        }
        if entries.len() <= id {
            entries.resize_with(id + 1, || None);
        }
        let text = if token.special {
            content.clone().into_bytes()
        } else {
            decoder.bytes(content, true)
        };
        entries[id] = Some(TokenEntry {
            text,
            spelling: content.clone(),
            special: token.special,
        });
    }
    Ok(entries)
}

/// At least so many bytes of text make two tokens: the longest token's; 0 where nothing is known,
/// because text may vanish on its way.
fn longest_text(
    model: &JsonModel,
    added: &[FileToken],
    decoder: &TokenDecoder,
    checks: &Checks,
    entries: &[Option<TokenEntry>],
) -> u32 {
    let strips = added.iter().any(|token| token.lstrip || token.rstrip);
    let has_all_bytes = (0..=255u8).all(|byte| {
        let spelling = format!("<0x{byte:02X}>");
        model.model.token_to_id(&spelling).is_some()
    });
    let is_whole = decoder.is_byte_level() || (model.byte_fallback && has_all_bytes);
    if strips || !is_whole || !checks.keeps_text {
        return 0;
    }
    // SentencePiece: two spellings in a text, " " and the longer U+2581, are the same to it.
    let sizes = entries.iter().flatten().map(|entry| {
        if decoder.is_byte_level() {
            entry.text.len()
        } else {
            entry.spelling.len().max(entry.text.len())
        }
    });
    sizes.max().unwrap_or(0) as u32
}

/// The ids of the added tokens are the file's. (The library would number them itself, which is the
/// same for files without holes.)
struct FileIds<'a>(AHashMap<&'a str, u32>);

impl Model for FileIds<'_> {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, _: &str) -> tokenizers::Result<Vec<Token>> {
        Ok(Vec::new())
    }
    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.get(token).copied()
    }
    fn id_to_token(&self, _: u32) -> Option<String> {
        None
    }
    fn get_vocab(&self) -> HashMap<String, u32> {
        HashMap::new()
    }
    fn get_vocab_size(&self) -> usize {
        0
    }
    fn save(&self, _: &Path, _: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
    fn get_trainer(&self) -> TrainerWrapper {
        BpeTrainer::default().into()
    }
}

fn added_vocabulary(
    tokens: &[FileToken],
    normalizer: Option<&NormalizerWrapper>,
) -> Outcome<AddedVocabulary> {
    let ids = FileIds(tokens.iter().map(|t| (t.content.as_str(), t.id)).collect());
    let mut vocabulary = AddedVocabulary::new();
    vocabulary
        .add_tokens(tokens.iter().map(FileToken::as_added), &ids, normalizer)
        .map_err(|error| broken("added_tokens", error))?;
    Ok(vocabulary)
}

/// The ids that the post-processor puts before and after a text, seen on a text of one token.
fn around(
    post_processor: Option<&RawValue>,
    entries: &[Option<TokenEntry>],
) -> Outcome<(Vec<u32>, Vec<u32>)> {
    const PART: &str = "post_processor";
    const MARK: u32 = u32::MAX; // no token's id
    let value = value_of(PART, post_processor)?;
    let Some(processor): Option<PostProcessorWrapper> = step_of(PART, value)? else {
        return Ok((Vec::new(), Vec::new()));
    };
    let text = Encoding::from_tokens(vec![Token::new(MARK, "x".into(), (0, 1))], 0);
    let processed = processor
        .process(text, None, true)
        .map_err(|error| broken(PART, error))?;
    let ids = processed.get_ids();
    let mut places = ids.iter().enumerate().filter(|&(_, &id)| id == MARK);
    let (Some((place, _)), None) = (places.next(), places.next()) else {
        return Err(broken(PART, "the text does not come once"));
    };
    let is_token = |id: u32| matches!(entries.get(id as usize), Some(Some(_)));
    match ids.iter().find(|&&id| id != MARK && !is_token(id)) {
        Some(id) => Err(broken(PART, format!("adds the id {id}, which is no token"))),
        None => Ok((ids[..place].to_vec(), ids[place + 1..].to_vec())),
    }
}
