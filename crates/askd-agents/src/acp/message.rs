//! One line of the wire, looked at as little as possible.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
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

/// What a line is about, from as few of its first bytes as tell it. Only to let lines pass that are nobody's business.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Glance {
    pub(crate) method: Option<String>,
    pub(crate) id: Option<Id>,
    /// A response: the id is told, and no method came before its result.
    pub(crate) responds: bool,
    /// Session and kind of a `session/update`.
    pub(crate) session: Option<String>,
    pub(crate) update: Option<String>,
}

/// Members that come in another order than usual tell less; the line is then looked at as a whole.
pub(crate) fn glance(line: &[u8]) -> Glance {
    let mut seen = Glance::default();
    let mut reader = serde_json::Deserializer::from_slice(line);
    // It ends with an error as soon as enough is known.
    let _ = Top(&mut seen).deserialize(&mut reader);
    seen
}

fn enough<E: serde::de::Error>() -> E {
    E::custom("enough")
}

struct Top<'a>(&'a mut Glance);
struct Params<'a>(&'a mut Glance);
struct Update<'a>(&'a mut Glance);

macro_rules! objects {
    ($($seed:ident),+) => {
        $(impl<'de> DeserializeSeed<'de> for $seed<'_> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                deserializer.deserialize_map(self)
            }
        })+
    };
}

objects!(Top, Params, Update);

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "method" => {
                    let method: String = map.next_value()?;
                    let is_update = method == "session/update";
                    self.0.method = Some(method);
                    if !is_update {
                        return Err(enough());
                    }
                }
                "id" => {
                    let raw: &'de RawValue = map.next_value()?;
                    self.0.id = Id::parse(raw.get());
                }
                "params" if self.0.method.is_some() => {
                    map.next_value_seed(Params(self.0))?;
                    return Err(enough());
                }
                "result" | "error" if self.0.method.is_none() && self.0.id.is_some() => {
                    self.0.responds = true;
                    return Err(enough());
                }
                "params" | "result" | "error" => return Err(enough()),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Params<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the params of an update")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "sessionId" => self.0.session = Some(map.next_value()?),
                "update" if self.0.session.is_some() => return map.next_value_seed(Update(self.0)),
                "update" => return Err(enough()),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Update<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an update")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "sessionUpdate" {
                self.0.update = Some(map.next_value()?);
                return Err(enough());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
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
    fn a_glance_needs_no_more_than_the_beginning() {
        let update = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[ cut"#;
        let seen = glance(update);
        assert_eq!((seen.session.as_deref(), seen.update.as_deref()), (Some("s"), Some("plan")));
        let seen = glance(br#"{"id":7,"method":"fs/read_text_file","params": cut"#);
        assert_eq!((seen.method.as_deref(), seen.responds), (Some("fs/read_text_file"), false));
        let seen = glance(br#"{"jsonrpc":"2.0","id":"x","result": cut"#);
        assert!(seen.responds && seen.id == Id::parse("\"x\""));
        for other in
            [&br#"{"params":{},"method":"x"}"#[..], br#"{"result":1,"id":1}"#, b"[]", b"", b"{\"id\":1}"]
        {
            let seen = glance(other);
            assert!(seen.method.is_none() && !seen.responds, "{other:?}");
        }
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
