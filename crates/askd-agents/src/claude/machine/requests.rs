//! What the agent asks of its host besides permissions: hooks, tools, dialogs. Nobody else can reply to it. With the host
//! gone the agent would wait for ever, because its input stays open; so it is told.

use super::super::message;
use super::Machine;
use crate::raw::Object;

/// A request at the host.
#[derive(Debug)]
pub(super) struct AtHost {
    kind: String,
    /// A hook that may stop a call before it runs.
    checks_call: bool,
}

impl Machine {
    /// The agent wants something of its host. True: the host is gone, and the agent was told so.
    pub(super) fn wants_host(&mut self, id: &str, request: &Object<'_>) -> bool {
        let kind = request.text("subtype").unwrap_or_default();
        let event = request.object("input").text("hook_event_name");
        let checks_call = kind == "hook_callback" && event.as_deref() == Some("PreToolUse");
        let asked = AtHost { kind, checks_call };
        if !self.host_gone {
            self.at_host.insert(id.to_owned(), asked);
            return false;
        }
        if self.closed {
            // It knows by itself that there is nobody.
            return false;
        }
        self.replies_itself(id, &asked);
        true
    }

    /// The host replied, or the agent does not wait any more.
    pub(super) fn host_has_replied(&mut self, id: &str) {
        self.at_host.remove(id);
    }

    /// The host went, and leaves these behind.
    pub(super) fn reply_for_host(&mut self) {
        for (id, asked) in std::mem::take(&mut self.at_host) {
            self.replies_itself(&id, &asked);
        }
    }

    /// A call that the host would have checked is neither denied nor let through unchecked: it becomes an ask.
    fn replies_itself(&mut self, id: &str, asked: &AtHost) {
        if !std::mem::replace(&mut self.missed, true) {
            let kind = &asked.kind;
            self.log(format!(
                "the host is gone: what only it can reply to ({kind}) gets an error, and calls that its hooks would check are asked about"
            ));
        }
        let line = if asked.checks_call { message::ask_about(id) } else { message::host_gone(id) };
        self.tell_agent(line);
    }
}
