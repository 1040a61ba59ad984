//! The TOML file, read against the list of keys, with the line of everything.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::ConfigError;
use crate::keys;
use crate::layers::{Candidate, Origin, no_such_key};
use crate::slot::Raw;

/// Reads the text of a config file. What it sets goes to `candidates`, what is wrong with it to `errors`.
pub(crate) fn read(path: &Path, text: &str, candidates: &mut Vec<Candidate>, errors: &mut Vec<ConfigError>) {
    let line_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let source = Source { path, text, line_breaks };
    let (table, broken) = DeTable::parse_recoverable(text);
    let mut broken_lines = BTreeSet::new();
    for error in broken {
        let line = source.line(error.span().map_or(text.len(), |span| span.start));
        // One slip can be several errors of the grammar; the first says it.
        if !broken_lines.insert(line) {
            continue;
        }
        let message = format!("not TOML: {}", error.message());
        errors.push(ConfigError::Syntax { at: source.origin(line), message });
    }
    let mut reader = Reader { source, candidates: Vec::new(), errors: Vec::new() };
    for (key, value) in table.get_ref() {
        reader.section(key, value);
    }
    // What was made up to go on reading after a broken line is nobody's value.
    let broken = |at: &Origin| matches!(at, Origin::File { line, .. } if broken_lines.contains(line));
    candidates.extend(reader.candidates.into_iter().filter(|found| !broken(&found.origin)));
    errors.extend(reader.errors.into_iter().filter(|error| !error.at().is_some_and(broken)));
}

struct Source<'a> {
    path: &'a Path,
    text: &'a str,
    /// The offsets of all line breaks.
    line_breaks: Vec<usize>,
}

impl Source<'_> {
    fn line(&self, offset: usize) -> usize {
        1 + self.line_breaks.partition_point(|line_break| *line_break < offset)
    }

    fn origin(&self, line: usize) -> Origin {
        Origin::File { path: self.path.to_owned(), line }
    }

    fn at<T>(&self, spanned: &Spanned<T>) -> Origin {
        self.origin(self.line(spanned.span().start))
    }

    fn written<T>(&self, spanned: &Spanned<T>) -> String {
        self.text.get(spanned.span()).unwrap_or_default().to_owned()
    }
}

struct Reader<'a> {
    source: Source<'a>,
    candidates: Vec<Candidate>,
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn section(&mut self, key: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let (name, at) = (&**key.get_ref(), self.source.at(key));
        let Some(table) = value.get_ref().as_table() else {
            if keys::is_section(name) {
                self.errors.push(ConfigError::Value {
                    at,
                    key: name.to_owned(),
                    value: self.source.written(value),
                    problem: format!("{name} is a section"),
                    allowed: format!("[{name}] with its keys under it"),
                });
            } else {
                self.unknown(at, name, value);
            }
            return;
        };
        if !keys::is_section(name) {
            let problem = match keys::nearest_section(name) {
                Some(near) => format!("is not a section; did you mean [{near}]?"),
                None => "is not a section; `askd config` prints all sections".to_owned(),
            };
            self.errors.push(ConfigError::Section { at, section: name.to_owned(), problem });
            return;
        }
        if table.is_empty() && !keys::is_served_section(name) {
            let problem = "is not served by this version".to_owned();
            self.errors.push(ConfigError::Section { at, section: name.to_owned(), problem });
        }
        for (key, value) in table {
            self.key(&format!("{name}.{}", key.get_ref()), self.source.at(key), value);
        }
    }

    fn key(&mut self, name: &str, origin: Origin, value: &Spanned<DeValue<'_>>) {
        match keys::find(name) {
            Ok(key) => {
                let (raw, written) = (raw(value.get_ref()), self.source.written(value));
                self.candidates.push(Candidate { origin, key, raw, written });
            }
            Err(_) => self.unknown(origin, name, value),
        }
    }

    fn unknown(&mut self, at: Origin, name: &str, value: &Spanned<DeValue<'_>>) {
        if let Err(problem) = keys::find(name) {
            self.errors.push(no_such_key(at, problem, self.source.written(value)));
        }
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => Raw::Number(i64::from_str_radix(number.as_str(), number.radix()).ok()),
        DeValue::Boolean(on) => Raw::Switch(*on),
        DeValue::Float(_) => Raw::Other("a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Array(items) => {
            let text = |item: &Spanned<DeValue<'_>>| item.get_ref().as_str().map(str::to_owned);
            let number = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
                DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
                _ => None,
            };
            match items.iter().map(text).collect() {
                Some(texts) => Raw::Texts(texts),
                None => Raw::Numbers(items.iter().map(number).collect()),
            }
        }
        DeValue::Table(_) => Raw::Other("a section"),
    }
}
