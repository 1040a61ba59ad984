//! JSON with the place of every value in its text, so that a configuration can be changed without touching the rest of
//! it; also as editors take it. Setting agents up uses it, and nothing that a hook does.

use std::ops::Range;

use serde::de::IgnoredAny;

/// One value and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// From its first to behind its last byte.
    pub span: Range<usize>,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Text(String),
    /// Number, true, false or null, as written.
    Plain(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub key: String,
    /// From the key's first to behind the value's last byte.
    pub span: Range<usize>,
    pub value: Node,
}

/// What a program that reads the text takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// JSON and nothing else.
    Strict,
    /// With comments and trailing commas, as editors take it.
    Comments,
}

/// What is wrong, and where; lines and columns begin at 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {why}")]
pub struct Malformed {
    pub line: usize,
    pub column: usize,
    pub why: String,
}

/// A key that an object has twice: which one counts differs from program to program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two members named {0:?}")]
pub struct Twice(pub String);

/// Deepest nesting that is read.
const DEEPEST: usize = 128;

impl Node {
    /// Reads a whole text; a byte order mark in front stays outside.
    pub fn parse(text: &str, syntax: Syntax) -> Result<Self, Malformed> {
        let from = text.len() - text.trim_start_matches('\u{feff}').len();
        if syntax == Syntax::Strict {
            // The strict reader finds the faults, so that the one below meets only valid text.
            serde_json::from_str::<IgnoredAny>(&text[from..]).map_err(|error| Malformed {
                line: error.line(),
                column: error.column(),
                why: reason(&error),
            })?;
        }
        let mut reader = Reader { text, at: from, depth: 0 };
        let whole = reader.value().filter(|_| {
            reader.space();
            reader.at == text.len()
        });
        whole.ok_or_else(|| reader.malformed())
    }

    /// The member `key`; two of that name are refused.
    pub fn member(&self, key: &str) -> Result<Option<&Member>, Twice> {
        let mut found = self.members().iter().filter(|member| member.key == key);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Twice(key.to_owned())),
            (first, None) => Ok(first),
        }
    }

    /// The value of the only member `key`.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).ok().flatten().map(|member| &member.value)
    }

    pub fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[Self] {
        match &self.kind {
            Kind::Array(items) => items,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The texts of an array that holds nothing else.
    pub fn texts(&self) -> Option<Vec<&str>> {
        match &self.kind {
            Kind::Array(items) => items.iter().map(Self::text).collect(),
            _ => None,
        }
    }

    /// Places of the children, each with its key.
    pub fn children(&self) -> Vec<Range<usize>> {
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
    depth: usize,
}

impl Reader<'_> {
    fn malformed(&self) -> Malformed {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Malformed {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            why: "not understood".to_owned(),
        }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips white space and comments.
    fn space(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else { return };
                self.at += end + 2;
            } else {
                return;
            }
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let is_it = self.rest().as_bytes().first() == Some(&byte);
        self.at += usize::from(is_it);
        is_it
    }

    fn value(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        let kind = match self.rest().as_bytes().first()? {
            b'{' => Kind::Object(self.all(b'}', Self::member)?),
            b'[' => Kind::Array(self.all(b']', Self::value)?),
            b'"' => Kind::Text(self.string()?),
            _ => {
                let rest = self.rest();
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
                let word = &rest[..end.unwrap_or(rest.len())];
                if !matches!(word, "true" | "false" | "null") && word.parse::<f64>().is_err() {
                    return None;
                }
                let word = word.to_owned();
                self.at += word.len();
                Kind::Plain(word)
            }
        };
        Some(Node { span: start..self.at, kind })
    }

    fn member(&mut self) -> Option<Member> {
        self.space();
        let start = self.at;
        let key = self.string()?;
        if !self.take(b':') {
            return None;
        }
        let value = self.value()?;
        Some(Member { key, span: start..self.at, value })
    }

    fn all<T>(&mut self, close: u8, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut all = Vec::new();
        while !self.take(close) {
            all.push(one(self)?);
            if !self.take(b',') {
                if self.take(close) {
                    break;
                }
                return None;
            }
        }
        self.depth -= 1;
        Some(all)
    }

    fn string(&mut self) -> Option<String> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        if bytes.first() != Some(&b'"') {
            return None;
        }
        let mut end = 1;
        while *bytes.get(end)? != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let written = rest.get(..=end)?;
        serde_json::from_str::<IgnoredAny>(written).ok()?;
        // A lone surrogate has no Rust string; as written it matches nothing of ours.
        let text = serde_json::from_str(written).unwrap_or_else(|_| written.to_owned());
        self.at += end + 1;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of_fault(text: &str) -> usize {
        Node::parse(text, Syntax::Comments).unwrap_err().line
    }

    #[test]
    fn comments_and_trailing_commas_are_read_and_places_are_exact() {
        assert_eq!(line_of_fault("\u{feff}// mine\n{ /* a */ \"a\": [\"x\", 'no'"), 2);
        let text = "// mine\n{ /* { */ \"a\": [\"x\\\"\", -1.5e3, true,], // }\n \"b\": {\"c\": null,},\n}\n";
        let node = Node::parse(text, Syntax::Comments).unwrap();
        let items = node.get("a").unwrap().items();
        assert_eq!(items[0].text(), Some("x\""));
        assert_eq!(&text[items[0].span.clone()], "\"x\\\"\"");
        assert_eq!(items[1].kind, Kind::Plain("-1.5e3".to_owned()));
        assert_eq!(&text[node.get("b").unwrap().span.clone()], "{\"c\": null,}");
        assert_eq!(&text[node.member("b").unwrap().unwrap().span.clone()], "\"b\": {\"c\": null,}");
        assert_eq!(node.get("a").unwrap().texts(), None);
        assert!(Node::parse(text, Syntax::Strict).is_err());
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_line() {
        for (text, line) in [("", 1), ("{\n\"a\" 1}", 2), ("[1 2]", 1), ("{} x", 1), ("[nul]", 1), ("\"a", 1)]
        {
            assert_eq!(line_of_fault(text), line, "{text:?}");
            assert!(Node::parse(text, Syntax::Strict).is_err(), "{text:?}");
        }
        for syntax in [Syntax::Strict, Syntax::Comments] {
            assert!(Node::parse(&"[".repeat(100_000), syntax).is_err());
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_nobodys() {
        let node = Node::parse("{\"a\": 1, \"a\": 2}", Syntax::Comments).unwrap();
        assert_eq!(node.member("a"), Err(Twice("a".to_owned())));
        assert_eq!(node.get("a"), None);
        assert_eq!(node.members().len(), 2);
    }

    #[test]
    fn half_a_character_stays_as_it_is_written() {
        for syntax in [Syntax::Strict, Syntax::Comments] {
            let node = Node::parse("[\"\\ud800\"]", syntax).unwrap();
            assert_eq!(node.items()[0].text(), Some("\"\\ud800\""));
            assert!(Node::parse("[\"\\q\"]", syntax).is_err());
        }
    }
}
