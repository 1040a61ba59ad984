//! Telegram's side: messages, people's taps, and the updates that wait until they are confirmed.

use std::collections::BTreeMap;

use askd_remote::telegram::call::{Call, Refused, Sent};
use serde_json::{Value, json};

pub(super) const CHAT: i64 = 11;
pub(super) const ANNA: i64 = 11;
pub(super) const STRANGER: i64 = 66;

/// A message of the bot.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    pub(super) text: String,
    /// Label and data of the buttons that it has now.
    pub(super) buttons: Vec<(String, String)>,
    /// The bot never heard that it was sent, and nobody told it since.
    pub(super) unheard: bool,
}

/// What a tap would mean if it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tap {
    pub(super) handle: String,
    pub(super) allow: bool,
    /// By somebody who may, on a button of askd.
    pub(super) counts: bool,
}

#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) messages: BTreeMap<i64, Shown>,
    /// Every button that ever was: message, label, data, handle.
    pub(super) buttons: Vec<(i64, String, String, String)>,
    updates: Vec<(i64, Value)>,
    pub(super) taps: BTreeMap<i64, Tap>,
    next: i64,
}

impl Server {
    pub(super) fn tap(&mut self, person: i64, at: usize, forge: bool) {
        let (message, label, mut data, handle) = self.buttons[at].clone();
        if forge {
            // A no that would be a yes, and the other way round.
            data = match data.get(1..2) {
                Some("y") => data.replacen('y', "n", 1),
                _ => data.replacen('n', "y", 1),
            };
        }
        self.next += 1;
        let plain = label.contains("Allow once") || label.contains("⛔ Deny");
        let counts = person == ANNA && !forge && plain;
        self.taps.insert(self.next, Tap { handle, allow: label.contains("Allow"), counts });
        if let Some(shown) = self.messages.get_mut(&message).filter(|_| person == ANNA && !forge) {
            shown.unheard = false;
        }
        let update = json!({"update_id": self.next, "callback_query": {
            "id": format!("t{}", self.next), "from": {"id": person, "first_name": "P"}, "data": data,
            "message": {"message_id": message, "chat": {"id": CHAT, "type": "private"}},
        }});
        self.updates.push((self.next, update));
    }

    /// Forgets what is confirmed, which is given back, and tells what waits.
    pub(super) fn poll(&mut self, offset: i64) -> (Vec<Tap>, Sent) {
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.updates).into_iter().partition(|(number, _)| *number < offset);
        self.updates = left;
        let confirmed = gone.iter().filter_map(|(number, _)| self.taps.get(number).cloned()).collect();
        let list: Vec<Value> = self.updates.iter().take(3).map(|(_, update)| update.clone()).collect();
        (confirmed, Sent::Done(Value::Array(list)))
    }

    pub(super) fn waits(&self) -> bool {
        !self.updates.is_empty()
    }

    /// Does a call. `heard`: the bot will hear of it.
    pub(super) fn act(&mut self, call: &Call, heard: bool) -> Sent {
        match call {
            Call::Send { text, buttons, .. } => {
                let id = i64::try_from(self.messages.len()).unwrap() + 100;
                let shown = Shown { unheard: !heard, ..self.shown(id, &text.plain, buttons) };
                self.messages.insert(id, shown);
                Sent::Done(json!({"message_id": id, "date": 1}))
            }
            Call::Edit { message, text, buttons, .. } => {
                let shown = self.shown(*message, &text.plain, buttons);
                let before = self.messages.insert(*message, shown.clone()).unwrap();
                if before.text == shown.text && before.buttons == shown.buttons {
                    return refused(400, "Bad Request: message is not modified");
                }
                Sent::Done(json!({"message_id": message, "date": 1}))
            }
            Call::Toast { .. } | Call::Me => Sent::Done(json!(true)),
            Call::Poll { .. } => unreachable!("polls have a way of their own"),
        }
    }

    fn shown(&mut self, id: i64, text: &str, buttons: &[Vec<(String, String)>]) -> Shown {
        let buttons: Vec<(String, String)> = buttons.iter().flatten().cloned().collect();
        let handle = text.split(' ').next().unwrap_or_default();
        for (label, data) in &buttons {
            let known = self.buttons.iter().any(|(message, _, known, _)| *message == id && known == data);
            if !known {
                self.buttons.push((id, label.clone(), data.clone(), handle.to_owned()));
            }
        }
        Shown { text: text.to_owned(), buttons, unheard: false }
    }
}

pub(super) fn refused(code: i64, description: &str) -> Sent {
    let retry_after = (code == 429).then_some(2);
    Sent::Refused(Refused { code, description: description.to_owned(), retry_after, migrate_to: None })
}
