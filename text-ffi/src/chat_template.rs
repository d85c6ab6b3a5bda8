//! Chat templates as transformers renders them: Jinja with trimmed blocks, Python's string methods,
//! `raise_exception`, `strftime_now`, `tojson` and `{% generation %}` blocks; work is bounded.
use crate::boundary::{Outcome, TextBuffer, TextSlice, guard, invalid_argument};
use crate::json_filter::{python_float, tojson};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, Value, context, escape_formatter,
};
use std::ffi::CString;
use std::fmt::{self, Write};

/// Work before rendering gives up: steps of the template's program; 64 bytes of text count as one.
/// A message takes about 40. (minijinja does not count what adding lists to themselves takes.)
const STEPS_MAX: u64 = 4_000_000;
const NAME: &str = "chat_template";

pub struct TextTemplate {
    environment: Environment<'static>,
}

impl TextTemplate {
    fn compile(source: &str) -> Result<Self, Error> {
        let mut environment = Environment::new();
        environment.set_syntax(
            SyntaxConfig::builder()
                .trim_blocks(true)
                .lstrip_blocks(true)
                .build()?,
        );
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_formatter(write_as_python);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_fuel(Some(STEPS_MAX));
        environment.add_filter("tojson", tojson);
        environment.add_test("iterable", is_iterable);
        environment.add_function("raise_exception", raise_exception);
        environment.add_template_owned(NAME, tolerate_generation(source))?;
        Ok(TextTemplate { environment })
    }

    /// `now`: what strftime_now() shows, in seconds since 1970.
    fn render(&self, context: &serde_json::Value, now: libc::time_t) -> Result<String, Error> {
        let clock = Value::from_function(move |format: String| strftime(now, format));
        self.environment.get_template(NAME)?.render(context! {
            strftime_now => clock,
            ..Value::from(minijinja::value::Serde(context))
        })
    }
}

/// Python's spelling of what a template prints without turning it into text itself.
fn write_as_python(output: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => output.write_str("None")?,
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => output.write_str(&python_float(number))?,
            Err(_) => return escape_formatter(output, state, value),
        },
        ValueKind::Bool => output.write_str(if value.is_true() { "True" } else { "False" })?,
        _ => return escape_formatter(output, state, value),
    }
    Ok(())
}

/// As in Python: None is nothing to iterate over. (Templates ask it of `tools`.)
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// The text that a template gave to raise_exception().
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

/// A local time by a strftime format.
fn strftime(now: libc::time_t, format: String) -> Result<String, Error> {
    let format = CString::new(format)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    let mut text = [0u8; 1024]; // what does not fit gives an empty text
    let size = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut parts);
        libc::strftime(
            text.as_mut_ptr().cast(),
            text.len(),
            format.as_ptr(),
            &parts,
        )
    };
    Ok(String::from_utf8_lossy(&text[..size]).into_owned())
}

/// transformers' `{% generation %}` and `{% endgeneration %}` mark text and change none of it: they
/// become `{% if true %}` and `{% endif %}` with the same whitespace control on the same lines.
fn tolerate_generation(source: &str) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else {
            break;
        };
        let end = start + length;
        let inside = &rest[start + 2..end];
        let tag = inside.strip_prefix('-').unwrap_or(inside);
        let tag = tag.strip_suffix('-').unwrap_or(tag);
        let (name, replacement) = match tag.trim() {
            "generation" => ("generation", "if true"),
            "endgeneration" => ("endgeneration", "endif"),
            _ => ("", ""),
        };
        result.push_str(&rest[..start + 2]);
        if name.is_empty() {
            result.push_str(inside);
        } else {
            result.push_str(&inside.replace(name, replacement));
        }
        result.push_str("%}");
        rest = &rest[end + 2..];
    }
    result.push_str(rest);
    result
}

/// One line that says what went wrong and where in the template.
fn describe(error: &Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(raised) = current.downcast_ref::<Raised>() {
            return raised.0.clone();
        }
        if current
            .downcast_ref::<Error>()
            .is_some_and(|e| e.kind() == ErrorKind::OutOfFuel)
        {
            return format!("the chat template takes more than {STEPS_MAX} steps");
        }
        cause = current.source();
    }
    let mut message = format!("chat template: {}", error.kind());
    if let Some(detail) = error.detail() {
        let _ = write!(message, ": {detail}"); // a String takes all
    }
    if let Some(line) = error.line() {
        let _ = write!(message, " (line {line})");
    }
    message.replace('\n', " ")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_template_compile(
    source: TextSlice,
    out: *mut *mut TextTemplate,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            let source = source.text(&|| "chat template".into())?;
            let template = compile(source)?;
            out.write(Box::into_raw(Box::new(template)));
            Ok(())
        })
    }
}

fn compile(source: &str) -> Outcome<TextTemplate> {
    TextTemplate::compile(source).map_err(|error| invalid_argument(describe(&error)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_template_render(
    template: *const TextTemplate,
    context_json: TextSlice,
    now: i64,
    text: *mut TextBuffer,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            let context = serde_json::from_slice(context_json.bytes())
                .map_err(|error| invalid_argument(format!("template context: {error}")))?;
            let rendered = (*template)
                .render(&context, now)
                .map_err(|error| invalid_argument(describe(&error)))?;
            TextBuffer::hand_over(text, rendered.into_bytes());
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_template_free(template: *mut TextTemplate) {
    if !template.is_null() {
        drop(unsafe { Box::from_raw(template) });
    }
}

/// The header promises that a template may be used by several threads at once.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<TextTemplate>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(source: &str, context: serde_json::Value) -> String {
        match TextTemplate::compile(source)
            .and_then(|template| template.render(&context, 86_400 * 45))
        {
            Ok(text) => text,
            Err(error) => format!("error: {}", describe(&error)),
        }
    }

    #[test]
    fn tojson_is_pythons() {
        let context = json!({"x": {"b": [1, 2.5, "é\"\n\u{1}😀", null], "a": {}, "c": []}});
        assert_eq!(
            render("{{ x | tojson }}", context.clone()),
            "{\"b\": [1, 2.5, \"é\\\"\\n\\u0001😀\", null], \"a\": {}, \"c\": []}"
        );
        assert_eq!(
            render(
                "{{ x | tojson(indent=2, sort_keys=true, ensure_ascii=true) }}",
                context.clone()
            ),
            concat!(
                "{\n  \"a\": {},\n  \"b\": [\n    1,\n    2.5,\n",
                "    \"\\u00e9\\\"\\n\\u0001\\ud83d\\ude00\",\n    null\n  ],\n  \"c\": []\n}"
            )
        );
        assert_eq!(
            render(
                "{{ [1, {'k': 2}] | tojson(separators=(',', ':')) }}",
                context
            ),
            "[1,{\"k\":2}]"
        );
    }

    #[test]
    fn floats_are_pythons() {
        let numbers = json!({"x": [1.0, -0.0, 2e5, 1e15, 1e16, 1.5e-5, 1e-4, 123456789.25, 1e300]});
        let python =
            "1.0 -0.0 200000.0 1000000000000000.0 1e+16 1.5e-05 0.0001 123456789.25 1e+300";
        assert_eq!(
            render("{% for n in x %}{{ n }} {% endfor %}", numbers.clone()).trim_end(),
            python
        );
        let read: serde_json::Value = serde_json::from_str("[3e72, 9007199254740993.5]").unwrap();
        assert_eq!(
            render("{{ x | tojson }}", json!({"x": read})),
            "[3e+72, 9007199254740994.0]"
        );
        let listed = format!("[{}]", python.replace(' ', ", "));
        assert_eq!(render("{{ x | tojson }}", numbers), listed);
        assert_eq!(
            render("{{ 7 }} {{ 10 ** 17 }}", json!({})),
            "7 100000000000000000"
        );
    }

    #[test]
    fn generation_blocks_change_nothing() {
        let source =
            "a\n{%- generation -%}\n  b\n{% endgeneration %}\nc {% if x %}generation{% endif %}";
        assert_eq!(render(source, json!({"x": 1})), "ab\nc generation");
    }

    #[test]
    fn trims_blocks_and_knows_python_methods() {
        let source = "  {% for m in messages %}\n{{ m.strip().upper() }}\n  {% endfor %}\n.\n";
        assert_eq!(render(source, json!({"messages": [" a ", "b"]})), "A\nB\n.");
    }

    #[test]
    fn none_is_not_iterable() {
        let source =
            "{{ x is iterable }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }}";
        assert_eq!(render(source, json!({"x": null})), "False True True False");
    }

    #[test]
    fn the_clock_is_the_callers_also_inside_macros() {
        let source = concat!(
            "{% macro date() %}{{ strftime_now('%b %Y') }}{% endmacro %}",
            "{{ date() if strftime_now is defined }}"
        );
        assert_eq!(render(source, json!({})), "Feb 1970");
    }

    #[test]
    fn errors_are_one_line_with_a_place() {
        assert_eq!(
            render("{{ raise_exception('no\nway') }}", json!({})),
            "error: no\nway"
        );
        let syntax = render("a\n{% if %}", json!({}));
        assert!(
            syntax.starts_with("error: chat template: syntax error")
                && syntax.ends_with("(line 2)")
        );
    }
}
