//! The lines of the client, as far as they must not be parsed and written anew.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

/// What a line is, besides what rmcp makes of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// `tools/call` with an input: the line for rmcp has `{}` in its place.
    Call {
        id: String,
        input: &'a str,
        rest: String,
    },
    /// `notifications/cancelled` of the request with this id.
    Cancel {
        id: String,
    },
    Other,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow, default)]
    arguments: Option<Arguments<'a>>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

/// Looks at one line. What is not understood here is rmcp's to refuse.
pub(crate) fn look(line: &str) -> Line<'_> {
    let Ok(frame) = serde_json::from_str::<Frame<'_>>(line) else { return Line::Other };
    let params = frame.params.as_ref();
    match (frame.method.as_deref(), frame.id) {
        (Some("tools/call"), Some(id)) => {
            let input = params.and_then(|p| p.arguments.as_ref()).and_then(|a| a.input);
            let place = input.and_then(|input| place(line, input.get()));
            match (input, place) {
                (Some(input), Some(place)) => {
                    let rest = format!("{}{{}}{}", &line[..place.start], &line[place.end..]);
                    Line::Call { id: name(id.get()), input: input.get(), rest }
                }
                _ => Line::Other,
            }
        }
        (Some("notifications/cancelled"), None) => match params.and_then(|p| p.request_id) {
            Some(id) => Line::Cancel { id: name(id.get()) },
            None => Line::Other,
        },
        _ => Line::Other,
    }
}

/// The id of a line that is a request, whatever else is wrong with it.
pub(crate) fn request_id(line: &str) -> Option<&str> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        #[serde(borrow, rename = "method")]
        _method: &'a RawValue,
    }
    let id = serde_json::from_str::<Request<'_>>(line).ok()?.id.get();
    (id.starts_with('"') || id.parse::<i64>().is_ok()).then_some(id)
}

/// One name for one id: a string and a number are not the same.
pub(crate) fn name(id: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(id) {
        Ok(value) => value.to_string(),
        Err(_) => id.to_owned(),
    }
}

/// Where `part` lies in `line`, of which it is a slice.
fn place(line: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (line.get(start..end)? == part).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c13_the_input_of_a_call_is_taken_out_byte_for_byte() {
        // What a parser would change: a lone surrogate, a number beyond every type, a key that is there twice, spaces.
        let input = r#"{ "a":"\ud800","n":123456789012345678901234567890.10,"a" :1e400 , "u":"\u0041"}"#;
        let line = format!(
            r#"{{"method":"tools/call","params":{{"name":"ask","arguments":{{"tool_name":"Bash","input":{input},"tool_use_id":"t"}}}},"jsonrpc":"2.0","id":3}}"#
        );
        let Line::Call { id, input: found, rest } = look(&line) else { panic!("{:?}", look(&line)) };
        assert_eq!((id.as_str(), found), ("3", input));
        let parsed: serde_json::Value = serde_json::from_str(&rest).unwrap();
        assert_eq!(parsed["params"]["arguments"]["input"], serde_json::json!({}));
        assert_eq!(parsed["params"]["arguments"]["tool_use_id"], "t");
    }

    #[test]
    fn c6_a_cancel_names_its_request_and_a_text_is_no_number() {
        let cancel = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"x"}}}}"#
            )
        };
        assert_eq!(look(&cancel("2")), Line::Cancel { id: "2".to_owned() });
        assert_eq!(look(&cancel("\"\\u0032\"")), Line::Cancel { id: "\"2\"".to_owned() });
    }

    #[test]
    fn s7_everything_else_is_left_to_the_protocol() {
        for line in [
            "",
            "{",
            "[]",
            "{\"method\":\"tools/call\"}",
            r#"{"method":"tools/call","id":1,"params":{"arguments":{"tool_name":"x"}}}"#,
            r#"{"method":"tools/call","id":1,"params":{"arguments":[]}}"#,
            r#"{"method":"notifications/cancelled","params":{}}"#,
            r#"{"id":1,"result":{"input":{}}}"#,
        ] {
            assert_eq!(look(line), Line::Other, "{line}");
        }
    }

    #[test]
    fn s7_a_request_that_cannot_be_read_still_has_its_id() {
        assert_eq!(request_id(r#"{"id":7,"method":"x","params":{"a":"\ud800"}}"#), Some("7"));
        assert_eq!(request_id(r#"{"method":"\ud800","id":"a\ud800"}"#), Some(r#""a\ud800""#));
        for line in
            [r#"{"id":{},"method":"x"}"#, r#"{"id":null,"method":"x"}"#, r#"{"id":1,"result":{}}"#, "[", ""]
        {
            assert_eq!(request_id(line), None, "{line}");
        }
    }

    #[test]
    fn s7_no_cut_or_changed_line_makes_it_panic_and_what_is_a_call_stays_one() {
        let line = r#"{"method":"tools/call","params":{"name":"ask","arguments":{"tool_name":"Bäsh","input":{"a":["\ud800",1e9]},"tool_use_id":"t"},"_meta":{"claudecode/toolUseId":"t"}},"jsonrpc":"2.0","id":3}"#;
        for at in 0..line.len() {
            for change in [&b""[..], b"\"", b"}", b"{", b"\\", b"\xff", b",", b":"] {
                let mut bytes = line.as_bytes().to_vec();
                bytes.splice(at..=at, change.iter().copied());
                let Ok(text) = String::from_utf8(bytes) else { continue };
                if let Line::Call { input, rest, .. } = look(&text) {
                    assert!(serde_json::from_str::<&RawValue>(input).is_ok(), "{text}");
                    assert!(serde_json::from_str::<&RawValue>(&rest).is_ok(), "{text}");
                }
                let _ = request_id(&text);
            }
        }
    }
}
