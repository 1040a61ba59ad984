//! The digest that binds an answer to what was shown: SHA-256 over tool, input and working directory.
//!
//! Input that is I-JSON is hashed in its RFC 8785 form, so that key order and spacing do not matter. Anything else
//! (duplicate keys, integers beyond 2^53, lone surrogates, broken JSON) is hashed as its raw bytes under another tag,
//! because two such texts that "mean the same" to one parser may mean something else to the agent.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::id::{Hash256, NotAHash};

const TAG_JSON: &str = "askd-digest-1";
const TAG_RAW: &str = "askd-digest-1-raw";
const TAG_CONTENT: &str = "askd-digest-1-content";
/// Largest integer that every JSON reader keeps exactly (RFC 7493).
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Printed as `sha256:<hex>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub Hash256);

impl Digest {
    pub(crate) const MIN: Self = Self(Hash256([0; 32]));

    /// Digest of an action. `input` is the raw JSON text; without it `content` (title, text, locations of an agent
    /// that gives no input) stands in.
    pub fn of(tool: &str, input: Option<&str>, cwd: Option<&str>, content: &str) -> Self {
        let cwd = cwd.map_or_else(|| "null".to_owned(), quoted);
        let tool = quoted(tool);
        let text = match input.map(|raw| (raw, canonical(raw))) {
            Some((_, Some(json))) => {
                format!("{TAG_JSON}\n{{\"cwd\":{cwd},\"input\":{json},\"tool\":{tool}}}")
            }
            Some((raw, None)) => format!("{TAG_RAW}\n{{\"cwd\":{cwd},\"tool\":{tool}}}\n{raw}"),
            None => {
                let content = quoted(content);
                format!("{TAG_CONTENT}\n{{\"content\":{content},\"cwd\":{cwd},\"tool\":{tool}}}")
            }
        };
        Self(Hash256::of(text.as_bytes()))
    }
}

/// A string as RFC 8785 writes it. serde_json escapes exactly what the RFC wants: the two-letter escapes, other
/// controls as \u00xx in lower case, nothing else.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(text, &mut out);
    out
}

fn quote(text: &str, out: &mut String) {
    // What is written as it is needs no second look.
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl FromStr for Digest {
    type Err = NotAHash;

    fn from_str(s: &str) -> Result<Self, NotAHash> {
        s.strip_prefix("sha256:").ok_or(NotAHash)?.parse().map(Self)
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The RFC 8785 form of a JSON text, or `None` when it is not I-JSON.
pub fn canonical(raw: &str) -> Option<String> {
    let mut de = serde_json::Deserializer::from_str(raw);
    let value = Strict.deserialize(&mut de).ok()?;
    de.end().ok()?;
    let mut out = String::with_capacity(raw.len());
    write(&value, &mut out);
    Some(out)
}

enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    // Keyed by UTF-16 units, the order that RFC 8785 wants.
    Object(BTreeMap<Vec<u16>, (String, Self)>),
}

/// Reads JSON and fails on what I-JSON forbids. serde_json itself refuses lone surrogates.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Json;

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<Json, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("I-JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Json, E> {
        Ok(Json::Bool(v))
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Json, E> {
        if v.unsigned_abs() > MAX_SAFE_INTEGER {
            return Err(E::custom("integer beyond 2^53"));
        }
        Ok(Json::Int(v))
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Json, E> {
        match i64::try_from(v) {
            Ok(v) => self.visit_i64(v),
            Err(_) => Err(E::custom("integer beyond 2^53")),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Json, E> {
        // An integer too long for 64 bits arrives here as well.
        if !v.is_finite() || v.abs() >= 9_007_199_254_740_992.0 && v.fract() == 0.0 {
            return Err(E::custom("number beyond what JSON readers agree on"));
        }
        Ok(Json::Float(v))
    }

    fn visit_str<E>(self, v: &str) -> Result<Json, E> {
        Ok(Json::Text(v.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(Self)? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut object = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Self)?;
            if object.insert(key.encode_utf16().collect(), (key, value)).is_some() {
                return Err(A::Error::custom("duplicate key"));
            }
        }
        Ok(Json::Object(object))
    }
}

fn write(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Int(n) => out.push_str(&n.to_string()),
        Json::Float(n) => out.push_str(ryu_js::Buffer::new().format_finite(*n)),
        Json::Text(s) => quote(s, out),
        Json::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(object) => {
            out.push('{');
            for (i, (key, item)) in object.values().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                quote(key, out);
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form_follows_rfc_8785() {
        let raw = "{ \"b\": [1.0, 1e21, 0.000001, -0.0, 56.0], \"a\": \"\\u20ac$\\u000f\\n\", \"\\u00e9\":null,\"\u{1f600}\":true,\"\u{fb33}\":false}";
        assert_eq!(canonical(raw), None, "1e21 is an integer beyond 2^53");
        let raw = raw.replace("1e21", "1.5e-7");
        assert_eq!(
            canonical(&raw).unwrap(),
            "{\"a\":\"\u{20ac}$\\u000f\\n\",\"b\":[1,1.5e-7,0.000001,0,56],\"\u{e9}\":null,\"\u{1f600}\":true,\"\u{fb33}\":false}"
        );
    }

    #[test]
    fn every_string_is_quoted_as_the_json_library_quotes_it() {
        for text in
            ["", "ls -la", "é\u{7f}🦀", "\"", "\\", "a\nb\u{1}", "\u{1f}x", "\u{20}\u{21}", "\u{2028}"]
        {
            assert_eq!(quoted(text), serde_json::Value::from(text).to_string());
        }
        for code in 0..=0x2100u32 {
            let Some(c) = char::from_u32(code) else { continue };
            let text = format!("a{c}b");
            assert_eq!(quoted(&text), serde_json::Value::from(text.as_str()).to_string(), "{code:x}");
        }
    }

    #[test]
    fn what_is_not_i_json_is_hashed_as_bytes() {
        for raw in [
            r#"{"a":1,"a":2}"#,
            "9007199254740993",
            "18446744073709551615",
            "123456789012345678901234567890",
            r#""\ud800""#,
            "{",
            "1 2",
            "1e999",
        ] {
            assert_eq!(canonical(raw), None, "{raw}");
        }
        assert_ne!(
            Digest::of("t", Some(r#"{"a":1,"a":2}"#), None, ""),
            Digest::of("t", Some(r#"{"a":1, "a":2}"#), None, "")
        );
    }

    #[test]
    fn spacing_and_key_order_do_not_matter_and_everything_else_does() {
        let d = |tool, input, cwd| Digest::of(tool, input, cwd, "");
        let base = d("Bash", Some(r#"{"a":1,"b":[2,3]}"#), Some("/x"));
        assert_eq!(base, d("Bash", Some("{ \"b\":[2, 3],\n\"a\":1 }"), Some("/x")));
        assert_ne!(base, d("Bash", Some(r#"{"a":1,"b":[3,2]}"#), Some("/x")));
        assert_ne!(base, d("Bash", Some(r#"{"a":1,"b":[2,3]}"#), Some("/y")));
        assert_ne!(base, d("Bash", Some(r#"{"a":1,"b":[2,3]}"#), None));
        assert_ne!(base, d("bash", Some(r#"{"a":1,"b":[2,3]}"#), Some("/x")));
        assert_ne!(d("t", None, None), Digest::of("t", None, None, "content"));
        assert_eq!(base.to_string().parse::<Digest>(), Ok(base));
    }
}
