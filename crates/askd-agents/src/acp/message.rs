//! One line of the wire, looked at as little as possible.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON-RPC id, compared as a JSON value (`1` is not `"1"`, but it is `1.0`) and written back as it came.
#[derive(Debug, Clone)]
pub(crate) struct Id {
    key: String,
    text: String,
}

impl Id {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let key = match value {
            Value::Number(_) => plain_number(text.trim()),
            Value::String(_) | Value::Null => value.to_string(),
            _ => return None,
        };
        Some(Self { key, text: text.to_owned() })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// For tables: the same for equal values and for no others.
    pub(crate) fn key(&self) -> String {
        self.key.clone()
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

/// Longest number that is written out; a double has no more digits before its programs write an exponent.
const MOST_DIGITS: i64 = 21;

/// The same text for the same number: programs that read numbers as doubles send `1.0` back as `1` and `1e2` as `100`.
/// Exact, so that large integers that differ in their last digit stay apart.
fn plain_number(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let Ok(exponent) = exponent.parse::<i64>() else { return text.to_owned() };
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let zeros = length(digits) - length(significant);
    let exponent = exponent.saturating_sub(length(fraction)).saturating_add(zeros);
    let written = usize::try_from(exponent)
        .ok()
        .filter(|_| length(significant).saturating_add(exponent) <= MOST_DIGITS);
    match written {
        Some(zeros) => format!("{sign}{significant}{}", "0".repeat(zeros)),
        None => format!("{sign}{significant}e{exponent}"),
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

/// The members that matter. Where one comes twice, the last counts, as most programs read it.
#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a RawValue>,
    method: Option<String>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    /// Not `null`, which many programs write beside a result.
    error: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let mut seen = Envelope::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "id" => seen.id = Some(map.next_value()?),
                "method" => seen.method = map.next_value()?,
                "params" => seen.params = Some(map.next_value()?),
                "result" => seen.result = Some(map.next_value()?),
                "error" => {
                    let error: &'de RawValue = map.next_value()?;
                    seen.error = Some(error).filter(|error| error.get() != "null");
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(seen)
    }
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
        (Some(method), Some(id)) => Message::Request { id, method: method.into(), params },
        (Some(method), None) => Message::Notification { method: method.into(), params },
        // With nothing in it, it is a response all the same: its request gets no other one.
        (None, Some(id)) => {
            let result = envelope.result.filter(|_| envelope.error.is_none()).map(RawValue::get);
            Message::Response { id, result }
        }
        (None, None) => Message::Other,
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
        for same in [
            ["1", "1.0"],
            ["100", "1e2"],
            ["-5", "-50e-1"],
            ["0", "-0.0"],
            ["1.50", "15E-1"],
            ["1e30", "10e29"],
        ] {
            assert_eq!(id(same[0]), id(same[1]), "{same:?}");
            assert_eq!(id(same[0]).key(), id(same[1]).key(), "{same:?}");
        }
        for other in [["1", "-1"], ["1", "1.5"], ["9007199254740993", "9007199254740992"], ["1e22", "1e23"]] {
            assert_ne!(id(other[0]), id(other[1]), "{other:?}");
        }
        assert_eq!(id("1.0").text(), "1.0");
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
        for empty in
            [&br#"{"id":1}"#[..], br#"{"id":1,"error":null}"#, br#"{"id":1,"result":{},"error":{"code":1}}"#]
        {
            assert!(matches!(look(empty), Message::Response { result: None, .. }), "{empty:?}");
        }
        for full in
            [&br#"{"id":1,"error":null,"result":7}"#[..], br#"{"id":1,"result":6,"result":7,"error":null}"#]
        {
            assert!(matches!(look(full), Message::Response { result: Some("7"), .. }), "{full:?}");
        }
        for other in [&b"hello"[..], b"", b"[]", b"{}", b"{\"id\":{},\"result\":1}", b"\xff{}"] {
            assert!(matches!(look(other), Message::Other), "{other:?}");
        }
    }
}
