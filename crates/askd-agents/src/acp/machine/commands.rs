//! `/permissions` and `/skip-permissions`, typed in the client and answered by askd.

use serde_json::value::RawValue;

use super::super::Errand;
use super::super::message::{self, Id};
use super::super::raw::{Object, quote};
use super::Machine;

const OURS: [(&str, &str, &str); 2] = [
    (
        "permissions",
        "askd: what happens without a person, and the open asks",
        "default allow|deny [safety], or timeout SECS [safety]",
    ),
    ("skip-permissions", "askd: allow every tool ask of this session without asking", "on|off"),
];

/// A prompt that askd answers.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) id: Id,
    session: String,
}

/// The command that a prompt is, if it is one of ours.
pub(super) fn typed(params: &Object<'_>) -> Option<String> {
    let blocks: Vec<&RawValue> = serde_json::from_str(params.get("prompt")?).ok()?;
    let block = Object::parse(blocks.first()?.get())?;
    if block.text("type").as_deref() != Some("text") {
        return None;
    }
    let text = block.text("text")?;
    let text = text.trim();
    let word = text.strip_prefix('/')?.split_whitespace().next()?;
    OURS.iter().any(|(name, _, _)| *name == word).then(|| text.to_owned())
}

/// An `available_commands_update` with ours among the agent's; its params are given.
pub(super) fn with_ours(params: &str) -> Option<Vec<u8>> {
    let mut params = Object::parse(params)?;
    let mut update = params.object("update");
    let told: Vec<&RawValue> = serde_json::from_str(update.get("availableCommands")?).ok()?;
    let is_ours = |text: &str| {
        let name = Object::parse(text).and_then(|command| command.text("name"));
        name.is_some_and(|name| OURS.iter().any(|(ours, _, _)| *ours == name))
    };
    let mut commands: Vec<String> =
        told.iter().map(|raw| raw.get()).filter(|text| !is_ours(text)).map(str::to_owned).collect();
    commands.extend(ours());
    let commands = format!("[{}]", commands.join(","));
    update.set("availableCommands", commands);
    let update = update.to_string();
    params.set("update", update);
    Some(message::notification("session/update", &params.to_string()))
}

fn ours() -> impl Iterator<Item = String> {
    OURS.iter().map(|(name, description, hint)| {
        format!(
            "{{\"name\":{},\"description\":{},\"input\":{{\"hint\":{}}}}}",
            quote(name),
            quote(description),
            quote(hint)
        )
    })
}

impl Machine {
    /// For a session whose agent has told no commands of its own.
    pub(super) fn offer_commands(&mut self, session: &str) {
        let commands: Vec<String> = ours().collect();
        let update = format!(
            "{{\"sessionUpdate\":\"available_commands_update\",\"availableCommands\":[{}]}}",
            commands.join(",")
        );
        let line = self.update(session, &update);
        self.tell_client(line);
    }

    /// A `session/update` of ours.
    pub(super) fn update(&self, session: &str, update: &str) -> Vec<u8> {
        let params = format!("{{\"sessionId\":{},\"update\":{update}}}", quote(session));
        message::notification("session/update", &params)
    }

    pub(super) fn command(&mut self, id: Id, session: String, text: String) {
        let ticket = self.number();
        let agent = self.agent.clone();
        self.tickets.insert(ticket, Ticket { id, session: session.clone() });
        self.errand(Errand::Slash { ticket, text, agent, session });
    }

    pub(super) fn command_answered(&mut self, ticket: u64, text: &str) {
        let Some(Ticket { id, session }) = self.tickets.remove(&ticket) else { return };
        let update = format!(
            "{{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":{}}}}}",
            quote(text)
        );
        let line = self.update(&session, &update);
        self.tell_client(line);
        self.tell_client(message::response(&id, "{\"stopReason\":\"end_turn\"}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prompt: &str) -> Option<String> {
        typed(&Object::parse(&format!("{{\"prompt\":{prompt}}}")).unwrap())
    }

    #[test]
    fn a14_only_our_commands_are_ours() {
        let text = |text: &str| of(&format!("[{{\"type\":\"text\",\"text\":{}}}]", quote(text)));
        assert_eq!(text(" /permissions default allow "), Some("/permissions default allow".to_owned()));
        assert_eq!(text("/skip-permissions"), Some("/skip-permissions".to_owned()));
        for other in ["/permissionsx", "permissions", "please /permissions", "/review", "", "/"] {
            assert_eq!(text(other), None, "{other}");
        }
        assert_eq!(of("[]"), None);
        assert_eq!(of(r#"[{"type":"image","text":"/permissions"}]"#), None);
    }

    #[test]
    fn a14_our_commands_stand_beside_the_agents() {
        let params = r#"{"sessionId":"s","update":{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"review","description":"d","x":1.0},{"name":"permissions","description":"theirs"}]}}"#;
        let line = String::from_utf8(with_ours(params).unwrap()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let commands = value["params"]["update"]["availableCommands"].as_array().unwrap();
        let names: Vec<_> = commands.iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["review", "permissions", "skip-permissions"]);
        assert!(line.contains(r#"{"name":"review","description":"d","x":1.0}"#));
    }
}
