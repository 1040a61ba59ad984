//! Takes an ask back, also when the daemon is away at that moment: one that comes back later has the ask from its
//! journal, and would let people answer what nobody waits for.

use std::time::{Duration, Instant};

use askd_wire::{Code, RaiseAsk};

use crate::error::Unavailable;
use crate::port::AskPort;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After the ask's grace a daemon ends it by itself, but that begins when the daemon does.
const AFTER_GRACE: Duration = Duration::from_secs(30);
/// A daemon that a person restarts, or that an upgrade replaces, is back by then.
const LEAST: Duration = Duration::from_secs(600);

/// Withdraws the ask by its key, again and again until the daemon took it or refused it, for the ask's grace and half
/// a minute and no less than ten minutes; it blocks meanwhile. An ask that cannot have reached a daemon is withdrawn
/// already. `cause`: one of those of [`askd_wire::WithdrawAsk`]. The error is that of the last attempt.
pub fn take_back(port: &mut dyn AskPort, raise: &RaiseAsk, cause: &str) -> Result<(), Unavailable> {
    if !port.may_be_known() {
        return Ok(());
    }
    until_taken(port, raise, |port| port.withdraw_key(&raise.key, cause))
}

/// Tells the daemon something of the ask until it took it or refused it, as long as [`take_back`] does.
pub(crate) fn until_taken(
    port: &mut dyn AskPort,
    raise: &RaiseAsk,
    mut tell: impl FnMut(&mut dyn AskPort) -> Result<(), Unavailable>,
) -> Result<(), Unavailable> {
    let patience = (Duration::from_secs(raise.grace_secs).saturating_add(AFTER_GRACE)).max(LEAST);
    let until = Instant::now().checked_add(patience);
    let mut pause = FIRST_PAUSE;
    loop {
        match tell(port) {
            Ok(()) => return Ok(()),
            Err(why) if !may_pass(&why) => return Err(why),
            Err(why) if until.is_some_and(|until| Instant::now() >= until) => return Err(why),
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Another attempt may bring something else.
fn may_pass(why: &Unavailable) -> bool {
    match why {
        Unavailable::Refused(problem) => matches!(problem.code, Code::NotRecorded | Code::CapReached),
        Unavailable::NotRunning(_)
        | Unavailable::Stopped
        | Unavailable::Released
        | Unavailable::CannotStart(_)
        | Unavailable::Fault(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use askd_wire::{Ask, Problem, Raised};

    use super::*;
    use crate::asker::Watch;

    /// A port whose withdrawals end as laid down.
    struct Laid {
        known: bool,
        ends: VecDeque<Result<(), Unavailable>>,
    }

    fn none<T>() -> Result<T, Unavailable> {
        Err(Unavailable::Fault("not laid down".to_owned()))
    }

    impl AskPort for Laid {
        fn raise(&mut self, _: &RaiseAsk) -> Result<Raised, Unavailable> {
            none()
        }
        fn ask_watched(&mut self, _: &RaiseAsk, _: &mut dyn Watch) -> Result<Ask, Unavailable> {
            none()
        }
        fn look(&mut self, _: &str) -> Result<Ask, Unavailable> {
            none()
        }
        fn handed(&mut self, _: &str) -> Result<(), Unavailable> {
            none()
        }
        fn confirmed(&mut self, _: &str) -> Result<(), Unavailable> {
            none()
        }
        fn withdraw_key(&mut self, key: &str, cause: &str) -> Result<(), Unavailable> {
            assert_eq!((key, cause), ("k1", "cancelled"));
            self.ends.pop_front().unwrap()
        }
        fn may_be_known(&self) -> bool {
            self.known
        }
    }

    fn raise() -> RaiseAsk {
        serde_json::from_str(
            r#"{"key":"k1","action":{"tool":"Bash"},"agent":"a","session":"s","requester":"script"}"#,
        )
        .unwrap()
    }

    fn refused(code: &str) -> Unavailable {
        let problem = format!(r#"{{"title":"No","status":400,"code":"{code}"}}"#);
        Unavailable::Refused(Box::new(serde_json::from_str::<Problem>(&problem).unwrap()))
    }

    #[test]
    fn c6_a_withdrawal_is_tried_until_a_daemon_has_it() {
        let away = || Err(Unavailable::NotRunning("x".into()));
        let ends = [away(), Err(Unavailable::Fault("cut".to_owned())), Err(refused("not_recorded")), Ok(())];
        let mut port = Laid { known: true, ends: ends.into() };
        take_back(&mut port, &raise(), "cancelled").unwrap();
        assert!(port.ends.is_empty());
    }

    #[test]
    fn what_is_refused_for_good_is_not_tried_again_and_what_was_never_sent_not_at_all() {
        let mut port = Laid { known: true, ends: [Err(refused("not_permitted"))].into() };
        assert!(take_back(&mut port, &raise(), "cancelled").unwrap_err().is_final_refusal());
        let mut port = Laid { known: false, ends: VecDeque::new() };
        take_back(&mut port, &raise(), "cancelled").unwrap();
    }
}
