//! The input guard: no input that began before an ask was on the screen answers it.

use std::time::Duration;

use crate::key::Key;

/// How long an ask, or a question about asks, must have been on the screen before it can be allowed. Keys that do
/// nothing start it anew: somebody is typing who means something else.
pub const ALLOW_AFTER: Duration = Duration::from_millis(400);

/// How long a key that answered, or opened what it could answer, does nothing more. Most terminals do not tell a key that
/// is held down from one that is pressed again, and a held key repeats at first after up to about this long, then much
/// faster; each repetition keeps it waiting.
pub const HELD_FOR: Duration = Duration::from_millis(700);

/// What is on the screen and can be answered there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// One ask, by id.
    Ask(String),
    /// The options of one ask, after the first of two keys.
    Options(String),
    /// The question about several asks, by the number of its asking.
    Bulk(u64),
}

/// What may be answered, and from when.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    target: Option<Target>,
    allow_at: Duration,
    /// Set while the person types into something that lost the keyboard: nothing is answered before this.
    quiet_at: Duration,
    /// The key that did something last, and until when it may still be that press.
    acted: Option<(Key, Duration)>,
}

impl Guard {
    /// This key answered, or opened what it could answer.
    pub(crate) fn acted(&mut self, key: Key, now: Duration) {
        self.acted = Some((key, now + HELD_FOR));
    }

    /// Whether this key may be the press that acted before, still held down. Another key ends that.
    pub(crate) fn is_held(&mut self, key: &Key, now: Duration) -> bool {
        match &mut self.acted {
            Some((held, until)) if held == key && now < *until => {
                *until = (*until).max(now + ALLOW_AFTER);
                true
            }
            acted => {
                *acted = None;
                false
            }
        }
    }

    /// The frame that was drawn last is on the screen, with this in it.
    pub(crate) fn on_screen(&mut self, target: Option<Target>, now: Duration) {
        if self.target != target {
            self.target = target;
            self.allow_at = now + ALLOW_AFTER;
        }
    }

    /// Nothing counts as seen any more; what is drawn next is new.
    pub(crate) fn blind(&mut self) {
        self.target = None;
    }

    /// A key came that did nothing here.
    pub(crate) fn absorbed(&mut self, now: Duration) {
        self.allow_at = self.allow_at.max(now + ALLOW_AFTER);
        if self.quiet_at > now {
            self.quiet_at = now + ALLOW_AFTER;
        }
    }

    /// More of the same target came into sight.
    pub(crate) fn saw_more(&mut self, now: Duration) {
        self.allow_at = self.allow_at.max(now + ALLOW_AFTER);
    }

    /// The keyboard was taken from a line that somebody was typing into: their next keys began there.
    pub(crate) fn took_over(&mut self, now: Duration) {
        self.quiet_at = now + ALLOW_AFTER;
        self.absorbed(now);
    }

    /// Whether keys still belong to what lost the keyboard.
    pub(crate) fn is_quiet(&self, now: Duration) -> bool {
        now < self.quiet_at
    }

    /// Whether a deny of it counts.
    pub(crate) fn may_deny(&self, target: &Target, now: Duration) -> bool {
        self.target.as_ref() == Some(target) && !self.is_quiet(now)
    }

    /// Whether an allow of it counts.
    pub(crate) fn may_allow(&self, target: &Target, now: Duration) -> bool {
        self.may_deny(target, now) && now >= self.allow_at
    }

    /// When an allow begins to count, if that is still to come.
    pub(crate) fn opens_at(&self, now: Duration) -> Option<Duration> {
        let at = self.allow_at.max(self.quiet_at);
        (self.target.is_some() && at > now).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ask(id: &str) -> Target {
        Target::Ask(id.to_owned())
    }

    #[test]
    fn what_is_not_on_the_screen_cannot_be_answered() {
        let mut guard = Guard::default();
        assert!(!guard.may_deny(&ask("a"), ms(1000)));
        guard.on_screen(Some(ask("a")), ms(1000));
        assert!(!guard.may_deny(&ask("b"), ms(9000)));
        guard.blind();
        assert!(!guard.may_deny(&ask("a"), ms(9000)));
    }

    #[test]
    fn deny_is_live_at_once_and_allow_after_a_while() {
        let mut guard = Guard::default();
        guard.on_screen(Some(ask("a")), ms(1000));
        assert!(guard.may_deny(&ask("a"), ms(1000)));
        assert!(!guard.may_allow(&ask("a"), ms(1399)));
        assert!(guard.may_allow(&ask("a"), ms(1400)));
        assert_eq!(guard.opens_at(ms(1000)), Some(ms(1400)));
        assert_eq!(guard.opens_at(ms(1400)), None);
    }

    #[test]
    fn an_absorbed_key_and_another_ask_start_it_anew() {
        let mut guard = Guard::default();
        guard.on_screen(Some(ask("a")), ms(0));
        guard.absorbed(ms(390));
        assert!(!guard.may_allow(&ask("a"), ms(789)));
        assert!(guard.may_allow(&ask("a"), ms(790)));
        // The same ask drawn again is not new.
        guard.on_screen(Some(ask("a")), ms(800));
        assert!(guard.may_allow(&ask("a"), ms(801)));
        guard.on_screen(Some(ask("b")), ms(900));
        assert!(!guard.may_allow(&ask("b"), ms(1299)));
        assert!(guard.may_deny(&ask("b"), ms(900)));
    }

    #[test]
    fn a_key_that_acted_does_nothing_more_until_it_was_let_go() {
        let (n, y) = (Key::Char('n'), Key::Char('y'));
        let mut guard = Guard::default();
        assert!(!guard.is_held(&n, ms(0)));
        guard.acted(n.clone(), ms(0));
        // Held: the first repetition comes late, the others fast, however long.
        assert!(guard.is_held(&n, ms(660)));
        assert!((1..300).all(|count| guard.is_held(&n, ms(660 + count * 33))));
        assert!(guard.is_held(&n, ms(660 + 299 * 33 + 399)));
        assert!(!guard.is_held(&n, ms(660 + 299 * 33 + 399 + 400)));
        // A key that was let go does not come back by itself: another one was pressed meanwhile.
        guard.acted(n.clone(), ms(0));
        assert!(!guard.is_held(&y, ms(100)));
        assert!(!guard.is_held(&n, ms(101)));
    }

    #[test]
    fn keys_meant_for_a_line_that_was_taken_away_answer_nothing() {
        let mut guard = Guard::default();
        guard.took_over(ms(0));
        guard.on_screen(Some(ask("a")), ms(10));
        assert!(!guard.may_deny(&ask("a"), ms(20)));
        guard.absorbed(ms(20));
        guard.absorbed(ms(300));
        assert!(!guard.may_deny(&ask("a"), ms(699)));
        assert!(guard.may_deny(&ask("a"), ms(700)));
    }
}
