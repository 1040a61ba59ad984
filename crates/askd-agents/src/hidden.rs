//! Asks that an agent holds without telling its client, and the contract of whoever watches for them.
//!
//! A watcher (e.g. of opencode's own HTTP server) sends [`HiddenEvent`]s; whoever shows them answers by
//! [`HiddenSource::reply`]. The watcher never decides, and never tells the same ask twice.

use std::sync::mpsc::Receiver;

use askd_wire::{Action, Choice, ChoiceKind, Class, RaiseAsk, Subagent};
use serde_json::Value;
use serde_json::value::to_raw_value;

use crate::proxy::plain_ask;

/// One ask as the agent's own server tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenAsk {
    /// The agent's id of this ask; unique as long as the agent runs.
    pub id: String,
    /// The session that asks: the child's when a subagent asks.
    pub session: String,
    /// The top of its chain of parents, a session that the client knows; the session itself when it has no parent.
    pub root: String,
    /// The subagent that asks; `None` when the root session asks by itself.
    pub subagent: Option<HiddenSubagent>,
    /// The agent's name of the tool, e.g. `bash`.
    pub tool: String,
    /// ACP tool kind of the call, e.g. `execute`.
    pub kind: String,
    /// One line for people about the call, e.g. the command.
    pub title: String,
    /// Input of the call.
    pub input: Value,
    /// The agent's id of the tool call.
    pub call: Option<String>,
    /// Where the call runs, when the server tells.
    pub cwd: Option<String>,
    /// What [`HiddenReply::Always`] would allow from then on, as the agent writes it; empty: it does not tell.
    pub always: Vec<String>,
}

impl HiddenAsk {
    /// What may be answered, in the agent's words; an answer for always says what it would grant.
    fn choices(&self, options: &[HiddenOption]) -> Vec<Choice> {
        let choice = |option: &HiddenOption| {
            let kind = match option.reply {
                HiddenReply::Once => ChoiceKind::AllowOnce,
                HiddenReply::Always => ChoiceKind::AllowAlways,
                HiddenReply::Reject => ChoiceKind::RejectOnce,
            };
            let mut choice = Choice::plain(option.id, option.name, kind);
            if option.reply == HiddenReply::Always && !self.always.is_empty() {
                choice.grants = Some(format!("{} {}", self.tool, self.always.join(", ")));
            }
            choice
        };
        options.iter().map(choice).collect()
    }

    /// The ask as askd gets it, with what its agent's server tells of it. Who is around it is for its carrier to say.
    pub(crate) fn question(&self, key: String, agent: &str, options: &[HiddenOption]) -> RaiseAsk {
        let action = Action {
            tool: if self.tool.is_empty() { "tool".to_owned() } else { self.tool.clone() },
            kind: Some(self.kind.clone()),
            title: Some(self.title.clone()),
            input: to_raw_value(&self.input).ok(),
            cwd: self.cwd.clone(),
        };
        RaiseAsk {
            // No rule and no skipping answers whether a loop may go on.
            class: if self.tool == LOOP { Class::Safety } else { Class::Tool },
            parent: self.subagent.as_ref().map(|child| child.parent.clone()),
            root: Some(self.root.clone()),
            subagent: self.subagent.as_ref().map(|child| Subagent {
                name: Some(child.title.clone()).filter(|title| !title.is_empty()),
                kind: child.agent_type.clone(),
                work_id: self.session.clone(),
                depth: (child.parent == self.root).then_some(1),
            }),
            tool_call: self.call.clone(),
            options: self.choices(options),
            ..plain_ask(key, agent, &self.session, action)
        }
    }
}

/// One way to answer, with the words that the agent itself uses for it towards its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenOption {
    pub id: &'static str,
    pub name: &'static str,
    /// ACP option kind.
    pub kind: &'static str,
    pub reply: HiddenReply,
}

/// Who asks, when a subagent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenSubagent {
    /// Title of the child's session.
    pub title: String,
    /// What kind of subagent, e.g. `general`.
    pub agent_type: Option<String>,
    /// The session that started it.
    pub parent: String,
    /// Call id of the parent's task call, when it is known.
    pub work: Option<String>,
}

/// What became of a hidden ask that is no longer open in the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenEnd {
    /// Somebody allowed it (also by our own reply).
    Allowed,
    /// The agent allowed it by itself, because somebody allowed another one for always.
    AllowedAlong,
    /// Somebody rejected it (also by our own reply).
    Rejected,
    /// It is not listed any more and nobody saw an answer.
    Vanished,
}

/// News from a watcher.
#[derive(Debug, Clone, PartialEq)]
pub enum HiddenEvent {
    Asked(Box<HiddenAsk>),
    Gone {
        id: String,
        how: HiddenEnd,
    },
    /// The agent's server cannot be heard: nothing of what it asks arrives. Told once until it is heard again.
    Unheard {
        address: String,
        why: String,
    },
    /// Where the agent's server tells it: a call that was asked about ended, well or not.
    CallEnded {
        session: String,
        call: String,
        ok: bool,
    },
    /// Where the agent's server tells it: a child session ended its turn or was deleted.
    ChildEnded {
        session: String,
    },
}

/// What the agent's server is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenReply {
    Once,
    Always,
    Reject,
}

/// opencode's name of its own question whether a loop may go on.
pub(crate) const LOOP: &str = "doom_loop";

/// What the watcher made of an answer that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenTold {
    /// The agent has it; a no goes at once.
    AsSaid,
    /// The agent has a yes for this once: for always it would have run what is denied and waits to be told so.
    OnceInstead,
    /// A no that the agent hears when the others of its session are answered.
    Held,
}

/// What [`Observation::DecidedByAgent`](askd_wire::Observation) says of [`HiddenEnd::AllowedAlong`].
pub(crate) const ALONG: &str = "answer for always to another ask";

/// For the log, of what was made of an answer.
pub(crate) fn told_otherwise(told: HiddenTold) -> Option<&'static str> {
    match told {
        HiddenTold::AsSaid => None,
        HiddenTold::OnceInstead => {
            Some("allowed once and not for always: the agent would have run what was denied beside it too")
        }
        HiddenTold::Held => Some(
            "denied; the agent hears it when what else it asks there is answered, until then its own prompt stays",
        ),
    }
}

/// For the log, of [`HiddenEvent::Unheard`].
pub(crate) fn unheard(address: &str, why: &str) -> String {
    format!("the agent's server at {address} is not heard ({why}): askd does not hear what is asked there")
}

/// Why a reply did not reach the agent.
#[derive(Debug, thiserror::Error)]
pub enum HiddenError {
    /// The agent does not have it open (any more).
    #[error("the agent no longer asks this")]
    Gone,
    #[error("the agent's server: {0}")]
    Failed(String),
}

/// An agent's server, as the proxy uses it. Calls may block for the time of one local HTTP exchange; they are made from
/// a thread of their own, never from one that reads the agent or the client.
pub trait HiddenSource: Send + Sync {
    /// What may be answered, in the agent's own order.
    fn options(&self) -> &'static [HiddenOption];

    /// Answers one ask. `message`: words for the model, used with [`HiddenReply::Reject`] only.
    ///
    /// `Ok`: the agent took it, or the watcher has it and gives it to the agent as soon as that harms no other ask;
    /// [`HiddenEvent::Gone`] tells when the agent has it.
    fn reply(&self, id: &str, reply: HiddenReply, message: Option<&str>) -> Result<HiddenTold, HiddenError>;

    /// Takes back a yes that the agent does not have yet: from then on it is not given, however often it is tried.
    fn forget(&self, id: &str);

    /// Stops watching and closes the event channel; asks that are open stay as they are.
    fn stop(&self);
}

/// A watcher that runs: its events, and the way back.
pub struct Hidden {
    pub events: Receiver<HiddenEvent>,
    pub source: std::sync::Arc<dyn HiddenSource>,
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hidden").finish_non_exhaustive()
    }
}

/// How to start an agent so that its hidden asks can be watched. One value per run of an agent.
pub trait HiddenAdapter {
    /// Changes the agent's command line and environment before it is started (adds a port, a password). Called once.
    fn prepare(&mut self, command: &mut std::process::Command);

    /// Starts watching the agent that was started with what [`Self::prepare`] set. Returns at once; connects by itself
    /// as soon as the agent's server answers.
    fn watch(&mut self) -> std::io::Result<Hidden>;
}
