//! The `tojson` filter as transformers defines it for chat templates: Python's
//! `json.dumps(value, ensure_ascii, indent, separators, sort_keys)`, ASCII not forced by default.
use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::Value as Json;
use std::fmt::Write;

struct JsonWriter {
    ensure_ascii: bool,
    indent: Option<usize>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    text: String,
}

/// Python's repr of a float: the shortest digits, an exponent from 1e16 and below 1e-4.
pub fn python_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let parts = scientific.split_once('e');
    let exponent = parts.and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    match (parts, exponent) {
        (Some((digits, _)), Some(exponent)) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        (Some(_), _) if number.fract() == 0.0 => format!("{number:.1}"),
        (Some(_), _) => number.to_string(),
        _ => number.to_string().to_lowercase(), // inf, -inf, nan
    }
}

pub fn tojson(state: &State, value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<(String, String)> =
        match options.get::<Option<Vec<String>>>("separators")? {
            None => None,
            Some(pair) => <[String; 2]>::try_from(pair)
                .map(|[item, key]| Some((item, key)))
                .map_err(|_| {
                    Error::new(
                        ErrorKind::InvalidOperation,
                        "tojson: separators must be a pair",
                    )
                })?,
        };
    let item_default = if indent.is_some() { "," } else { ", " };
    let (item_separator, key_separator) =
        separators.unwrap_or_else(|| (item_default.to_owned(), ": ".to_owned()));
    let mut writer = JsonWriter {
        ensure_ascii: options
            .get::<Option<bool>>("ensure_ascii")?
            .unwrap_or(false),
        indent,
        item_separator,
        key_separator,
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        text: String::new(),
    };
    options.assert_all_used()?;
    let json = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    writer.write(&json, 0);
    state.consume_fuel(writer.text.len() as u64 / 64 + 1)?;
    Ok(Value::from_safe_string(writer.text))
}

impl JsonWriter {
    fn write(&mut self, value: &Json, level: usize) {
        match value {
            Json::String(text) => self.write_string(text),
            Json::Array(items) => {
                self.write_items('[', ']', items.iter(), level, |writer, item, inner| {
                    writer.write(item, inner)
                });
            }
            Json::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                if self.sort_keys {
                    fields.sort_by_key(|(key, _)| key.as_str());
                }
                self.write_items(
                    '{',
                    '}',
                    fields.into_iter(),
                    level,
                    |writer, (key, item), inner| {
                        writer.write_string(key);
                        writer.text.push_str(&writer.key_separator);
                        writer.write(item, inner);
                    },
                );
            }
            Json::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => self.text.push_str(&python_float(float)),
                _ => self.text.push_str(&number.to_string()),
            },
            scalar => self.text.push_str(&scalar.to_string()),
        }
    }

    fn write_items<T>(
        &mut self,
        open: char,
        close: char,
        items: impl ExactSizeIterator<Item = T>,
        level: usize,
        write_item: impl Fn(&mut Self, T, usize),
    ) {
        self.text.push(open);
        let is_empty = items.len() == 0;
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.text.push_str(&self.item_separator);
            }
            self.write_line_break(level + 1);
            write_item(self, item, level + 1);
        }
        if !is_empty {
            self.write_line_break(level);
        }
        self.text.push(close);
    }

    fn write_line_break(&mut self, level: usize) {
        if let Some(indent) = self.indent {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', indent * level));
        }
    }

    fn write_string(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.text, "\\u{unit:04x}"); // a String takes all
                    }
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }
}
