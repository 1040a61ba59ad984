//! What is known of sessions and of the tool calls in them.

use std::collections::HashMap;
use std::time::Duration;

use askd_wire::Observation;

use super::super::Errand;
use super::super::ask::Call;
use super::super::raw::Object;
use super::{Machine, settle::Fate};

/// Calls of one session that are remembered; older ones that are over go first.
const MOST_CALLS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) parent: Option<String>,
    pub(super) title: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) cwd: Option<String>,
    /// Keys of the running prompts' request ids.
    pub(super) prompts: Vec<String>,
    /// Those of them that were cancelled.
    pub(super) ending: Vec<String>,
    /// A newer prompt runs beside them: until when their results are awaited.
    pub(super) ending_until: Option<Duration>,
    pub(super) turn: u64,
    /// A child that the client cancelled by its own id, and that has not ended yet.
    pub(super) cancelling: bool,
    pub(super) calls: HashMap<String, Call>,
    /// The agent told its commands.
    pub(super) has_commands: bool,
    /// The client may cancel this child by itself.
    pub(super) can_cancel: bool,
    /// The client made or opened it.
    pub(super) root: bool,
    /// The client is registered as its surface; no longer when it has left.
    pub(super) attached: bool,
    /// We told the client of this child.
    pub(super) announced: bool,
    /// And that it works no more.
    pub(super) idle: bool,
}

/// A child session as one of the three shapes tells it.
pub(super) struct Child {
    pub(super) session: String,
    title: Option<String>,
    kind: Option<String>,
    can_cancel: bool,
    pub(super) ended: bool,
}

impl Child {
    /// Reads `subagent_update` (with `sessionId` or `subagentSessionId`), `subagent_spawned`, `subagent_state_update`.
    pub(super) fn read(update: &Object<'_>) -> Option<Self> {
        let session = update.text("sessionId").or_else(|| update.text("subagentSessionId"))?;
        let state = update.text("state").or_else(|| update.object("state").text("state"));
        let reason = update.text("stopReason").or_else(|| update.object("state").text("stopReason"));
        let capabilities = update.object("capabilities");
        Some(Self {
            session,
            title: update.text("title").or_else(|| update.text("name")),
            kind: update.text("description").or_else(|| update.text("task")),
            can_cancel: capabilities.get("cancel").is_some_and(|c| c != "false" && c != "null"),
            ended: match state.as_deref() {
                Some("idle") => reason.is_some(),
                Some("completed" | "failed" | "cancelled" | "canceled" | "stopped" | "ended") => true,
                _ => false,
            },
        })
    }
}

impl Machine {
    pub(super) fn root_of(&self, session: &str) -> String {
        let mut at = session;
        // Bounded, so that a loop in what agents tell ends.
        for _ in 0..=self.sessions.len() {
            match self.sessions.get(at).and_then(|s| s.parent.as_deref()) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        at.to_owned()
    }

    pub(super) fn descends(&self, session: &str, top: &str) -> bool {
        let mut at = session;
        for _ in 0..=self.sessions.len() {
            if at == top {
                return true;
            }
            match self.sessions.get(at).and_then(|s| s.parent.as_deref()) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }

    /// Cancelled, itself or with what it belongs to, and not ended yet: nothing is asked, and nothing may be allowed.
    pub(super) fn is_cancelling(&self, session: &str) -> bool {
        let mut at = session;
        for _ in 0..=self.sessions.len() {
            let Some(known) = self.sessions.get(at) else { return false };
            let awaited = known.ending_until.is_none_or(|until| self.now < until);
            if known.cancelling || (!known.ending.is_empty() && awaited) {
                return true;
            }
            match known.parent.as_deref() {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }

    pub(super) fn within(&self, top: &str) -> Vec<String> {
        self.sessions.keys().filter(|s| self.descends(s, top)).cloned().collect()
    }

    pub(super) fn is_child(&self, session: &str) -> bool {
        self.sessions.get(session).is_some_and(|s| s.parent.is_some())
    }

    pub(super) fn depth(&self, session: &str) -> u32 {
        let mut depth = 0;
        let mut at = session;
        while let Some(parent) = self.sessions.get(at).and_then(|s| s.parent.as_deref()) {
            depth += 1;
            at = parent;
            if depth > 1000 {
                break;
            }
        }
        depth
    }

    /// A session that the client made or opened.
    pub(super) fn root_session(&mut self, session: &str, cwd: Option<String>) {
        let known = self.sessions.entry(session.to_owned()).or_default();
        known.cwd = cwd.or_else(|| known.cwd.take());
        known.root = true;
        let is_new = !std::mem::replace(&mut known.attached, true);
        let offers = !known.has_commands;
        self.observe(session, vec![Observation::SessionStarted {}]);
        if is_new && !self.client.gone {
            self.errand(Errand::Attach {
                agent: self.agent.clone(),
                session: session.to_owned(),
                client: self.client.name.clone(),
            });
        }
        if offers {
            self.offer_commands(session);
        }
    }

    pub(super) fn detach(&mut self, session: &str) {
        if let Some(known) = self.sessions.get_mut(session)
            && std::mem::take(&mut known.attached)
        {
            self.errand(Errand::Detach { session: session.to_owned() });
        }
    }

    /// The agent told of a child.
    pub(super) fn child_told(&mut self, parent: &str, child: Child) {
        if child.session == parent || self.descends(parent, &child.session) {
            return;
        }
        let cwd = self.sessions.get(parent).and_then(|s| s.cwd.clone());
        let known = self.sessions.entry(child.session.clone()).or_default();
        let before = (known.parent.clone(), known.title.clone());
        known.parent = Some(parent.to_owned());
        known.title = child.title.or_else(|| known.title.take());
        known.kind = child.kind.or_else(|| known.kind.take());
        known.cwd = known.cwd.take().or(cwd);
        known.can_cancel |= child.can_cancel;
        if before != (known.parent.clone(), known.title.clone()) {
            self.observe(&child.session, vec![Observation::SessionStarted {}]);
        }
        // An ask that came before its session was announced has its root now.
        let root = self.root_of(parent);
        for no in self.open_asks() {
            if let Some(slot) = self.asks.get_mut(&no).filter(|s| s.session == child.session) {
                slot.root.clone_from(&root);
            }
        }
        if child.ended {
            self.child_ended(&child.session);
        } else if self.is_cancelling(&child.session) {
            self.end_asks(&child.session, "cancelled");
        }
    }

    /// A child's turn is over: its own asks end, those of children that outlive it do not.
    pub(super) fn child_ended(&mut self, session: &str) {
        for no in self.open_asks() {
            if self.asks.get(&no).is_some_and(|s| s.session == session) {
                self.settle(no, Fate::Ended { cause: "session_ended", tell_agent: true });
            }
        }
        if let Some(known) = self.sessions.get_mut(session) {
            known.cancelling = false;
        }
        self.observe(session, vec![Observation::SubagentEnded { work_id: session.to_owned() }]);
    }

    /// A tool call was told or changed.
    pub(super) fn call_told(&mut self, session: &str, call: Call) {
        let id = call.id.clone();
        let calls = &mut self.sessions.entry(session.to_owned()).or_default().calls;
        let known = calls.entry(id.clone()).or_insert_with(|| Call { id: id.clone(), ..Call::default() });
        let was_over = known.is_over();
        known.update(call);
        if !known.is_over() {
            return;
        }
        let ran = known.status.as_deref() == Some("completed");
        known.shrink();
        if calls.len() > MOST_CALLS {
            calls.retain(|other, call| *other == id || !call.is_over());
        }
        if !was_over {
            self.call_over(session, &id, ran);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Child {
        Child::read(&Object::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn a3_all_three_shapes_of_a_child_are_read() {
        let now = read(
            r#"{"sessionUpdate":"subagent_update","sessionId":"c","title":"T","capabilities":{"cancel":{}},"state":{"state":"running"}}"#,
        );
        assert_eq!((now.session.as_str(), now.title.as_deref(), now.can_cancel), ("c", Some("T"), true));
        assert!(!now.ended);
        let over = read(r#"{"subagentSessionId":"c","state":{"state":"idle","stopReason":"end_turn"}}"#);
        assert!(over.ended && !over.can_cancel);
        let spawned =
            read(r#"{"subagentSessionId":"c","name":"N","task":"t","capabilities":{"cancel":false}}"#);
        assert_eq!((spawned.title.as_deref(), spawned.can_cancel), (Some("N"), false));
        assert!(read(r#"{"subagentSessionId":"c","state":"completed"}"#).ended);
        assert!(!read(r#"{"sessionId":"c","state":{"state":"idle"}}"#).ended);
    }
}
