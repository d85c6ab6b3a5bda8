//! What a `tokenizer.json` may do to text. The library would follow any file, also one whose steps
//! make gigabytes out of one letter, or whose expressions take minutes to compile: only known steps
//! pass, few of them, and what they can add to a text is bounded. At load no expression of the file
//! is run: normalizers, which added tokens go through, may replace plain texts only. When text is
//! encoded, the expression engine gives up after a million steps back for one match.
use crate::boundary::Outcome;
use crate::json_file::{broken, not_done};
use serde_json::{Map, Value};

const STEPS_MAX: usize = 32;
/// Largest factor by which all steps together may grow a text.
const GROWTH_MAX: usize = 64;
const EXPRESSION_BYTES_MAX: usize = 2048;
/// A counted repetition, such as `\p{N}{1,3}`, may compile to megabytes.
const COUNTED_REPETITIONS_MAX: usize = 16;

#[derive(Debug)]
pub struct Checks {
    steps: usize,
    growth: usize,
    counted_repetitions: usize,
    /// No step takes bytes away, but for Unicode composition: at most two of three.
    pub keeps_text: bool,
}

impl Checks {
    pub fn new() -> Self {
        Checks {
            steps: 0,
            growth: 1,
            counted_repetitions: 0,
            keeps_text: true,
        }
    }

    pub fn normalizer(&mut self, value: &Value) -> Outcome<()> {
        let part = "normalizer";
        let (kind, step) = self.step(part, value)?;
        match kind {
            "Sequence" => {
                for inner in list(part, step, "normalizers")? {
                    self.normalizer(inner)?;
                }
                Ok(())
            }
            "NFC" => self.grow(part, 3),
            "NFD" => self.grow(part, 3),
            "NFKC" | "NFKD" | "Lowercase" => {
                self.keeps_text = false;
                self.grow(part, if kind == "Lowercase" { 2 } else { 11 })
            }
            "Strip" | "StripAccents" | "Nmt" => {
                self.keeps_text = false;
                Ok(())
            }
            "ByteLevel" => self.grow(part, 2),
            "Prepend" => self.grow(part, 1 + text(part, step, "prepend")?.len()),
            "Replace" => {
                let Some(pattern) = step.get("pattern").and_then(|p| p.get("String")) else {
                    return Err(not_done(
                        part,
                        "Replace with an expression, expected a plain text",
                    ));
                };
                let pattern = pattern.as_str().unwrap_or_default().len();
                let content = text(part, step, "content")?.len();
                if pattern == 0 {
                    return Err(broken(part, "Replace of an empty text"));
                }
                self.keeps_text &= content >= pattern;
                self.grow(part, content.div_ceil(pattern).max(1))
            }
            other => Err(not_done(part, format!("type {other:?}"))),
        }
    }

    pub fn pre_tokenizer(&mut self, value: &Value) -> Outcome<()> {
        let part = "pre_tokenizer";
        let (kind, step) = self.step(part, value)?;
        let flag = |name: &str| step.get(name).and_then(Value::as_bool).unwrap_or(true);
        match kind {
            "Sequence" => {
                for inner in list(part, step, "pretokenizers")? {
                    self.pre_tokenizer(inner)?;
                }
                Ok(())
            }
            "ByteLevel" => self.grow(part, if flag("add_prefix_space") { 4 } else { 2 }),
            "Metaspace" => self.grow(part, 8),
            "Digits" => Ok(()),
            "Whitespace" | "WhitespaceSplit" => {
                self.keeps_text = false;
                Ok(())
            }
            "Split" | "Punctuation" => {
                let behavior = step.get("behavior").and_then(Value::as_str);
                self.keeps_text &= behavior.is_none_or(|name| name != "Removed");
                if kind == "Split" {
                    self.expression(part, step)?;
                }
                Ok(())
            }
            other => Err(not_done(part, format!("type {other:?}"))),
        }
    }

    fn expression(&mut self, part: &str, step: &Map<String, Value>) -> Outcome<()> {
        let pattern = step.get("pattern").and_then(Value::as_object);
        let expression = pattern.and_then(|pattern| pattern.values().next()?.as_str());
        let Some(expression) = expression.filter(|expression| !expression.is_empty()) else {
            return Err(broken(part, "Split without a pattern"));
        };
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(not_done(
                part,
                format!(
                    "expression of {} bytes, expected at most {EXPRESSION_BYTES_MAX}",
                    expression.len()
                ),
            ));
        }
        let starts = expression.as_bytes().windows(2);
        self.counted_repetitions += starts
            .filter(|pair| pair[0] == b'{' && pair[1].is_ascii_digit())
            .count();
        if self.counted_repetitions > COUNTED_REPETITIONS_MAX {
            return Err(not_done(
                part,
                format!(
                    "{} counted repetitions, expected at most {COUNTED_REPETITIONS_MAX}",
                    self.counted_repetitions
                ),
            ));
        }
        Ok(())
    }

    /// One more step: its type and fields.
    pub fn step<'v>(
        &mut self,
        part: &str,
        value: &'v Value,
    ) -> Outcome<(&'v str, &'v Map<String, Value>)> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(not_done(
                part,
                format!("more than {STEPS_MAX} steps in the file"),
            ));
        }
        let step = value.as_object();
        let kind = step.and_then(|step| step.get("type")?.as_str());
        match (kind, step) {
            (Some(kind), Some(step)) => Ok((kind, step)),
            _ => Err(broken(part, "a step without a type")),
        }
    }

    fn grow(&mut self, part: &str, factor: usize) -> Outcome<()> {
        self.growth = self.growth.saturating_mul(factor);
        if self.growth <= GROWTH_MAX {
            return Ok(());
        }
        Err(not_done(
            part,
            format!(
                "its steps can grow a text to {} times its size, expected at most {GROWTH_MAX}",
                self.growth
            ),
        ))
    }
}

pub fn list<'v>(part: &str, step: &'v Map<String, Value>, name: &str) -> Outcome<&'v Vec<Value>> {
    let items = step.get(name).and_then(Value::as_array);
    items.ok_or_else(|| broken(part, format!("{name} is not a list")))
}

pub fn text<'v>(part: &str, step: &'v Map<String, Value>, name: &str) -> Outcome<&'v str> {
    let text = step.get(name).and_then(Value::as_str);
    text.ok_or_else(|| broken(part, format!("{name} is not a text")))
}
