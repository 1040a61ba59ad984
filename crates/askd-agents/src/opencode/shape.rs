//! opencode's own shapes, read into ours. Pure.

use serde_json::{Value, json};

/// `permission.asked`, or one of the list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Permission {
    pub(super) id: String,
    pub(super) session: String,
    /// What is asked for: mostly the tool, but also e.g. `external_directory`.
    pub(super) name: String,
    pub(super) patterns: Vec<String>,
    pub(super) always: Vec<String>,
    pub(super) metadata: Value,
    pub(super) message: Option<String>,
    pub(super) call: Option<String>,
}

impl Permission {
    /// `None`: it is none, or of a shape that nobody here knows.
    pub(super) fn read(from: &Value) -> Option<Self> {
        Some(Self {
            id: text(from, "id")?,
            session: text(from, "sessionID")?,
            name: text(from, "permission")?,
            patterns: texts(&from["patterns"]),
            always: texts(&from["always"]),
            metadata: from["metadata"].clone(),
            message: text(&from["tool"], "messageID"),
            call: text(&from["tool"], "callID"),
        })
    }

    /// ACP tool kind, as opencode's own ACP side has it.
    pub(super) fn kind(&self) -> &'static str {
        match self.name.as_str() {
            "bash" => "execute",
            "edit" | "write" | "patch" => "edit",
            "read" | "list" => "read",
            "glob" | "grep" | "lsp" => "search",
            "webfetch" | "websearch" => "fetch",
            _ => "other",
        }
    }

    /// One line for people about the call, as opencode's own ACP side has it.
    pub(super) fn title(&self) -> String {
        let of_metadata = ["command", "parentDir", "filepath", "filePath", "url", "query", "pattern", "path"]
            .iter()
            .find_map(|key| text(&self.metadata, key));
        of_metadata.unwrap_or_else(|| match self.patterns.as_slice() {
            [] => self.name.clone(),
            patterns => format!("{} {}", self.name, patterns.join(", ")),
        })
    }

    /// What the agent shows of the call; where it shows nothing, the call's own input, else what it asks for.
    pub(super) fn input(&self, call: Option<&Value>) -> Value {
        let shown = &self.metadata;
        if shown.as_object().is_some_and(|fields| !fields.is_empty()) {
            return shown.clone();
        }
        match call.filter(|input| input.as_object().is_some_and(|fields| !fields.is_empty())) {
            Some(input) => input.clone(),
            None => json!({"permission": self.name, "patterns": self.patterns}),
        }
    }
}

/// What is known of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) parent: Option<String>,
    pub(super) title: String,
    /// `general`, `build`, …
    pub(super) agent: Option<String>,
    pub(super) directory: Option<String>,
}

impl Session {
    pub(super) fn read(from: &Value) -> Option<(String, Self)> {
        let session = Self {
            parent: text(from, "parentID"),
            title: text(from, "title").unwrap_or_default(),
            agent: text(from, "agent"),
            directory: text(from, "directory"),
        };
        Some((text(from, "id")?, session))
    }

    /// Without what opencode adds to it: `child (@general subagent)`.
    pub(super) fn own_title(&self) -> String {
        match self.title.strip_suffix(" subagent)").and_then(|title| title.rsplit_once(" (@")) {
            Some((own, agent)) if !own.is_empty() && !agent.contains(' ') => own.to_owned(),
            _ => self.title.clone(),
        }
    }

    /// The subagent's type: that of the session, else what its title says.
    pub(super) fn agent_type(&self) -> Option<String> {
        self.agent.clone().or_else(|| {
            let (_, agent) = self.title.strip_suffix(" subagent)")?.rsplit_once(" (@")?;
            Some(agent.to_owned())
        })
    }
}

/// The task call that started a child: child session, call id.
pub(super) fn spawned(part: &Value) -> Option<(String, String)> {
    if part["type"] != "tool" {
        return None;
    }
    Some((text(&part["state"]["metadata"], "sessionId")?, text(part, "callID")?))
}

/// A call that is over: its session, its id, and whether it ended well.
pub(super) fn ended(part: &Value) -> Option<(String, String, bool)> {
    if part["type"] != "tool" {
        return None;
    }
    let ok = match part["state"]["status"].as_str()? {
        "completed" => true,
        "error" => false,
        _ => return None,
    };
    Some((text(part, "sessionID")?, text(part, "callID")?, ok))
}

/// The input of one call among the parts of its message.
pub(super) fn input_of<'a>(message: &'a Value, call: &str) -> Option<&'a Value> {
    let parts = message["parts"].as_array()?;
    let part = parts.iter().find(|part| part["callID"] == call)?;
    Some(&part["state"]["input"])
}

pub(super) fn text(from: &Value, key: &str) -> Option<String> {
    from[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(from: &Value) -> Vec<String> {
    from.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As opencode 1.18.33 wrote it.
    fn bash() -> Value {
        json!({"id":"per_1","sessionID":"ses_1","permission":"bash","patterns":["touch x"],
            "metadata":{"command":"touch x"},"always":["touch *"],"tool":{"messageID":"msg_1","callID":"call_1"}})
    }

    #[test]
    fn a4_an_ask_has_title_kind_and_input_of_the_agents_own() {
        let ask = Permission::read(&bash()).unwrap();
        assert_eq!((ask.title().as_str(), ask.kind()), ("touch x", "execute"));
        assert_eq!(ask.input(Some(&json!({"command": "other"}))), json!({"command": "touch x"}));
        assert_eq!((ask.always, ask.call.as_deref()), (vec!["touch *".to_owned()], Some("call_1")));

        let outside = json!({"id":"per_2","sessionID":"s","permission":"external_directory","patterns":["/etc/*"],
            "metadata":{"filepath":"/etc/hostname","parentDir":"/etc"}});
        let ask = Permission::read(&outside).unwrap();
        assert_eq!((ask.title().as_str(), ask.kind(), ask.call), ("/etc", "other", None));
    }

    #[test]
    fn what_the_agent_does_not_show_is_taken_from_the_call() {
        let bare =
            json!({"id":"per_3","sessionID":"s","permission":"read","patterns":["a.rs"],"metadata":{}});
        let ask = Permission::read(&bare).unwrap();
        assert_eq!(ask.title(), "read a.rs");
        assert_eq!(ask.input(Some(&json!({"filePath": "/w/a.rs"}))), json!({"filePath": "/w/a.rs"}));
        assert_eq!(ask.input(None), json!({"permission": "read", "patterns": ["a.rs"]}));
        assert_eq!(Permission::read(&json!({"id": "per_4"})), None);
    }

    #[test]
    fn a_call_is_over_when_its_part_says_so() {
        let part = |status: &str| {
            ended(&json!({"type":"tool","sessionID":"s","callID":"c","state":{"status":status}}))
        };
        assert_eq!(part("completed"), Some(("s".to_owned(), "c".to_owned(), true)));
        assert_eq!(part("error"), Some(("s".to_owned(), "c".to_owned(), false)));
        assert_eq!((part("running"), ended(&json!({"type":"text"}))), (None, None));
    }

    #[test]
    fn a_child_is_named_by_its_own_title() {
        let read = |title: &str, agent: Option<&str>| {
            Session::read(&json!({"id": "c", "title": title, "agent": agent, "parentID": "p"})).unwrap().1
        };
        let child = read("find it (@general subagent)", None);
        assert_eq!((child.own_title().as_str(), child.agent_type().as_deref()), ("find it", Some("general")));
        let named = read("a (@b) c", Some("explore"));
        assert_eq!(
            (named.own_title().as_str(), named.agent_type().as_deref()),
            ("a (@b) c", Some("explore"))
        );
    }
}
