//! What a requester can do, whether askd is a daemon or inside the host.

use askd_wire::{Ask, Decision, RaiseAsk, Raised};

use crate::asker::{Asker, JustWait, Watch};
use crate::error::{CallError, Unavailable};

/// A requester: [`Asker`] over a daemon, `askd_embed::Asker` inside the host. Both give the same asks and outcomes, and
/// neither turns a fault into a decision: what [`Unavailable`] means is for the host to decide.
pub trait AskPort {
    /// Raises the ask, or comes back to it, without waiting for its outcome: one attempt.
    fn raise(&mut self, raise: &RaiseAsk) -> Result<Raised, Unavailable>;

    /// Raises the ask and waits by `watch` until it is settled or handed back to the agent's own prompt. When the watch
    /// says stop, the ask is detached and this gives [`Unavailable::Abandoned`].
    fn ask_watched(&mut self, raise: &RaiseAsk, watch: &mut dyn Watch) -> Result<Ask, Unavailable>;

    /// The same, waiting as long as it takes.
    fn ask(&mut self, raise: &RaiseAsk) -> Result<Ask, Unavailable> {
        self.ask_watched(raise, &mut JustWait)
    }

    /// An ask of this requester as it is now.
    fn look(&mut self, id: &str) -> Result<Ask, Unavailable>;

    /// The outcome was given to the agent.
    fn handed(&mut self, id: &str) -> Result<(), Unavailable>;

    /// The agent did what the outcome said.
    fn confirmed(&mut self, id: &str) -> Result<(), Unavailable>;

    /// Takes the ask with this key back: one attempt; [`take_back`](crate::take_back) makes more. `cause`: one of
    /// those of [`askd_wire::WithdrawAsk`].
    fn withdraw_key(&mut self, key: &str, cause: &str) -> Result<(), Unavailable>;

    /// A hook of the host's own decided: this ask is over, and its record says what the hook decided; no other ask of
    /// the same call is touched. One attempt, which may be made again. `id`: the ask's, when it is known; else its key
    /// names it. A refusal with `already_settled` says that there is an answer for the agent already: that one counts.
    /// With `went_on` the agent has acted on the hook's decision, and such an answer is corrected instead.
    /// Where askd cannot be told of hooks (a forwarding directory, a daemon that is older), the ask is withdrawn as
    /// cancelled.
    fn decided_by_hook(
        &mut self,
        raise: &RaiseAsk,
        id: Option<&str>,
        decision: Decision,
        went_on: bool,
    ) -> Result<(), Unavailable> {
        let _ = (id, decision, went_on);
        self.withdraw_key(&raise.key, "cancelled")
    }

    /// False: nothing that was raised here can have reached askd, so there is nothing to take back.
    fn may_be_known(&self) -> bool {
        true
    }

    /// The same requester once more, for what is told from another thread. `None`: askd is in this process, and what
    /// it does not take now it will not take later.
    fn again(&self) -> Option<Box<dyn AskPort + Send>> {
        None
    }
}

impl AskPort for Asker {
    fn raise(&mut self, raise: &RaiseAsk) -> Result<Raised, Unavailable> {
        Self::raise(self, raise)
    }

    fn ask_watched(&mut self, raise: &RaiseAsk, watch: &mut dyn Watch) -> Result<Ask, Unavailable> {
        Self::ask_watched(self, raise, watch)
    }

    fn look(&mut self, id: &str) -> Result<Ask, Unavailable> {
        Self::look(self, id)
    }

    fn handed(&mut self, id: &str) -> Result<(), Unavailable> {
        Self::handed(self, id)
    }

    fn confirmed(&mut self, id: &str) -> Result<(), Unavailable> {
        Self::confirmed(self, id)
    }

    fn withdraw_key(&mut self, key: &str, cause: &str) -> Result<(), Unavailable> {
        Self::withdraw_key(self, key, cause)
    }

    fn decided_by_hook(
        &mut self,
        raise: &RaiseAsk,
        id: Option<&str>,
        decision: Decision,
        went_on: bool,
    ) -> Result<(), Unavailable> {
        Self::decided_by_hook(self, raise, id, decision, went_on)
    }

    fn may_be_known(&self) -> bool {
        Self::may_be_known(self)
    }

    fn again(&self) -> Option<Box<dyn AskPort + Send>> {
        Some(Box::new(self.twin()))
    }
}

impl From<std::io::Error> for Unavailable {
    fn from(error: std::io::Error) -> Self {
        Self::Fault(error.to_string())
    }
}

impl From<serde_json::Error> for Unavailable {
    fn from(error: serde_json::Error) -> Self {
        CallError::Encode(error).into()
    }
}
