//! Accepted settings that the config asks for no more. They are out of force from the moment that this is seen, and stay
//! out while the journal does not take it, however often it has to be tried: only another yes of a person lets them in.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::http::App;
use crate::publish::What;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Key and value.
pub(crate) type Pair = (String, String);

/// What the journal still has as accepted.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    pairs: BTreeSet<Pair>,
    /// Why it did not take that they are out.
    why: Option<String>,
}

impl Dropped {
    pub(crate) fn pairs(&self) -> &BTreeSet<Pair> {
        &self.pairs
    }

    pub(crate) fn add(&mut self, pairs: &BTreeSet<Pair>) {
        self.pairs.extend(pairs.iter().cloned());
    }

    /// The journal took it, or a person accepted it anew.
    pub(crate) fn remove(&mut self, pair: &Pair) {
        self.pairs.remove(pair);
        if self.pairs.is_empty() {
            self.why = None;
        }
    }

    pub(crate) fn failed(&mut self, why: String) {
        self.why = Some(why);
    }

    pub(crate) fn notice(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        let pairs: Vec<String> = self.pairs.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        Some(format!(
            "out of the config and out of force, but the journal does not take that ({why}); askd tries again, and a \
             daemon that starts before it is written down would believe them accepted: {}",
            pairs.join(", ")
        ))
    }
}

/// Writes down what was dropped, until the daemon leaves.
pub(crate) async fn keep(app: App) {
    let mut leave = app.leave.subscribe();
    let mut pause = FIRST_PAUSE;
    while app.leave.borrow().is_none() {
        if app.live.write_dropped(&app.engine).await {
            pause = FIRST_PAUSE;
            tokio::select! {
                () = app.live.dropped_news().notified() => {}
                _ = leave.wait_for(Option::is_some) => {}
            }
            continue;
        }
        if pause == FIRST_PAUSE
            && let Some(text) = app.live.with_dropped(|dropped| dropped.notice()).flatten()
        {
            tracing::warn!("{text}");
            app.hub.send(What::Notice(text));
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = leave.wait_for(Option::is_some) => {}
        }
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}
