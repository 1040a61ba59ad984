//! One line of the wire, looked at as little as possible.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON-RPC id, compared as a JSON value (`1` is not `"1"`) and written back as it came.
#[derive(Debug, Clone)]
pub(crate) struct Id {
    value: Value,
    text: String,
}

impl Id {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        (value.is_string() || value.is_number() || value.is_null())
            .then(|| Self { value, text: text.to_owned() })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// For tables: the same for equal values and for no others.
    pub(crate) fn key(&self) -> String {
        self.value.to_string()
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// What a line is. Texts are JSON.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        params: &'a str,
    },
    Notification {
        method: Cow<'a, str>,
        params: &'a str,
    },
    Response {
        id: Id,
        result: Option<&'a str>,
    },
    /// Anything else, JSON or not: it is nobody's business.
    Other,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Keeps `null` apart from nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

pub(crate) fn look(line: &[u8]) -> Message<'_> {
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) else { return Message::Other };
    let params = envelope.params.map_or("null", RawValue::get);
    let id = match envelope.id.map(|raw| Id::parse(raw.get())) {
        Some(None) => return Message::Other,
        Some(Some(id)) => Some(id),
        None => None,
    };
    match (envelope.method, id) {
        (Some(method), Some(id)) => Message::Request { id, method, params },
        (Some(method), None) => Message::Notification { method, params },
        (None, Some(id)) if envelope.result.is_some() || envelope.error.is_some() => {
            let result = envelope.result.filter(|_| envelope.error.is_none()).map(RawValue::get);
            Message::Response { id, result }
        }
        (None, _) => Message::Other,
    }
}

/// A line that we write ourselves.
pub(crate) fn notification(method: &str, params: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n").into_bytes()
}

pub(crate) fn request(id: &str, method: &str, params: &str) -> Vec<u8> {
    let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"");
    format!("{head},\"params\":{params}}}\n").into_bytes()
}

pub(crate) fn response(id: &Id, result: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", id.text()).into_bytes()
}

/// The withdrawal of a request.
pub(crate) fn cancel_request(id: &str) -> Vec<u8> {
    notification("$/cancel_request", &format!("{{\"requestId\":{id}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_json_values() {
        let id = |text: &str| Id::parse(text).unwrap();
        assert_eq!(id("1"), id(" 1 "));
        assert_ne!(id("1"), id("\"1\""));
        assert_ne!(id("0"), id("null"));
        assert_eq!(id(r#""a""#).key(), id(r#""\u0061""#).key());
        assert!(Id::parse("[1]").is_none());
    }

    #[test]
    fn lines_are_what_they_are() {
        assert!(matches!(
            look(br#"{"id":null,"error":{"code":-32700}}"#),
            Message::Response { result: None, .. }
        ));
        assert!(matches!(look(br#"{"id":0,"method":"x"}"#), Message::Request { params: "null", .. }));
        assert!(matches!(look(b"{\"method\":\"x\",\"params\":[1]}\r\n"), Message::Notification { .. }));
        for other in [&b"hello"[..], b"", b"[]", b"{}", b"{\"id\":1}", b"{\"id\":{},\"result\":1}", b"\xff{}"]
        {
            assert!(matches!(look(other), Message::Other), "{other:?}");
        }
    }
}
