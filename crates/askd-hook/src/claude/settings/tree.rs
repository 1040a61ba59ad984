//! JSON with the place of every value in its text, so that a text can be changed without touching the rest of it.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::SettingsError;

/// One value and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Text(String),
    /// Number, true, false or null, as written.
    Plain(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) key: String,
    /// From the key's first to the value's last byte.
    pub(super) span: Range<usize>,
    pub(super) value: Node,
}

impl Node {
    /// Reads a whole text; a byte order mark in front stays outside.
    pub(super) fn parse(text: &str) -> Result<Self, SettingsError> {
        let from = text.len() - text.trim_start_matches('\u{feff}').len();
        // The strict reader finds the faults (and limits the depth), so that the one below meets only valid text.
        serde_json::from_str::<IgnoredAny>(&text[from..]).map_err(|error| SettingsError::NotJson {
            line: error.line(),
            column: error.column(),
            why: reason(&error),
        })?;
        let mut reader = Reader { text, at: from };
        reader.value().ok_or(SettingsError::NotJson { line: 1, column: 1, why: "not understood".to_owned() })
    }

    /// The member `key`; two of that name are refused, since programs differ in which one counts.
    pub(super) fn member(&self, key: &str) -> Result<Option<&Member>, SettingsError> {
        let Kind::Object(members) = &self.kind else { return Ok(None) };
        let mut found = members.iter().filter(|member| member.key == key);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(SettingsError::Twice { key: key.to_owned() }),
            (first, None) => Ok(first),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).ok().flatten().map(|member| &member.value)
    }

    pub(super) fn items(&self) -> &[Self] {
        match &self.kind {
            Kind::Array(items) => items,
            _ => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Places of the children, each with its key.
    pub(super) fn children(&self) -> Vec<Range<usize>> {
        match &self.kind {
            Kind::Object(members) => members.iter().map(|member| member.span.clone()).collect(),
            Kind::Array(items) => items.iter().map(|item| item.span.clone()).collect(),
            Kind::Text(_) | Kind::Plain(_) => Vec::new(),
        }
    }
}

/// serde's message without the place, which is told apart.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Skips a separator, or says that the container ends, past its end.
    fn ends(&mut self, close: u8) -> Option<bool> {
        let byte = self.peek()?;
        let ends = byte == close;
        if ends || byte == b',' {
            self.at += 1;
        }
        Some(ends)
    }

    fn value(&mut self) -> Option<Node> {
        let first = self.peek()?;
        let start = self.at;
        let kind = match first {
            b'{' => {
                self.at += 1;
                let mut members = Vec::new();
                while !self.ends(b'}')? {
                    self.peek()?;
                    let start = self.at;
                    let key = self.string()?;
                    (self.peek()? == b':').then(|| self.at += 1)?;
                    let value = self.value()?;
                    members.push(Member { key, span: start..self.at, value });
                }
                Kind::Object(members)
            }
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                while !self.ends(b']')? {
                    items.push(self.value()?);
                }
                Kind::Array(items)
            }
            b'"' => Kind::Text(self.string()?),
            _ => {
                let bytes = self.text.as_bytes();
                while bytes.get(self.at).is_some_and(|byte| !b" \t\r\n,]}".contains(byte)) {
                    self.at += 1;
                }
                Kind::Plain(self.text.get(start..self.at)?.to_owned())
            }
        };
        Some(Node { span: start..self.at, kind })
    }

    fn string(&mut self) -> Option<String> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += 1;
        while *bytes.get(self.at)? != b'"' {
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        let written = self.text.get(start..self.at)?;
        // A lone surrogate has no Rust string; as written it matches nothing of ours.
        Some(serde_json::from_str(written).unwrap_or_else(|_| written.to_owned()))
    }
}
