//! What happens to an ask without a person: resolved once, when it is made.

use crate::ask::{AtDeadline, Attendance, Choice, ChoiceKind, Class, Decision, Policy};
use crate::command::Raise;
use crate::id::SessionKey;
use crate::settings::{HoldBackground, Unreachable};

use super::State;

impl State {
    pub(super) fn resolve_policy(&self, raise: &Raise, attendance: Attendance, options: &[Choice]) -> Policy {
        if attendance == Attendance::Foreground {
            return Policy::WAIT;
        }
        let s = &self.settings;
        let (timeout_ms, default, is_set) = match raise.class {
            Class::Tool => (s.background_timeout_ms, s.background_default, s.background_timeout_is_set),
            Class::Safety => (s.safety_timeout_ms, s.safety_default, s.safety_timeout_is_set),
        };
        // An agent that can ask by itself is not denied by a timer that nobody set.
        let hand_back = raise.own_prompt.is_some() && !is_set && raise.deadline_ms.is_none();
        // A timed allow is an `allow_once` or nothing.
        let can_allow = options.iter().any(|c| c.kind == ChoiceKind::AllowOnce);
        let at_deadline = match default {
            _ if hand_back => AtDeadline::HandBack,
            Decision::Allow if can_allow => AtDeadline::Answer(Decision::Allow),
            Decision::Allow | Decision::Deny => AtDeadline::Answer(Decision::Deny),
        };
        Policy { deadline_ms: Some(raise.deadline_ms.unwrap_or(timeout_ms)), at_deadline, deny_stops: false }
    }

    /// Nobody can be asked at all: fail closed at once.
    pub(super) fn is_unreachable(&self, root: &SessionKey) -> bool {
        match self.settings.unreachable {
            _ if self.settings.no_surfaces => true,
            Unreachable::WhenNoSurface => false,
            Unreachable::WhenNoneAttached => !self.is_reachable(root),
        }
    }

    /// Holding the requester is worth it although the agent's own prompt cannot appear meanwhile.
    pub(super) fn holds_blocked_prompt(&self, root: &SessionKey) -> bool {
        match self.settings.hold_background {
            HoldBackground::Always => true,
            HoldBackground::Never => false,
            HoldBackground::Auto => self.is_reachable(root),
        }
    }
}
