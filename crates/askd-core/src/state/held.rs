//! What asks hold in memory, and how much of it there may be. A limit is a refusal, never a decision.

use serde_json::{Map, Value};

use crate::ask::{Action, Ask, Choice};
use crate::command::Raise;

use super::State;

/// What every ask costs besides its texts, about.
const EACH: usize = 1024;
const MIB: usize = 1024 * 1024;

impl State {
    /// Whether one more ask may be held, or which limit is reached and what to do about it.
    pub(super) fn room_for(&self, raise: &Raise) -> Result<(), String> {
        let limits = &self.settings;
        let waiting = usize::try_from(self.waiting(&raise.session)).unwrap_or(usize::MAX);
        if waiting >= limits.max_open_per_session {
            return Err(format!(
                "session {} has {waiting} open asks, the limit is {}; answer or withdraw some of them first",
                raise.session, limits.max_open_per_session
            ));
        }
        if self.asks.len() >= limits.max_held {
            return Err(format!(
                "askd holds {} asks that are open or not yet delivered, the limit is {}; answer or withdraw some of \
                 them first",
                self.asks.len(),
                limits.max_held
            ));
        }
        let size = EACH + of_parts(&raise.action, &raise.options, &raise.extra);
        if self.held_bytes.saturating_add(size) > limits.max_held_bytes {
            return Err(format!(
                "this ask has {size} bytes, and askd holds {} of at most {} MiB for asks that are open or not yet \
                 delivered; answer or withdraw some of them first, or ask with less",
                self.held_bytes,
                limits.max_held_bytes / MIB
            ));
        }
        let root = raise.parent.as_ref().map_or_else(|| self.root_of(&raise.session), |p| self.root_of(p));
        let share = limits.max_held_bytes_per_session;
        let held = self.held_by_root.get(&root).copied().unwrap_or(0);
        if held.saturating_add(size) > share {
            return Err(format!(
                "this ask has {size} bytes, and askd holds {held} of at most {} MiB for asks of {root} and its subagents \
                 that are open or not yet delivered; answer or withdraw some of them first, or ask with less",
                share / MIB
            ));
        }
        Ok(())
    }

    /// Counted by the root that an ask was made under, which its record keeps: what is told of its session later moves
    /// nothing here.
    pub(super) fn hold(&mut self, ask: &Ask) {
        let size = weight(ask);
        self.held_bytes = self.held_bytes.saturating_add(size);
        let of_root = self.held_by_root.entry(ask.lineage.root.clone()).or_default();
        *of_root = of_root.saturating_add(size);
    }

    pub(super) fn release(&mut self, ask: &Ask) {
        let size = weight(ask);
        self.held_bytes = self.held_bytes.saturating_sub(size);
        if let Some(of_root) = self.held_by_root.get_mut(&ask.lineage.root) {
            *of_root = of_root.saturating_sub(size);
            if *of_root == 0 {
                self.held_by_root.remove(&ask.lineage.root);
            }
        }
    }
}

/// Bytes that an ask holds, about.
fn weight(ask: &Ask) -> usize {
    EACH + of_parts(&ask.action, &ask.options, &ask.extra)
}

/// Everything else of an ask is limited by itself.
fn of_parts(action: &Action, options: &[Choice], extra: &Map<String, Value>) -> usize {
    let long = [&action.input, &action.title, &action.cwd, &action.kind];
    let texts = long.into_iter().flatten().map(String::len).sum::<usize>() + action.tool.len();
    let choices = options.iter().map(|choice| {
        let grants = choice.grants.as_ref().map_or(0, String::len);
        choice.id.len() + choice.label.len() + grants + choice.payload.as_ref().map_or(0, of_value)
    });
    texts + choices.sum::<usize>() + of_map(extra)
}

fn of_map(map: &Map<String, Value>) -> usize {
    map.iter().map(|(key, value)| key.len() + of_value(value)).sum()
}

fn of_value(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(list) => list.iter().map(of_value).sum(),
            Value::Object(map) => of_map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}
