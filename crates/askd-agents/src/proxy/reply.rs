//! Answers for the agent's own server.

use std::time::Duration;

use super::log::Log;
use crate::hidden::{HiddenError, HiddenReply, HiddenSource, HiddenTold};

/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(2);

/// Answers the agent's server until it took the answer or no longer asks. `None`: it no longer asks. The first failure
/// is said as `name`.
pub(super) fn deliver(
    source: &dyn HiddenSource,
    id: &str,
    reply: HiddenReply,
    message: Option<&str>,
    (name, log): (&str, &Log),
) -> Option<HiddenTold> {
    let mut failed = false;
    again(source, id, reply, message, |why| {
        if !std::mem::replace(&mut failed, true) {
            log.say(format!("{name}: the answer did not reach the agent yet: {why}"));
        }
        std::thread::sleep(PAUSE);
    })
}

fn again(
    source: &dyn HiddenSource,
    id: &str,
    reply: HiddenReply,
    message: Option<&str>,
    mut failed: impl FnMut(&str),
) -> Option<HiddenTold> {
    loop {
        match source.reply(id, reply, message) {
            Ok(told) => return Some(told),
            Err(HiddenError::Gone) => return None,
            Err(HiddenError::Failed(why)) => failed(&why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::hidden::HiddenOption;

    /// A server that fails so often before it says what it says.
    struct Failing(AtomicU64, bool);

    impl HiddenSource for Failing {
        fn options(&self) -> &'static [HiddenOption] {
            &[]
        }

        fn reply(&self, _: &str, _: HiddenReply, _: Option<&str>) -> Result<HiddenTold, HiddenError> {
            match self.0.load(Ordering::Relaxed) {
                0 if self.1 => Ok(HiddenTold::AsSaid),
                0 => Err(HiddenError::Gone),
                left => {
                    self.0.store(left - 1, Ordering::Relaxed);
                    Err(HiddenError::Failed("it is busy".to_owned()))
                }
            }
        }

        fn forget(&self, _: &str) {}

        fn stop(&self) {}
    }

    #[test]
    fn an_answer_that_did_not_reach_the_agent_is_told_again() {
        for taken in [true, false] {
            let (source, mut failures) = (Failing(AtomicU64::new(3), taken), 0);
            let told = again(&source, "per_1", HiddenReply::Once, None, |_| failures += 1);
            assert_eq!(told.is_some(), taken);
            assert_eq!(failures, 3);
        }
    }
}
