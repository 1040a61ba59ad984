//! The lines of pi's RPC mode, looked at as little as possible.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// A `select` of an extension.
#[derive(Debug, Clone)]
pub(super) struct Select {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) options: Vec<String>,
    /// pi settles it by itself after that.
    pub(super) timeout: Option<Duration>,
}

/// Who asks, in a dialog that a subagent's request opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) name: String,
    pub(super) session: String,
}

const ROOT: &str = "Permission Required";
const SUBAGENT: &str = "Permission Required (Subagent)";

/// Whether this is the title of a permission dialog: its first line says so.
pub(super) fn is_permission(title: &str) -> bool {
    title.split_once('\n').is_some_and(|(first, _)| first == ROOT || first == SUBAGENT)
}

impl Select {
    /// The subagent, from the two lines that the extension writes before the request itself.
    pub(super) fn child(&self) -> Option<Child> {
        let mut lines = self.title.split('\n');
        if lines.next() != Some(SUBAGENT) {
            return None;
        }
        let between = |line: Option<&str>, start: &str, end: &str| {
            line.and_then(|line| line.strip_prefix(start)?.strip_suffix(end)).map(str::to_owned)
        };
        let name = between(lines.next(), "Subagent '", "' requested permission.");
        let session = between(lines.next(), "Session ID: ", "").filter(|id| !id.is_empty());
        Some(Child {
            name: name.unwrap_or_else(|| "subagent".to_owned()),
            session: session.unwrap_or_else(|| "subagent".to_owned()),
        })
    }
}

/// What pi said.
pub(super) enum FromAgent {
    Select(Select),
    Input {
        id: String,
        title: String,
    },
    /// `switched`: it may be in another session now.
    Response {
        id: Option<String>,
        session: Option<String>,
        switched: bool,
    },
    CallStarted {
        id: String,
        tool: String,
        input: Option<String>,
    },
    CallEnded {
        id: String,
        ok: bool,
    },
    Started,
    Settled,
    Other,
}

/// What the host said.
pub(super) enum FromHost {
    Reply {
        id: String,
        reply: Reply,
    },
    /// A command after which nothing of the turn may run any more.
    Abort,
    Other,
}

#[derive(Debug)]
pub(super) enum Reply {
    Value(String),
    Cancelled,
    Wrong,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    options: Option<Value>,
    #[serde(default)]
    timeout: Option<Value>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    data: Option<State>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default, borrow)]
    args: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
}

/// Anything; only an object can have the member.
#[derive(Default)]
struct State(Option<String>);

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Data {
            session_id: Option<String>,
        }
        Ok(Self(serde_json::from_str::<Data>(raw.get()).ok().and_then(|data| data.session_id)))
    }
}

/// Events that are many and long, and never matter here. pi writes the type first.
const PASSED: [&[u8]; 2] = [br#"{"type":"message_"#, br#"{"type":"tool_execution_update""#];

pub(super) fn from_agent(line: &[u8]) -> FromAgent {
    if PASSED.iter().any(|start| line.starts_with(start)) {
        return FromAgent::Other;
    }
    let Ok(told) = serde_json::from_slice::<Told<'_>>(line) else { return FromAgent::Other };
    let id = match told.id {
        Some(Value::String(id)) => Some(id),
        _ => None,
    };
    match (&*told.kind, id) {
        ("extension_ui_request", Some(id)) => {
            let title = told.title.unwrap_or_default();
            match told.method.as_deref() {
                Some("select") => {
                    let Some(options) = texts(told.options) else { return FromAgent::Other };
                    let millis = told.timeout.as_ref().and_then(Value::as_u64);
                    let timeout = millis.map(Duration::from_millis);
                    FromAgent::Select(Select { id, title, options, timeout })
                }
                Some("input") => FromAgent::Input { id, title },
                _ => FromAgent::Other,
            }
        }
        ("response", id) => FromAgent::Response {
            id,
            session: told.data.and_then(|data| data.0),
            switched: told.command.as_deref().is_some_and(ends_session),
        },
        ("tool_execution_start", _) => match (told.tool_call_id, told.tool_name) {
            (Some(id), Some(tool)) => {
                FromAgent::CallStarted { id, tool, input: told.args.map(|args| args.get().to_owned()) }
            }
            _ => FromAgent::Other,
        },
        ("tool_execution_end", _) => match told.tool_call_id {
            Some(id) => FromAgent::CallEnded { id, ok: told.is_error != Some(true) },
            None => FromAgent::Other,
        },
        ("agent_start", _) => FromAgent::Started,
        ("agent_settled", _) => FromAgent::Settled,
        _ => FromAgent::Other,
    }
}

fn texts(value: Option<Value>) -> Option<Vec<String>> {
    let Some(Value::Array(items)) = value else { return None };
    items.into_iter().map(|item| if let Value::String(text) = item { Some(text) } else { None }).collect()
}

fn ends_session(command: &str) -> bool {
    matches!(command, "new_session" | "switch_session" | "fork" | "clone")
}

/// Where a member comes twice the last counts, as pi reads it.
pub(super) fn from_host(line: &[u8]) -> FromHost {
    let Ok(Value::Object(mut told)) = serde_json::from_slice(line) else { return FromHost::Other };
    match told.get("type").and_then(Value::as_str) {
        Some("extension_ui_response") => {
            let Some(Value::String(id)) = told.remove("id") else { return FromHost::Other };
            let cancelled = told.get("cancelled").is_some_and(|value| *value == true);
            let reply = match told.remove("value") {
                _ if cancelled => Reply::Cancelled,
                Some(Value::String(value)) => Reply::Value(value),
                _ => Reply::Wrong,
            };
            FromHost::Reply { id, reply }
        }
        Some(command) if command == "abort" || ends_session(command) => FromHost::Abort,
        _ => FromHost::Other,
    }
}

/// An answer to a dialog.
pub(super) fn value(id: &str, value: &str) -> Vec<u8> {
    line(&json!({"type": "extension_ui_response", "id": id, "value": value}))
}

/// The dialog is over, and nobody decided.
pub(super) fn cancelled(id: &str) -> Vec<u8> {
    line(&json!({"type": "extension_ui_response", "id": id, "cancelled": true}))
}

pub(super) fn command(id: &str, command: &str) -> Vec<u8> {
    line(&json!({"id": id, "type": command}))
}

/// For the host's screen.
pub(super) fn notice(id: &str, text: &str) -> Vec<u8> {
    line(&json!({"type": "extension_ui_request", "id": id, "method": "notify", "message": text,
        "notifyType": "info"}))
}

/// An object of texts, and one member that is JSON already.
pub(super) fn object(texts: &[(&str, &str)], raw: Option<(&str, &str)>) -> String {
    let mut object: Map<String, Value> =
        texts.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).collect();
    if let Some((name, json)) = raw {
        let parsed = serde_json::from_str(json).unwrap_or_else(|_| Value::from(json));
        object.insert(name.to_owned(), parsed);
    }
    Value::Object(object).to_string()
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}
