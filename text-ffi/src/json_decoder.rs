//! The decoder of a `tokenizer.json`, token by token: what a token stands for must not depend on
//! its neighbours, or no answer could be streamed. (The space that some decoders strip at the very
//! beginning of a text is kept: an answer continues a text.)
use crate::boundary::Outcome;
use crate::byte_level::ByteLevelAlphabet;
use crate::json_checks::{Checks, list, text};
use crate::json_file::{broken, not_done};
use crate::token_table::byte_of;
use serde_json::Value;

const PART: &str = "decoder";

enum Step {
    ByteLevel(ByteLevelAlphabet),
    Replace(String, String),
    ByteFallback,
}

pub struct TokenDecoder {
    steps: Vec<Step>,
}

impl TokenDecoder {
    pub fn new(value: Option<&Value>, checks: &mut Checks) -> Outcome<Self> {
        let mut decoder = TokenDecoder { steps: Vec::new() };
        match value {
            Some(value) => decoder.add(value, checks)?,
            None => {
                return Err(not_done(
                    PART,
                    "got none, expected ByteLevel, Metaspace or a Sequence",
                ));
            }
        }
        Ok(decoder)
    }

    fn add(&mut self, value: &Value, checks: &mut Checks) -> Outcome<()> {
        let (kind, step) = checks.step(PART, value)?;
        match kind {
            "Sequence" => {
                for inner in list(PART, step, "decoders")? {
                    self.add(inner, checks)?;
                }
            }
            "ByteLevel" => self.steps.push(Step::ByteLevel(ByteLevelAlphabet::new())),
            "ByteFallback" => self.steps.push(Step::ByteFallback),
            "Fuse" | "Strip" => {} // joins tokens; strips the beginning of a text
            "Metaspace" => {
                let mark = text(PART, step, "replacement")?;
                self.replace(mark, " ")?;
            }
            "Replace" => {
                let pattern = step.get("pattern").and_then(|p| p.get("String")?.as_str());
                let Some(pattern) = pattern else {
                    return Err(not_done(
                        PART,
                        "Replace with an expression, expected a plain text",
                    ));
                };
                self.replace(pattern, text(PART, step, "content")?)?;
            }
            other => return Err(not_done(PART, format!("type {other:?}"))),
        }
        Ok(())
    }

    fn replace(&mut self, pattern: &str, content: &str) -> Outcome<()> {
        if pattern.is_empty() || content.len() > pattern.len() {
            return Err(broken(
                PART,
                format!(
                    "replaces {} bytes by {}, expected at least 1 by no more",
                    pattern.len(),
                    content.len()
                ),
            ));
        }
        let step = Step::Replace(pattern.to_owned(), content.to_owned());
        self.steps.push(step);
        Ok(())
    }

    pub fn is_byte_level(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, Step::ByteLevel(_)))
    }

    /// The bytes that a token of the model stands for; `is_added`: its spelling is text already.
    pub fn bytes(&self, spelling: &str, is_added: bool) -> Vec<u8> {
        let mut text = spelling.to_owned();
        for step in &self.steps {
            match step {
                Step::Replace(pattern, content) => text = text.replace(pattern, content),
                Step::ByteLevel(alphabet) if !is_added => return alphabet.decode(&text),
                Step::ByteFallback if !is_added => {
                    if let Some(byte) = byte_of(&text) {
                        return vec![byte];
                    }
                }
                Step::ByteLevel(_) | Step::ByteFallback => {}
            }
        }
        text.into_bytes()
    }
}
