//! One line of stream-json, looked at as little as possible; and the lines that we write.

use std::borrow::Cow;

use askd_wire::Outcome;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::raw::{Object, quote};

/// The members that matter. Texts are JSON.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) kind: String,
    pub(crate) subtype: Option<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) cwd: Option<String>,
    /// Whatever is in it besides, by name.
    rest: Vec<(String, String)>,
}

/// Members that are kept as text.
const KEPT: [&str; 17] = [
    "sdk_host_only",
    "spawn_depth",
    "request",
    "response",
    "message",
    "parent_tool_use_id",
    "tool_result_meta",
    "task_id",
    "tool_use_id",
    "description",
    "subagent_type",
    "is_backgrounded",
    "parent_task_id",
    "task_type",
    "patch",
    "state",
    "status",
];

impl Line {
    /// `None`: no JSON object, and so no message of this protocol. The last of equal members counts, as it does for
    /// the programs at both ends.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(line);
        let members: Members<'_> = serde_json::from_str(&text).ok()?;
        let mut read = Self::default();
        for (name, value) in members.0 {
            let string = || serde_json::from_str::<String>(value.get()).ok();
            match &*name {
                "type" => read.kind = string().unwrap_or_default(),
                "subtype" => read.subtype = string(),
                "request_id" => read.request_id = string(),
                "session_id" => read.session = string().filter(|id| !id.is_empty()),
                "cwd" => read.cwd = string(),
                kept if KEPT.contains(&kept) => {
                    read.rest.retain(|(known, _)| known != kept);
                    read.rest.push((kept.to_owned(), value.get().to_owned()));
                }
                _ => {}
            }
        }
        Some(read)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.rest.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn object(&self, name: &str) -> Object<'_> {
        self.get(name).and_then(Object::parse).unwrap_or_default()
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }
}

struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> serde::de::Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    all.push((Cow::Owned(key), map.next_value()?));
                }
                Ok(Members(all))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// Nothing but white space: no message, and no harm.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// A permission request.
#[derive(Debug, Clone)]
pub(crate) struct CanUseTool {
    pub(crate) tool_name: String,
    pub(crate) input: Box<RawValue>,
    pub(crate) tool_use_id: Option<String>,
    pub(crate) agent_id: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) permission_suggestions: Vec<Box<RawValue>>,
    pub(crate) blocked_path: Option<String>,
    pub(crate) decision_reason: Option<String>,
    pub(crate) requires_user_interaction: bool,
}

impl CanUseTool {
    /// `None`: it names no tool or no input, so it cannot be shown. A member beside these of another shape than today's
    /// counts as absent; whatever may say that only a person's own words count says that.
    pub(crate) fn read(request: &str) -> Option<Self> {
        let read = Object::parse(request)?;
        let suggestions = read.get("permission_suggestions").and_then(|text| serde_json::from_str(text).ok());
        Some(Self {
            tool_name: read.text("tool_name").filter(|name| !name.is_empty())?,
            input: RawValue::from_string(read.get("input")?.to_owned())
                .ok()
                .filter(|input| input.get().starts_with('{'))?,
            tool_use_id: read.text("tool_use_id"),
            agent_id: read.text("agent_id"),
            title: read.text("title"),
            permission_suggestions: suggestions.unwrap_or_default(),
            blocked_path: read.text("blocked_path"),
            decision_reason: read.text("decision_reason"),
            requires_user_interaction: !matches!(
                read.get("requires_user_interaction"),
                None | Some("null" | "false")
            ),
        })
    }

    /// Only the person's own words can answer it.
    pub(crate) fn needs_own_prompt(&self) -> bool {
        self.requires_user_interaction
            || matches!(self.tool_name.as_str(), "AskUserQuestion" | "ExitPlanMode")
    }

    /// Why Claude asks, in its own words.
    pub(crate) fn reason(&self) -> Option<String> {
        let reason = self.decision_reason.as_deref().filter(|text| !text.is_empty());
        match (reason, &self.blocked_path) {
            (Some(reason), Some(path)) => Some(format!("{reason} ({path})")),
            (Some(reason), None) => Some(reason.to_owned()),
            (None, Some(path)) => Some(format!("outside what is allowed: {path}")),
            (None, None) => None,
        }
    }
}

/// What a host's response to a permission request says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    Allow {
        /// JSON text; none: it was left out, which older versions take for a deny.
        input: Option<String>,
        /// `updatedPermissions`, each as JSON text.
        permissions: Vec<String>,
    },
    Deny {
        message: Option<String>,
        stop: bool,
    },
    /// The host failed: an error, or a response that says neither.
    Failed(String),
}

impl Said {
    /// `response` is the member of that name in a `control_response`.
    pub(crate) fn read(response: &Object<'_>) -> Self {
        if response.text("subtype").as_deref() != Some("success") {
            let error = response.text("error").unwrap_or_else(|| "it did not say why".to_owned());
            return Self::Failed(error);
        }
        let Some(said) = response.get("response").and_then(Object::parse) else {
            return Self::Failed("its answer is no object".to_owned());
        };
        match said.text("behavior").as_deref() {
            Some("allow") => {
                let input = said.get("updatedInput").filter(|text| *text != "null").map(str::to_owned);
                if input.as_ref().is_some_and(|input| !input.starts_with('{')) {
                    return Self::Failed("updatedInput is no object".to_owned());
                }
                let permissions: Vec<Box<RawValue>> = match said.get("updatedPermissions") {
                    None | Some("null") => Vec::new(),
                    Some(text) => match serde_json::from_str(text) {
                        Ok(list) => list,
                        Err(_) => return Self::Failed("updatedPermissions is no list".to_owned()),
                    },
                };
                let permissions = permissions.iter().map(|raw| raw.get().to_owned()).collect();
                Self::Allow { input, permissions }
            }
            Some("deny") => {
                let stop = said.get("interrupt") == Some("true");
                Self::Deny { message: said.text("message"), stop }
            }
            _ => Self::Failed("its answer is neither allow nor deny".to_owned()),
        }
    }
}

/// Both texts are the same JSON value.
pub(crate) fn same_json(a: &str, b: &str) -> bool {
    a == b
        || match (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        }
}

/// The response that allows with this input. `permissions`: JSON text of the list.
pub(crate) fn allow(id: &str, input: &str, permissions: Option<&str>, call: Option<&str>) -> Vec<u8> {
    let mut answer = Object::default();
    answer.set_text("behavior", "allow");
    answer.set("updatedInput", input.to_owned());
    if let Some(permissions) = permissions {
        answer.set("updatedPermissions", permissions.to_owned());
    }
    respond(id, answer, call)
}

/// The response that denies with these words.
pub(crate) fn deny(id: &str, message: &str, stop: bool, call: Option<&str>) -> Vec<u8> {
    let mut answer = Object::default();
    answer.set_text("behavior", "deny");
    answer.set_text("message", message);
    if stop {
        answer.set("interrupt", "true".to_owned());
    }
    respond(id, answer, call)
}

fn respond(id: &str, mut answer: Object<'_>, call: Option<&str>) -> Vec<u8> {
    if let Some(call) = call {
        answer.set_text("toolUseID", call);
    }
    let (id, answer) = (quote(id), answer.to_string());
    let response = format!("{{\"subtype\":\"success\",\"request_id\":{id},\"response\":{answer}}}");
    line(&format!("{{\"type\":\"control_response\",\"response\":{response}}}"))
}

/// The reply to a request that only the host could serve.
pub(crate) fn host_gone(id: &str) -> Vec<u8> {
    let id = quote(id);
    let response = format!("{{\"subtype\":\"error\",\"request_id\":{id},\"error\":\"the host is gone\"}}");
    line(&format!("{{\"type\":\"control_response\",\"response\":{response}}}"))
}

/// The reply for a hook before a call by which that call is asked about.
pub(crate) fn ask_about(id: &str) -> Vec<u8> {
    let mut decision = Object::default();
    decision.set_text("hookEventName", "PreToolUse");
    decision.set_text("permissionDecision", "ask");
    decision.set_text("permissionDecisionReason", "the host whose hook checks this call is gone");
    let mut answer = Object::default();
    answer.set("hookSpecificOutput", decision.to_string());
    respond(id, answer, None)
}

/// The withdrawal of a request at the host.
pub(crate) fn cancel(id: &str) -> Vec<u8> {
    line(&format!("{{\"type\":\"control_cancel_request\",\"request_id\":{}}}", quote(id)))
}

/// A request that every version replies to, in the order in which it reads, and that changes nothing.
pub(crate) fn status_request(id: &str) -> Vec<u8> {
    let id = quote(id);
    line(&format!(
        "{{\"type\":\"control_request\",\"request_id\":{id},\"request\":{{\"subtype\":\"mcp_status\"}}}}"
    ))
}

/// Has a task ended.
pub(crate) fn stop_task(id: &str, task: &str) -> Vec<u8> {
    let (id, task) = (quote(id), quote(task));
    line(&format!(
        "{{\"type\":\"control_request\",\"request_id\":{id},\"request\":{{\"subtype\":\"stop_task\",\"task_id\":{task}}}}}"
    ))
}

/// Some readers end a line at these two as well, and in JSON they can only be in strings. What came as one line of
/// several, in white space, is one line again.
fn line(json: &str) -> Vec<u8> {
    let mut line =
        json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").replace(['\r', '\n'], " ");
    line.push('\n');
    line.into_bytes()
}

/// The true text for the model.
pub(crate) fn words(outcome: &Outcome) -> &str {
    outcome.reason_for_model.as_deref().unwrap_or(&outcome.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said::read(&Object::parse(text).unwrap())
    }

    #[test]
    fn c1_what_decides_nothing_is_a_host_that_failed() {
        for text in [
            r#"{"subtype":"error","request_id":"r","error":"boom"}"#,
            r#"{"subtype":"success","request_id":"r"}"#,
            r#"{"subtype":"success","request_id":"r","response":null}"#,
            r#"{"subtype":"success","request_id":"r","response":{"behavior":"maybe"}}"#,
            r#"{"subtype":"success","request_id":"r","response":{"behavior":"allow","updatedInput":"x"}}"#,
            r#"{"subtype":"success","request_id":"r","response":{"behavior":"allow","updatedPermissions":{}}}"#,
            r#"{"request_id":"r","response":{"behavior":"allow"}}"#,
        ] {
            assert!(matches!(said(text), Said::Failed(_)), "{text}");
        }
        let text =
            r#"{"subtype":"success","request_id":"r","response":{"behavior":"allow","updatedInput":null}}"#;
        assert_eq!(said(text), Said::Allow { input: None, permissions: Vec::new() });
        let text =
            r#"{"subtype":"success","request_id":"r","response":{"behavior":"deny","interrupt":true}}"#;
        assert_eq!(said(text), Said::Deny { message: None, stop: true });
    }

    #[test]
    fn c13_a_line_of_ours_is_one_line_for_every_reader() {
        let line = deny("r\n1", "a\u{2028}b\u{2029}c\r\n\"d\"", true, Some("toolu_1"));
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text.find('\n'), Some(text.len() - 1));
        assert!(!text.contains(['\u{2028}', '\u{2029}', '\r']));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["response"]["response"]["message"], "a\u{2028}b\u{2029}c\r\n\"d\"");
        assert_eq!(value["response"]["request_id"], "r\n1");
    }

    #[test]
    fn c13_what_is_no_object_is_no_line() {
        for broken in [&b"{"[..], b"", b"hello\n", b"[1]", b"1", b"{}{}", b"\xff", b"{\"a\":tru}"] {
            assert!(Line::read(broken).is_none(), "{broken:?}");
        }
        let deep = format!("{{\"type\":\"x\",\"deep\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(Line::read(deep.as_bytes()).unwrap().kind, "x");
        assert_eq!(Line::read(b"{\"type\":\"x\",\"a\":\"\xff\\ud800\"}\r\n").unwrap().kind, "x");
        assert!(is_blank(b" \r\n") && !is_blank(b"x"));
    }
}
