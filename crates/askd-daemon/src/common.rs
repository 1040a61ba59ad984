//! An ask that several hear of at the same moment: one copy of it, rendered once for all of them.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;

use crate::masked::Sight;
use crate::view::Shot;

/// Largest input, in bytes, of an ask whose rendered form is kept: a large one is rendered for each reader, so that memory
/// holds it once.
const LARGEST_KEPT: usize = 16 * 1024;

/// A [`Shot`] that many hold; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CommonShot(Arc<Held>);

#[derive(Debug)]
struct Held {
    shot: Shot,
    full: OnceLock<Option<Bytes>>,
    masked: OnceLock<Option<Bytes>>,
}

impl CommonShot {
    pub(crate) fn new(shot: Shot) -> Self {
        Self(Arc::new(Held { shot, full: OnceLock::new(), masked: OnceLock::new() }))
    }

    /// The ask as JSON, as a reader may see it; `None`: it could not be rendered.
    pub(crate) fn json(&self, sight: Sight) -> Option<Bytes> {
        let make = || self.0.shot.to_json(sight).ok().map(Bytes::from);
        if self.input_bytes() > LARGEST_KEPT {
            return make();
        }
        let kept = match sight {
            Sight::Full => &self.0.full,
            Sight::Masked => &self.0.masked,
        };
        kept.get_or_init(make).clone()
    }

    /// Bytes of the input, of which everything else that is large is made.
    pub(crate) fn input_bytes(&self) -> usize {
        self.0.shot.ask.ask.action.input.as_ref().map_or(0, String::len)
    }
}

impl Deref for CommonShot {
    type Target = Shot;

    fn deref(&self) -> &Shot {
        &self.0.shot
    }
}

impl From<Shot> for CommonShot {
    fn from(shot: Shot) -> Self {
        Self::new(shot)
    }
}

/// An open ask with a secret in it.
#[cfg(test)]
pub(crate) fn of_test() -> CommonShot {
    use askd_core::state::State;
    use askd_core::{Command, Settings};

    let agent = askd_core::Instance { host: "here".to_owned(), pid: 7, start: 70 };
    let mut raise = crate::engine::raise_of_test(1, &agent);
    let secret = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
    raise.action.input = Some(format!(r#"{{"command":"push with {secret}"}}"#));
    let (mut state, now) = (State::new(Settings::default()), crate::clock::Clock::new().now());
    let id = raise.id;
    for change in state.handle(&Command::Raise(Box::new(raise)), now).changes {
        state.apply(&change, now);
    }
    let ask = state.ask(id).unwrap();
    CommonShot::new(Shot { root: ask.session().clone(), ask: ask.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_elsewhere_gets_is_never_what_one_here_gets() {
        let shot = of_test();
        let text = |sight| String::from_utf8(shot.json(sight).unwrap().to_vec()).unwrap();
        for _ in 0..2 {
            assert!(
                text(Sight::Full).contains("aB3dE5gH7jK9") && !text(Sight::Masked).contains("aB3dE5gH7jK9")
            );
        }
        let again = (shot.json(Sight::Full).unwrap(), shot.clone().json(Sight::Full).unwrap());
        assert_eq!(again.0.as_ptr(), again.1.as_ptr(), "rendered once");
    }
}
