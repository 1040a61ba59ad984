//! JSON as editors take it, with comments and trailing commas, and where in the text each value is.

use std::ops::Range;

/// One value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Text(String),
    Other,
}

/// What is wrong, and in which line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) line: usize,
}

/// Deepest nesting that is read.
const DEEPEST: usize = 128;

impl Node {
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let from = text.len() - text.trim_start_matches('\u{feff}').len();
        let mut reader = Reader { text, at: from, depth: 0 };
        let whole = reader.value().filter(|_| {
            reader.space();
            reader.at == text.len()
        });
        whole.ok_or_else(|| Malformed { line: text[..reader.at.min(text.len())].matches('\n').count() + 1 })
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.members().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(super) fn members(&self) -> &[(String, Self)] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The texts of an array that holds nothing else.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match &self.kind {
            Kind::Array(items) => items.iter().map(Self::text).collect(),
            _ => None,
        }
    }

    pub(super) fn items(&self) -> &[Self] {
        match &self.kind {
            Kind::Array(items) => items,
            _ => &[],
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
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
            b'{' => Kind::Object(self.all(b'}', |reader| {
                reader.space();
                let key = reader.string()?;
                if !reader.take(b':') {
                    return None;
                }
                Some((key, reader.value()?))
            })?),
            b'[' => Kind::Array(self.all(b']', Self::value)?),
            b'"' => Kind::Text(self.string()?),
            _ => {
                let rest = self.rest();
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
                let end = end.unwrap_or(rest.len());
                let word = &rest[..end];
                if !matches!(word, "true" | "false" | "null") && word.parse::<f64>().is_err() {
                    return None;
                }
                self.at += end;
                Kind::Other
            }
        };
        Some(Node { span: start..self.at, kind })
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
        let text = serde_json::from_str(written).ok()?;
        self.at += end + 1;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_read_and_places_are_exact() {
        let text = "\u{feff}// mine\n{ /* a */ \"a\": [\"x\", 'no'";
        assert_eq!(Node::parse(text), Err(Malformed { line: 2 }));
        let text = "// mine\n{ /* { */ \"a\": [\"x\\\"\", -1.5e3, true,], // }\n \"b\": {\"c\": null,},\n}\n";
        let node = Node::parse(text).unwrap();
        let items = node.get("a").unwrap().items();
        assert_eq!(items[0].text(), Some("x\""));
        assert_eq!(&text[items[0].span.clone()], "\"x\\\"\"");
        assert_eq!(&text[node.get("b").unwrap().span.clone()], "{\"c\": null,}");
        assert_eq!(node.get("a").unwrap().texts(), None);
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_line() {
        for (text, line) in [("", 1), ("{\n\"a\" 1}", 2), ("[1 2]", 1), ("{} x", 1), ("[nul]", 1), ("\"a", 1)]
        {
            assert_eq!(Node::parse(text), Err(Malformed { line }), "{text:?}");
        }
        assert!(Node::parse(&"[".repeat(100_000)).is_err());
    }
}
