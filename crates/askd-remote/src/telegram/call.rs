//! Calls of the Bot API as data, and what comes of them.

use serde_json::{Value, json};

use super::text::{Keyboard, Text};

/// What a call is.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    Send {
        chat: i64,
        text: Text,
        buttons: Keyboard,
        /// Ask for a reply to it.
        force_reply: bool,
        /// The message that it is a reply to.
        reply_to: Option<i64>,
        /// Without marks: the server did not like them.
        plain: bool,
    },
    Edit {
        chat: i64,
        message: i64,
        text: Text,
        buttons: Keyboard,
        plain: bool,
    },
    /// The answer to a tap, shown for a moment.
    Toast {
        tap: String,
        text: String,
    },
    /// How the bot is called.
    Me,
    Poll {
        offset: i64,
        timeout_secs: u64,
    },
}

impl Call {
    pub fn method(&self) -> &'static str {
        match self {
            Self::Send { .. } => "sendMessage",
            Self::Edit { .. } => "editMessageText",
            Self::Toast { .. } => "answerCallbackQuery",
            Self::Me => "getMe",
            Self::Poll { .. } => "getUpdates",
        }
    }

    pub fn body(&self) -> Value {
        let mut body = match self {
            Self::Send { chat, .. } => json!({"chat_id": chat}),
            Self::Edit { chat, message, .. } => json!({"chat_id": chat, "message_id": message}),
            Self::Toast { tap, text } => return json!({"callback_query_id": tap, "text": text}),
            Self::Me => return json!({}),
            Self::Poll { offset, timeout_secs } => {
                return json!({
                    "offset": offset,
                    "timeout": timeout_secs,
                    "limit": MOST_UPDATES,
                    "allowed_updates": ["message", "callback_query"],
                });
            }
        };
        let (Self::Send { text, buttons, plain, .. } | Self::Edit { text, buttons, plain, .. }) = self else {
            return body;
        };
        if *plain {
            body["text"] = text.plain.as_str().into();
        } else {
            body["text"] = text.html.as_str().into();
            body["parse_mode"] = "HTML".into();
        }
        // Whoever fetches an address for a preview tells its server that somebody looked.
        body["link_preview_options"] = json!({"is_disabled": true});
        if !buttons.is_empty() {
            let rows: Vec<Vec<Value>> = buttons
                .iter()
                .map(|row| {
                    row.iter().map(|(label, data)| json!({"text": label, "callback_data": data})).collect()
                })
                .collect();
            body["reply_markup"] = json!({"inline_keyboard": rows});
        }
        if let Self::Send { force_reply, reply_to, .. } = self {
            if *force_reply {
                // To everybody there: `selective` would mean whoever wrote the message that it replies to, and that is
                // the bot itself. Whoever is not on the list says nothing by it.
                body["reply_markup"] = json!({"force_reply": true});
            }
            if let Some(message) = reply_to {
                body["reply_parameters"] =
                    json!({"message_id": message, "allow_sending_without_reply": true});
            }
        }
        body
    }
}

/// Updates that one poll may bring.
pub const MOST_UPDATES: usize = 100;

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// The server's `result`.
    Done(Value),
    Refused(Refused),
    /// It may have been done or not. For people; without a token in it.
    Unreachable(String),
}

/// A reply with `ok: false`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    pub code: i64,
    pub description: String,
    /// Seconds to wait, with 429.
    pub retry_after: Option<u64>,
    /// The group has this id now.
    pub migrate_to: Option<i64>,
}

impl Sent {
    /// Reads a reply of the server.
    pub fn read(status: u16, body: &[u8]) -> Self {
        let Ok(reply) = serde_json::from_slice::<Value>(body) else {
            return Self::Unreachable(format!("the Bot API server answered {status} and no JSON"));
        };
        if reply["ok"] == true {
            return Self::Done(reply["result"].clone());
        }
        let parameters = &reply["parameters"];
        Self::Refused(Refused {
            code: reply["error_code"].as_i64().unwrap_or_else(|| i64::from(status)),
            description: askd_text::cut(reply["description"].as_str().unwrap_or("no reason given"), 200),
            retry_after: parameters["retry_after"].as_u64(),
            migrate_to: parameters["migrate_to_chat_id"].as_i64(),
        })
    }
}
