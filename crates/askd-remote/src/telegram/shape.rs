//! The few shapes of the Bot API that are read. Unknown fields do not matter, and one broken update loses no other.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Deserialize)]
pub struct Update {
    pub update_id: i64,
    #[serde(default)]
    pub message: Option<Message>,
    #[serde(default)]
    pub callback_query: Option<Tap>,
}

impl Update {
    /// Reads one update; one that cannot be read is passed over by its number, and one without a number is none.
    pub fn read(value: Value) -> Option<Self> {
        let update_id = value.get("update_id")?.as_i64()?;
        Some(serde_json::from_value(value).unwrap_or(Self { update_id, message: None, callback_query: None }))
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Message {
    pub message_id: i64,
    /// Unix time in seconds, on Telegram's clock.
    #[serde(default)]
    pub date: i64,
    pub chat: Chat,
    #[serde(default)]
    pub from: Option<User>,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub reply_to_message: Option<Box<Self>>,
    /// It was written somewhere else.
    #[serde(default)]
    pub forward_origin: Option<Value>,
    /// It was written by another bot on the person's behalf.
    #[serde(default)]
    pub via_bot: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Chat {
    pub id: i64,
    #[serde(default, rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct User {
    pub id: i64,
    #[serde(default)]
    pub first_name: String,
    #[serde(default)]
    pub last_name: Option<String>,
    #[serde(default)]
    pub username: Option<String>,
}

impl User {
    /// As people call them.
    pub fn name(&self) -> String {
        let names = [Some(self.first_name.as_str()), self.last_name.as_deref()];
        let name: Vec<&str> = names.into_iter().flatten().filter(|name| !name.is_empty()).collect();
        match (name.is_empty(), &self.username) {
            (false, _) => name.join(" "),
            (true, Some(username)) => username.clone(),
            (true, None) => format!("user {}", self.id),
        }
    }
}

/// A button that somebody pressed.
#[derive(Debug, Clone, Deserialize)]
pub struct Tap {
    pub id: String,
    pub from: User,
    /// The message with the button, as far as the server still knows it.
    #[serde(default)]
    pub message: Option<Tapped>,
    #[serde(default)]
    pub data: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Tapped {
    pub message_id: i64,
    pub chat: Chat,
}
