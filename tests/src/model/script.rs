//! What the model is to say: steps by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde_json::{Value, json};

/// A model's reply can be held back until the test opens its gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets the reply go, now and ever after.
    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    pub(super) fn pass(&self) {
        let mut open = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self.0.1.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One part of a reply.
#[derive(Clone)]
pub(super) enum Block {
    Text(String),
    Call { tool: String, input: Value },
}

/// One reply of the model.
#[derive(Clone)]
pub struct Step {
    pub(super) blocks: Vec<Block>,
    pub(super) gate: Option<Gate>,
}

impl Step {
    /// A text and nothing else: the end of the turn.
    pub fn say(text: &str) -> Self {
        Self { blocks: vec![Block::Text(text.to_owned())], gate: None }
    }

    /// One tool call.
    pub fn call(tool: &str, input: Value) -> Self {
        Self { blocks: vec![Block::Call { tool: tool.to_owned(), input }], gate: None }
    }

    /// A shell command.
    pub fn bash(command: &str) -> Self {
        Self::call("Bash", json!({"command": command, "description": "test step"}))
    }

    /// A subagent that plays `script`.
    pub fn agent(name: &str, script: &str, background: bool) -> Self {
        let input = json!({
            "description": name,
            "subagent_type": "general-purpose",
            "prompt": format!("play={script}"),
            "run_in_background": background,
        });
        Self::call("Agent", input)
    }

    /// Both in one message, so that they run at the same time.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.blocks.extend(other.blocks);
        self
    }

    /// Not before `gate` is open.
    #[must_use]
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

/// All scripts of one model. A conversation plays the script whose name follows the newest `play=` in its user
/// texts; so a subagent plays the one that its prompt names.
#[derive(Clone, Default)]
pub struct Scripts(pub(super) BTreeMap<String, Vec<Step>>);

impl Scripts {
    /// One script.
    pub fn of(name: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        Self::default().with(name, steps)
    }

    /// One more.
    #[must_use]
    pub fn with(mut self, name: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.0.insert(name.to_owned(), steps.into_iter().collect());
        self
    }
}
