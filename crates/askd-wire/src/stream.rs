//! Surfaces and the event stream (`GET /v1/events`, server-sent events).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ask::Ask;

/// Body of `POST /v1/surfaces`. The surface is attached while its event stream
/// (`GET /v1/events?surface=<id>`) is open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegisterSurface {
    /// For people: `terminal`, `editor`, …
    pub name: String,
    pub kind: SurfaceKind,
    #[serde(default)]
    pub scope: Scope,
    /// How many asks it can hold at once; absent: any number.
    #[serde(default)]
    pub capacity: Option<u32>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Registered {
    pub surface: String,
    /// What a surface of this name, of kind remote, last asked to keep ([`SurfaceReport::Keep`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SurfaceKind {
    /// At the machine where askd runs, or a terminal or page that reaches it as its own.
    Direct,
    /// What it is sent leaves the machine. In everything that it gets (its events; lists and asks that it reads with
    /// `?surface=<id>`; replies to its answers) secrets of known shapes are covered, `action.input` and the
    /// `payload` of choices are absent, and a last display field `masked` says how many were covered.
    Remote,
}

/// `"all"` or `{"roots": ["<agent>/<session>", …]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    #[default]
    All,
    Roots(Vec<String>),
}

/// Body of `POST /v1/surfaces/{id}/report`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SurfaceReport {
    Shown {
        ask: String,
    },
    Failed {
        ask: String,
        reason: String,
    },
    /// Remote: everything that waited at its server was fetched, and its answers were given.
    Polled,
    /// Remote: keep this in the journal, in place of what was kept before under the surface's name.
    Keep {
        state: Value,
    },
    /// Remote: why it does not work now, for people; null: it works.
    Trouble {
        text: Option<String>,
    },
}

/// One server-sent event. The SSE `id` is the journal position, the SSE `event` is the tag.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "Flat")]
pub enum StreamEvent {
    /// First event of every stream that does not resume: all open asks at `position`.
    Snapshot { position: u64, asks: Vec<Ask> },
    /// Positions in between were not kept for you: a new snapshot follows.
    Gap { after: u64 },
    /// Something happened to an ask: `what` is the journal event's name (`asked`, `settled`, `withdrawn`, `handed_back`, …), or
    /// `moved`: its session was linked to another tree, whose root it has now.
    Ask { position: u64, what: String, ask: Box<Ask> },
    /// A session's number of open asks changed.
    Waiting { session: String, agent: String, root: String, waiting: u32 },
    /// Something that every surface should tell the person, e.g. that an agent tried to answer its own ask.
    Notice { text: String },
    /// The machine was suspended: whoever has a server elsewhere fetches what waits there, and says `polled`.
    Woke,
    /// The daemon is going away: `restart` true means come back.
    Bye { restart: bool },
}

/// How an event is read: serde reads a tagged enum through a buffer that raw input cannot pass, so all variants are
/// one flat struct on the way in.
#[derive(Deserialize)]
struct Flat {
    #[serde(rename = "type")]
    kind: String,
    position: Option<u64>,
    asks: Option<Vec<Ask>>,
    after: Option<u64>,
    what: Option<String>,
    ask: Option<Box<Ask>>,
    session: Option<String>,
    agent: Option<String>,
    root: Option<String>,
    waiting: Option<u32>,
    text: Option<String>,
    restart: Option<bool>,
}

impl TryFrom<Flat> for StreamEvent {
    type Error = String;

    fn try_from(flat: Flat) -> Result<Self, String> {
        fn need<T>(value: Option<T>, name: &str) -> Result<T, String> {
            value.ok_or_else(|| format!("missing field `{name}`"))
        }
        let position = || need(flat.position, "position");
        Ok(match flat.kind.as_str() {
            "snapshot" => Self::Snapshot { position: position()?, asks: need(flat.asks, "asks")? },
            "gap" => Self::Gap { after: need(flat.after, "after")? },
            "ask" => Self::Ask {
                position: position()?,
                what: need(flat.what, "what")?,
                ask: need(flat.ask, "ask")?,
            },
            "waiting" => Self::Waiting {
                session: need(flat.session, "session")?,
                agent: need(flat.agent, "agent")?,
                root: need(flat.root, "root")?,
                waiting: need(flat.waiting, "waiting")?,
            },
            "notice" => Self::Notice { text: need(flat.text, "text")? },
            "woke" => Self::Woke,
            "bye" => Self::Bye { restart: need(flat.restart, "restart")? },
            other => return Err(format!("unknown event `{other}`")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: &str = r#"{"id":"0190","handle":"k7f","state":"open","digest":"sha256:0","class":"tool","attendance":"foreground","action":{"tool":"Bash","kind":null,"title":null,"input":{"n": 1.0e2},"cwd":null},"display":[],"lineage":{"agent":"a","instance":null,"session":"s","root":"s","parent":null,"subagent":null,"job":null,"tool_call":null,"host":null,"place":null},"options":[],"asked_at":"2026-11-30T08:00:00.000Z","deadline":null,"default":null,"gives_up_at":null,"requester":{"link":"attached"},"outcome":null,"delivery":"none"}"#;

    #[test]
    fn events_with_raw_input_are_read_as_they_were_written() {
        let texts = [
            format!(r#"{{"type":"snapshot","position":7,"asks":[{ASK}]}}"#),
            format!(r#"{{"type":"ask","position":8,"what":"asked","ask":{ASK}}}"#),
            r#"{"type":"gap","after":3}"#.to_owned(),
            r#"{"type":"waiting","session":"s","agent":"a","root":"s","waiting":2}"#.to_owned(),
            r#"{"type":"notice","text":"look"}"#.to_owned(),
            r#"{"type":"woke"}"#.to_owned(),
            r#"{"type":"bye","restart":true}"#.to_owned(),
        ];
        for text in texts {
            let event: StreamEvent = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), text);
        }
    }

    #[test]
    fn an_event_without_a_needed_field_is_refused() {
        let error = serde_json::from_str::<StreamEvent>(r#"{"type":"gap"}"#).unwrap_err();
        assert!(error.to_string().contains("missing field `after`"), "{error}");
    }
}
