//! What Telegram's server does not do, each row with its source. The double refuses by these rows alone, and
//! `tests/telegram/double.rs` tests every row.

use serde_json::{Value, json};

/// One limit of the Bot API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub name: &'static str,
    /// The number of it, where there is one.
    pub most: usize,
    pub code: u16,
    /// The beginning of the server's description.
    pub says: &'static str,
    /// Where it is written down: a section of the Bot API's documentation, or a source file of the server.
    pub source: &'static str,
}

macro_rules! limits {
    ($($name:ident = $most:literal, $code:literal, $says:literal, $source:literal;)+) => {
        $(pub const $name: Limit =
            Limit { name: stringify!($name), most: $most, code: $code, says: $says, source: $source };)+
        /// All of them.
        pub const ALL: &[Limit] = &[$($name),+];
    };
}

limits! {
    TEXT = 4096, 400, "Bad Request: message is too long", "Bot API, sendMessage: 1-4096 characters after entities parsing";
    NO_TEXT = 0, 400, "Bad Request: message text is empty", "Bot API, sendMessage: 1-4096 characters after entities parsing";
    ENTITIES = 0, 400, "Bad Request: can't parse entities", "Bot API, Formatting options, HTML style";
    BUTTON_DATA = 64, 400, "Bad Request: BUTTON_DATA_INVALID", "Bot API, InlineKeyboardButton: callback_data 1-64 bytes";
    TOAST = 200, 400, "Bad Request: MESSAGE_TOO_LONG", "Bot API, answerCallbackQuery: text 0-200 characters";
    TAP_AGE = 0, 400, "Bad Request: query is too old and response timeout expired or query ID is invalid", "telegram-bot-api, Client.cpp, on QUERY_ID_INVALID";
    NOT_MODIFIED = 0, 400, "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message", "telegram-bot-api, Client.cpp, on MESSAGE_NOT_MODIFIED";
    NO_MESSAGE = 0, 400, "Bad Request: message to edit not found", "telegram-bot-api, Client.cpp, check_message";
    NOT_EDITABLE = 0, 400, "Bad Request: message can't be edited", "telegram-bot-api, Client.cpp, on MESSAGE_EDIT_TIME_EXPIRED";
    NO_CHAT = 0, 400, "Bad Request: chat not found", "telegram-bot-api, Client.cpp, check_chat";
    SUPERGROUP = 0, 400, "Bad Request: group chat was upgraded to a supergroup chat", "Bot API, ResponseParameters: migrate_to_chat_id";
    BLOCKED = 0, 403, "Forbidden: bot was blocked by the user", "telegram-bot-api, Client.cpp, on USER_IS_BLOCKED";
    TOKEN = 0, 401, "Unauthorized", "Bot API, Making requests";
    SECOND_POLL = 0, 409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running", "telegram-bot-api, Client.cpp, long poll";
    WEBHOOK = 0, 409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first", "Bot API, getUpdates, note 1";
    UPDATES = 100, 200, "", "Bot API, getUpdates: limit 1-100";
    SELECTIVE = 0, 200, "", "Bot API, ForceReply: selective means the author of the message that it replies to";
    FLOOD = 0, 429, "Too Many Requests: retry after", "Bot API, ResponseParameters: retry_after";
}

impl Limit {
    /// The server's refusal.
    pub fn refusal(self) -> (u16, Value) {
        (self.code, json!({"ok": false, "error_code": self.code, "description": self.says}))
    }
}

/// Text after its entities were parsed; `None`: it cannot be.
pub fn parse_html(html: &str) -> Option<String> {
    let (mut text, mut open) = (String::new(), Vec::new());
    let mut rest = html;
    while let Some(at) = rest.find(['<', '&']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(entity) = rest.strip_prefix('&') {
            let (name, after) = entity.split_once(';')?;
            text.push(match name {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                _ => return None,
            });
            rest = after;
        } else {
            let (tag, after) = rest[1..].split_once('>')?;
            match tag.strip_prefix('/') {
                Some(tag) => {
                    if open.pop() != Some(tag) {
                        return None;
                    }
                }
                None if ["b", "i", "pre", "code"].contains(&tag) => open.push(tag),
                None => return None,
            }
            rest = after;
        }
    }
    text.push_str(rest);
    open.is_empty().then_some(text)
}
